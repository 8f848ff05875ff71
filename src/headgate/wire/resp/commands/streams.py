"""Streams: XADD, XLEN, XACK, XDEL, XTRIM, and what is not there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.core.effects import Deliver, Effect
from headgate.core.reader_commands import Acknowledge, Add, RemoveMessages, Survey
from headgate.core.reader_effects import Added, Surveyed
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import CommandError, Reply
from headgate.wire.resp.commands.stream_commands import (
    READ,
    READING,
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
from headgate.wire.resp.streams.fields import read_fields
from headgate.wire.resp.streams.ids import read_id, write_id

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

ONE = (1, 1, 1)
ID_BYTES: Final = 16
STRATEGIES: Final = (b"MAXLEN", b"MINID")
NOT_THE_ROUTERS: Final = "ERR ids are given by the router here: use *"


class Trimming:
    """The options of XADD and XTRIM. Nothing is ever trimmed that a group has not confirmed, and
    what all have confirmed is gone already; so they are read, and that is all."""

    __slots__ = ("makes", "place")

    def __init__(self, words: list[bytes], *, is_add: bool) -> None:
        self.makes = True
        """Whether a stream is made if it is not there."""
        self.place = len(words)
        """Where the options end."""
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
                self._read_threshold(word, words[place + 1])
                place += 1
            elif word == b"LIMIT" and more:
                limit = integer(words[place + 1])
                if limit < 0:
                    raise CommandError("ERR The LIMIT argument must be >= 0.")
                place += 1
            elif is_add and word == b"NOMKSTREAM":
                self.makes = False
            elif is_add and word in (b"IDMP", b"IDMPAUTO"):
                raise CommandError(
                    f"ERR {word.decode()} is not there yet: add without it, or post over BMQP,"
                    " where a message that is repeated is recognised"
                )
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

    @staticmethod
    def _read_threshold(strategy: bytes, text: bytes) -> None:
        if strategy == b"MINID":
            read_id(text)
        elif integer(text) < 0:
            raise CommandError("ERR The MAXLEN argument must be >= 0.")


@table.command("xadd", -5, flags=WRITE_FAST, categories=WRITING_FAST, keys=ONE)
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
    message = read_fields(stream.domain, hub.shell.draw(ID_BYTES), fields, hub.bodies)
    client = client_of(session)

    def make(ref: PendingAnswer) -> Add:
        return Add(
            session.id, ref, stream.queue, stream.domain.name, message, options.makes, client
        )

    return Asked(make, _added, refusal=refusal)


def _added(delivered: list[Deliver], effect: Effect) -> Reply:
    assert isinstance(effect, Added), "it was added"
    return None if effect.id is None else write_id(effect.id)


@table.command("xlen", 2, flags=("readonly", "fast"), categories=READING_FAST, keys=ONE)
def xlen(session: RespSession, args: list[bytes]) -> Reply:
    stream = stream_of(session, args[0])

    def make(ref: PendingAnswer) -> Survey:
        return Survey(session.id, ref, stream.queue, stream.domain.name, client_of(session))

    return Asked(make, _length, refusal=refusal)


def _length(delivered: list[Deliver], effect: Effect) -> Reply:
    assert isinstance(effect, Surveyed), "it was surveyed"
    return effect.messages


@table.command("xack", -4, flags=WRITE_FAST, categories=WRITING_FAST, keys=ONE)
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


@table.command("xdel", -3, flags=WRITE_FAST, categories=WRITING_FAST, keys=ONE)
def xdel(session: RespSession, args: list[bytes]) -> Reply:
    stream = stream_of(session, args[0])
    ids = tuple(map(read_id, args[1:]))

    def make(ref: PendingAnswer) -> RemoveMessages:
        name = stream.domain.name
        return RemoveMessages(session.id, ref, stream.queue, name, ids, client_of(session))

    return Asked(make, counted, refusal=refusal)


@table.command("xtrim", -4, flags=WRITE, categories=WRITING, keys=ONE)
def xtrim(session: RespSession, args: list[bytes]) -> Reply:
    """What every group has acknowledged is gone already, and nothing else may go."""
    Trimming(args[1:], is_add=False)
    stream_of(session, args[0])
    return 0


# What is not there.


def _refused(name: str, arity: int, why: str, *, writes: bool) -> None:
    flags, categories = (WRITE, WRITING) if writes else (READ, READING)

    @table.command(name, arity, flags=flags, categories=categories, keys=ONE)
    def refuse(session: RespSession, args: list[bytes]) -> Reply:
        stream_of(session, args[0])
        raise CommandError(f"ERR {why}")


NO_HISTORY = "keeps nothing that was acknowledged: read by a group, with XREADGROUP"
_refused("xrange", -4, f"a stream here {NO_HISTORY}", writes=False)
_refused("xrevrange", -4, f"a stream here {NO_HISTORY}", writes=False)
_refused(
    "xsetid",
    -3,
    "ids are given by the router here, and the last one cannot be set",
    writes=True,
)
