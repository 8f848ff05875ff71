"""Commands on what consumers hold: XPENDING, XCLAIM, XAUTOCLAIM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.effects import Deliver, Effect
from headgate.core.model.ids import AppId
from headgate.core.model.stream_id import StreamId
from headgate.core.reader_commands import ListPending, Survey, TakeOver
from headgate.core.reader_effects import ClaimDone, PendingListed, Surveyed
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import CommandError, NoArray, Reply
from headgate.wire.resp.commands.stream_commands import (
    ENTRIES_STEPS,
    ID_STEPS,
    READ,
    READING,
    SYNTAX,
    WRITE_FAST,
    WRITING_FAST,
    GroupRefusal,
    app_of,
    client_of,
    entries,
    no_group,
    stream_of,
)
from headgate.wire.resp.commands.table import CommandTable, quoted
from headgate.wire.resp.streams.awaited import Asked, PendingAnswer
from headgate.wire.resp.streams.ids import read_bound, read_id, write_id
from headgate.wire.resp.streams.keys import StreamName
from headgate.wire.resp.streams.reader_names import read_name

if TYPE_CHECKING:
    from headgate.core.model.ids import SessionId
    from headgate.wire.resp.session import RespSession

table = CommandTable()

ONE = (1, 1, 1)
COUNT = "ERR COUNT must be > 0"
COUNT_MAX = 2**63 // 16
RETRIES_MAX = 2**31 - 1
"""Of RETRYCOUNT: whoever counts on goes beyond it."""
SWEPT = 100
"""Entries that XAUTOCLAIM takes unless it is told how many."""


def _group(session: RespSession, key: bytes, group: bytes) -> tuple[StreamName, AppId]:
    stream = stream_of(session, key)
    app = app_of(stream, group)
    if app is None:
        raise no_group(key, group)
    return stream, app


# Looking.


@table.command("xpending", -3, flags=READ, categories=READING, keys=ONE)
def xpending(session: RespSession, args: list[bytes]) -> Reply:
    key, group, *rest = args
    if not rest:
        return _summary(session, key, group)
    if not 3 <= len(rest) <= 6:
        raise CommandError(SYNTAX)
    idle = 0
    if rest[0].upper() == b"IDLE":
        idle = integer(rest[1])
        if len(rest) < 5:
            raise CommandError(SYNTAX)
        rest = rest[2:]
    count = integer(rest[2])
    first, last = read_bound(rest[0], is_end=False), read_bound(rest[1], is_end=True)
    reader = read_name(rest[3])[0] if len(rest) > 3 else None
    stream, app = _group(session, key, group)

    def make(ref: PendingAnswer) -> ListPending:
        return ListPending(
            session.id,
            ref,
            stream.queue,
            stream.domain.name,
            app,
            first,
            last,
            max(0, count),
            reader,
            idle / 1000,
            client_of(session),
        )

    return Asked(make, _listed, refusal=GroupRefusal(key, group))


def _listed(delivered: list[Deliver], effect: Effect) -> Reply:
    assert isinstance(effect, PendingListed), "it was listed"
    return [
        [
            write_id(each.id),
            each.reader if each.reader is not None else _other(each.session),
            _milliseconds(each.idle),
            each.deliveries,
        ]
        for each in effect.messages
    ]


def _other(session: SessionId) -> bytes:
    """A session of another wire that holds something."""
    return b"bmq:%d" % session


def _milliseconds(seconds: float) -> int:
    return max(0, int(seconds * 1000))


def _summary(session: RespSession, key: bytes, group: bytes) -> Reply:
    stream, app = _group(session, key, group)

    def make(ref: PendingAnswer) -> Survey:
        name = stream.domain.name
        return Survey(session.id, ref, stream.queue, name, client_of(session), apps=(app,))

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Surveyed), "it was surveyed"
        view = next((view for view in effect.apps if view.app == app), None)
        if view is None:
            return no_group(key, group)
        if view.first is None or view.last is None:
            return [0, None, None, NoArray()]
        holders = [(each.name, each.pending) for each in view.readers if each.pending]
        holders += [(_other(other), pending) for other, pending in view.others]
        return [
            view.pending,
            write_id(view.first),
            write_id(view.last),
            [[name, b"%d" % pending] for name, pending in holders],
        ]

    return Asked(make, answer, refusal=GroupRefusal(key, group))


# Claiming.


@table.command(
    "xclaim",
    -6,
    flags=WRITE_FAST,
    categories=WRITING_FAST,
    keys=ONE,
    each=ID_STEPS,
    steps=ENTRIES_STEPS,
)
def xclaim(session: RespSession, args: list[bytes]) -> Reply:
    key, group, consumer, least, *rest = args
    stream, app = _group(session, key, group)
    idle = integer(least, "ERR Invalid min-idle-time argument for XCLAIM")
    ids: list[StreamId] = []
    for text in rest:
        try:
            ids.append(read_id(text))
        except CommandError:
            break
    rest = rest[len(ids) :]
    since: float | None = None
    deliveries: int | None = None
    is_forced = only_ids = False
    now = session.hub.shell.clock()
    words = iter(enumerate(rest))
    for place, arg in words:
        word, more = arg.upper(), len(rest) - place - 1
        if word == b"FORCE":
            is_forced = True
        elif word == b"JUSTID":
            only_ids = True
        elif word in (b"IDLE", b"TIME", b"RETRYCOUNT") and more:
            wrong = f"ERR Invalid {word.decode()} option argument for XCLAIM"
            number = integer(next(words)[1], wrong)
            if word == b"IDLE":
                since = now - number / 1000
            elif word == b"TIME":
                since = number / 1000
            else:
                deliveries = max(0, min(number, RETRIES_MAX))
        elif word == b"LASTID" and more:
            read_id(next(words)[1])
        else:
            raise CommandError(f"ERR Unrecognized XCLAIM option '{quoted(arg)}'")
    name, interest = read_name(consumer)

    def make(ref: PendingAnswer) -> TakeOver:
        return TakeOver(
            session.id,
            ref,
            stream.queue,
            stream.domain.name,
            app,
            name,
            max(0, idle) / 1000,
            tuple(ids),
            since=since,
            deliveries=deliveries,
            forced=is_forced,
            only_ids=only_ids,
            interest=interest,
            client=client_of(session),
        )

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, ClaimDone), "it was claimed"
        return list(map(write_id, effect.ids)) if only_ids else entries(delivered)

    return Asked(make, answer, refusal=GroupRefusal(key, group), has_entries=True)


@table.command(
    "xautoclaim",
    -6,
    flags=WRITE_FAST,
    categories=WRITING_FAST,
    keys=ONE,
    steps=ENTRIES_STEPS,
)
def xautoclaim(session: RespSession, args: list[bytes]) -> Reply:
    key, group, consumer, least, start_text, *rest = args
    idle = integer(least, "ERR Invalid min-idle-time argument for XAUTOCLAIM")
    start = read_bound(start_text, is_end=False)
    count, only_ids = SWEPT, False
    words = iter(enumerate(rest))
    for place, arg in words:
        word, more = arg.upper(), len(rest) - place - 1
        if word == b"COUNT" and more:
            count = integer(next(words)[1], COUNT)
            if not 0 < count < COUNT_MAX:
                raise CommandError(COUNT)
        elif word == b"JUSTID":
            only_ids = True
        else:
            raise CommandError(SYNTAX)
    stream, app = _group(session, key, group)
    name, interest = read_name(consumer)

    def make(ref: PendingAnswer) -> TakeOver:
        return TakeOver(
            session.id,
            ref,
            stream.queue,
            stream.domain.name,
            app,
            name,
            max(0, idle) / 1000,
            None,
            start,
            count,
            only_ids=only_ids,
            interest=interest,
            client=client_of(session),
        )

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, ClaimDone), "it was claimed"
        found = list(map(write_id, effect.ids)) if only_ids else entries(delivered)
        return [write_id(effect.next), found, list(map(write_id, effect.poisoned))]

    return Asked(make, answer, refusal=GroupRefusal(key, group), has_entries=True)
