"""Streams: XADD, XLEN, XACK, XDEL, XTRIM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from headgate.core.effects import Deliver, Effect
from headgate.core.reader_commands import Acknowledge, Add, RemoveMessages, Survey, Trim, TrimTo
from headgate.core.reader_effects import Added, Surveyed
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import CommandError, Reply
from headgate.wire.resp.commands.stream_commands import (
    ID_STEPS,
    READING_FAST,
    SYNTAX,
    WRITE,
    WRITE_FAST,
    WRITING,
    WRITING_FAST,
    app_of,
    client_of,
    counted,
    refusal,
    stream_of,
)
from headgate.wire.resp.commands.table import CommandTable
from headgate.wire.resp.streams.awaited import Asked, PendingAnswer
from headgate.wire.resp.streams.bodies import JSON_BYTES_A_STEP
from headgate.wire.resp.streams.fields import read_fields
from headgate.wire.resp.streams.ids import read_id, write_id

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

ONE = (1, 1, 1)
ID_BYTES: Final = 16
KEY_BYTES: Final = 1024
"""No key of a stream is longer."""
STRATEGIES: Final = (b"MAXLEN", b"MINID")
OWN_IDS: Final = {b"IDMP": 2, b"IDMPAUTO": 1}
"""Options by which a producer may add a message again, and how many words are behind them."""
NOT_THE_ROUTERS: Final = "ERR ids are given by the router here: use *"


class Trimming:
    """The options of XADD and XTRIM. Nothing is ever trimmed that a group has not confirmed."""

    __slots__ = ("makes", "place", "repeatable", "to")

    def __init__(self, words: list[bytes], *, is_add: bool) -> None:
        self.makes = True
        """Whether a stream is made if it is not there."""
        self.repeatable: tuple[bytes, ...] = ()
        """The producer and its own id of the message, if it says so that it may add it again; or
        the producer alone: then a message of its with the same fields is the same."""
        self.place = len(words)
        """Where the options end."""
        self.to: TrimTo | None = None
        strategy, is_about, limit = b"", False, None
        place = 0
        while place < len(words):
            word, more = words[place].upper(), len(words) - place - 1
            if is_add and word == b"*":
                break
            if word in STRATEGIES and more:
                if strategy:
                    raise CommandError(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not"
                        " compatible"
                    )
                strategy, is_about = word, False
                if more >= 2 and words[place + 1] in (b"~", b"="):
                    is_about = words[place + 1] == b"~"
                    place += 1
                self.to = self._read_threshold(word, words[place + 1])
                place += 1
            elif word == b"LIMIT" and more:
                limit = integer(words[place + 1])
                if limit < 0:
                    raise CommandError("ERR The LIMIT argument must be >= 0.")
                place += 1
            elif is_add and word == b"NOMKSTREAM":
                self.makes = False
            elif is_add and word in OWN_IDS and more >= OWN_IDS[word]:
                if self.repeatable:
                    raise CommandError(SYNTAX)
                self.repeatable = tuple(words[place + 1 :][: OWN_IDS[word]])
                if b"" in self.repeatable:
                    raise CommandError("ERR a producer and its ids are not empty")
                place += OWN_IDS[word]
            elif is_add and word in (b"KEEPREF", b"DELREF", b"ACKED"):
                pass  # only what every group has acknowledged is ever trimmed
            elif is_add:
                if not words[place].endswith(b"-*"):
                    read_id(words[place])
                break
            else:
                raise CommandError(SYNTAX)
            place += 1
        self.place = place
        if limit and not strategy:
            raise CommandError(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
            )
        if not is_add and not strategy:
            raise CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
        if limit is not None and not is_about:
            raise CommandError(
                "ERR syntax error, LIMIT cannot be used without the special ~ option"
            )
        if limit and self.to is not None:
            self.to = replace(self.to, most=limit)

    @staticmethod
    def _read_threshold(strategy: bytes, text: bytes) -> TrimTo:
        if strategy == b"MINID":
            return TrimTo(before=read_id(text))
        messages = integer(text)
        if messages < 0:
            raise CommandError("ERR The MAXLEN argument must be >= 0.")
        return TrimTo(messages)


def _reading(session: RespSession, args: list[bytes]) -> int:
    """The steps of taking properties out of a body."""
    try:
        stream = session.hub.stream_keys.get(args[0]) if len(args[0]) <= KEY_BYTES else None
    except CommandError:
        return 0
    if stream is None or not stream.domain.properties:
        return 0
    most = session.hub.broker.limits.json_bytes
    return sum(min(len(text), most) for text in args) // JSON_BYTES_A_STEP


@table.command("xadd", -5, flags=WRITE_FAST, categories=WRITING_FAST, keys=ONE, steps=_reading)
def xadd(session: RespSession, args: list[bytes]) -> Reply:
    words = args[1:]
    options = Trimming(words, is_add=True)
    fields = words[options.place + 1 :]
    if len(fields) < 2 or len(fields) % 2:
        raise CommandError("ERR wrong number of arguments for 'xadd' command")
    if words[options.place] != b"*":
        raise CommandError(NOT_THE_ROUTERS)
    stream = stream_of(session, args[0])
    hub = session.hub
    own = options.repeatable
    id = _own_id(own if len(own) == 2 else (*own, *fields)) if own else hub.shell.draw(ID_BYTES)
    message = read_fields(stream.domain, id, fields, hub.bodies)
    client = client_of(session)

    def make(ref: PendingAnswer) -> Add:
        return Add(
            session.id,
            ref,
            stream.queue,
            stream.domain.name,
            message,
            options.makes,
            client,
            options.to,
        )

    return Asked(make, _added, refusal=refusal)


def _own_id(words: Sequence[bytes]) -> bytes:
    """The id of a message that its producer may repeat: the same for the same words."""
    whole = b"".join(b"%d:%b" % (len(word), word) for word in words)
    return sha256(whole).digest()[:ID_BYTES]


def _added(delivered: list[Deliver], effect: Effect) -> Reply:
    assert isinstance(effect, Added), "it was added"
    return None if effect.id is None else write_id(effect.id)


@table.command("xlen", 2, flags=("readonly", "fast"), categories=READING_FAST, keys=ONE)
def xlen(session: RespSession, args: list[bytes]) -> Reply:
    stream = stream_of(session, args[0])

    def make(ref: PendingAnswer) -> Survey:
        name = stream.domain.name
        return Survey(session.id, ref, stream.queue, name, client_of(session), apps=())

    return Asked(make, _length, refusal=refusal)


def _length(delivered: list[Deliver], effect: Effect) -> Reply:
    assert isinstance(effect, Surveyed), "it was surveyed"
    return effect.messages


@table.command("xack", -4, flags=WRITE_FAST, categories=WRITING_FAST, keys=ONE, each=ID_STEPS)
def xack(session: RespSession, args: list[bytes]) -> Reply:
    key, group, *texts = args
    stream = stream_of(session, key)
    app = app_of(stream, group)
    if app is None:
        return 0
    ids = tuple(map(read_id, texts))

    def make(ref: PendingAnswer) -> Acknowledge:
        return Acknowledge(
            session.id, ref, stream.queue, stream.domain.name, app, ids, client_of(session)
        )

    return Asked(make, counted, refusal=refusal)


@table.command("xdel", -3, flags=WRITE_FAST, categories=WRITING_FAST, keys=ONE, each=ID_STEPS)
def xdel(session: RespSession, args: list[bytes]) -> Reply:
    stream = stream_of(session, args[0])
    ids = tuple(map(read_id, args[1:]))

    def make(ref: PendingAnswer) -> RemoveMessages:
        name = stream.domain.name
        return RemoveMessages(session.id, ref, stream.queue, name, ids, client_of(session))

    return Asked(make, counted, refusal=refusal)


@table.command("xtrim", -4, flags=WRITE, categories=WRITING, keys=ONE)
def xtrim(session: RespSession, args: list[bytes]) -> Reply:
    """Only what every group has acknowledged goes."""
    options = Trimming(args[1:], is_add=False)
    stream = stream_of(session, args[0])

    def make(ref: PendingAnswer) -> Trim:
        assert options.to is not None, "it was read"
        name = stream.domain.name
        return Trim(session.id, ref, stream.queue, name, options.to, client_of(session))

    return Asked(make, counted, refusal=refusal)


@table.command("xsetid", -3, flags=WRITE, categories=WRITING, keys=ONE)
def xsetid(session: RespSession, args: list[bytes]) -> Reply:
    stream_of(session, args[0])
    raise CommandError("ERR ids are given by the router here, and the last one cannot be set")
