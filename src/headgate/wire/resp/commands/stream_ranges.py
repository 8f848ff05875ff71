"""Looking at a stream without a group: XRANGE, XREVRANGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.effects import Deliver, Effect
from headgate.core.reader_commands import Range
from headgate.core.reader_effects import BrowseDone
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import CommandError, NoArray, Reply
from headgate.wire.resp.commands.stream_commands import (
    ENTRIES_STEPS,
    READ,
    READING,
    SYNTAX,
    client_of,
    entries,
    refusal,
    stream_of,
)
from headgate.wire.resp.commands.table import CommandTable
from headgate.wire.resp.streams.awaited import Asked, PendingAnswer
from headgate.wire.resp.streams.ids import read_bound

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

ONE = (1, 1, 1)


@table.command("xrange", -4, flags=READ, categories=READING, keys=ONE, steps=ENTRIES_STEPS)
def xrange(session: RespSession, args: list[bytes]) -> Reply:
    return _range(session, args, newest_first=False)


@table.command("xrevrange", -4, flags=READ, categories=READING, keys=ONE, steps=ENTRIES_STEPS)
def xrevrange(session: RespSession, args: list[bytes]) -> Reply:
    key, end, start, *rest = args
    return _range(session, [key, start, end, *rest], newest_first=True)


def _range(session: RespSession, args: list[bytes], *, newest_first: bool) -> Reply:
    key, start, end, *rest = args
    first, last = read_bound(start, is_end=False), read_bound(end, is_end=True)
    count = None
    if len(rest) % 2:
        raise CommandError(SYNTAX)
    for word, text in zip(rest[::2], rest[1::2], strict=True):
        if word.upper() != b"COUNT":
            raise CommandError(SYNTAX)
        count = max(0, integer(text))
    stream = stream_of(session, key)
    if count == 0:
        return NoArray()

    def make(ref: PendingAnswer) -> Range:
        return Range(
            session.id,
            ref,
            stream.queue,
            stream.domain.name,
            first,
            last,
            count,
            newest_first,
            client_of(session),
        )

    return Asked(make, _answer, refusal=refusal, has_entries=True)


def _answer(delivered: list[Deliver], effect: Effect) -> Reply:
    assert isinstance(effect, BrowseDone), "it was told"
    return entries(delivered)
