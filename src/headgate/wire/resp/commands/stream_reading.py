"""Reading streams: XREADGROUP, and XREAD, which needs a history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.core.effects import Deliver, Effect
from headgate.core.model.ids import QueueId
from headgate.core.model.interest import Interest
from headgate.core.reader_commands import Browse, Pull, View, Want
from headgate.core.reader_effects import BrowseDone, Past, Pulled
from headgate.errors import AppGone, HeadgateError, NoSuchApp, NoSuchQueue
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import CommandError, NoArray, Pairs, Reply
from headgate.wire.resp.commands.stream_commands import (
    ENTRIES_STEPS,
    NO_PAST,
    SYNTAX,
    app_of,
    client_of,
    entries,
    no_group,
    refusal,
    stream_of,
)
from headgate.wire.resp.commands.table import CommandTable
from headgate.wire.resp.streams.awaited import Asked, PendingAnswer
from headgate.wire.resp.streams.ids import read_id
from headgate.wire.resp.streams.reader_names import read_expression, read_name, read_priority

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

GONE = "NOGROUP the consumer group this client was blocked on no longer exists"
IN_READ = " in XREADGROUP with GROUP option"
NEW = b">"
ONLY_NEW = (
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer>"
    " option."
)
MEANINGLESS = (
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this"
    " consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just"
    " return an empty result set."
)
STREAMS_MOST = 50
"""In one read. Each that nobody read before is opened, which takes up to a millisecond."""
TIMEOUT_MAX = 2**63 // 1_000_000 - 1


VALUES = {b"GROUP": 2, b"BLOCK": 1, b"COUNT": 1, b"CLAIM": 1, b"WHERE": 1, b"PRIORITY": 1}
"""Words of a read that have others behind them."""


def streams_in(command: list[bytes]) -> list[bytes]:
    """The keys of XREAD or XREADGROUP, found as `Reading` finds them: a group may be called
    STREAMS, and rights are asked for what is found here. Words that cannot be read are refused
    there."""
    place = 1
    while place < len(command):
        word = command[place].upper()
        if word == b"STREAMS":
            rest = command[place + 1 :]
            return rest[: len(rest) // 2]
        place += 1 + VALUES.get(word, 0)
    return []


class Reading:
    """The words of XREAD or XREADGROUP, read."""

    __slots__ = (
        "block",
        "claims",
        "confirms",
        "consumer",
        "count",
        "expression",
        "group",
        "ids",
        "keys",
        "priority",
    )

    def __init__(self, args: list[bytes], *, by_group: bool) -> None:
        self.block: int | None = None
        """Milliseconds; 0 is for ever."""
        self.count: int | None = None
        self.claims: float | None = None
        """Seconds after which what a consumer holds is claimed."""
        self.group: bytes | None = None
        self.consumer = b""
        self.confirms = False
        self.expression: str | None = None
        self.priority: int | None = None
        self.keys: list[bytes] = []
        self.ids: list[bytes] = []
        words = iter(enumerate(args))
        for place, arg in words:
            word, more = arg.upper(), len(args) - place - 1
            if word == b"STREAMS" and more:
                self._read_streams(args[place + 1 :], by_group)
                break
            if word == b"GROUP" and more >= 2:
                if not by_group:
                    raise CommandError(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD"
                        " instead."
                    )
                self.group, self.consumer = next(words)[1], next(words)[1]
            elif word == b"NOACK":
                if not by_group:
                    raise CommandError(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD"
                        " instead."
                    )
                self.confirms = True
            elif not (more and self._read_option(word, words, by_group)):
                raise CommandError(SYNTAX)
        if not self.keys:
            raise CommandError(SYNTAX)
        if by_group and self.group is None:
            raise CommandError("ERR Missing GROUP option for XREADGROUP")

    def _read_option(self, word: bytes, words: Iterator[tuple[int, bytes]], by_group: bool) -> bool:
        """An option with a value; false if there is no such one."""
        if word == b"BLOCK":
            self.block = _timeout(next(words)[1])
        elif word == b"COUNT":
            count = integer(next(words)[1])
            self.count = count if count > 0 else None
        elif word == b"WHERE" and by_group:
            self.expression = read_expression(next(words)[1])
        elif word == b"PRIORITY" and by_group:
            self.priority = read_priority(next(words)[1])
        elif word == b"CLAIM" and by_group:
            wrong = "ERR Invalid min-idle-time argument for XREADGROUP"
            self.claims = max(0, integer(next(words)[1], wrong)) / 1000
        elif word in (b"MAXCOUNT", b"MAXSIZE") and by_group:
            raise CommandError(f"ERR {word.decode()} is not there yet: use COUNT")
        else:
            return False
        return True

    def _read_streams(self, rest: list[bytes], by_group: bool) -> None:
        if len(rest) % 2:
            raise CommandError(
                "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be"
                " specified."
            )
        self.keys, self.ids = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if len(self.keys) > STREAMS_MOST:
            raise CommandError(
                f"ERR at most {STREAMS_MOST} streams in one read: ask for the others in another"
            )

    def interest(self) -> tuple[bytes, Interest]:
        """The name of the consumer, and what it wants: words say more than the name does."""
        name, named = read_name(self.consumer)
        expression = named.expression if self.expression is None else self.expression
        return name, Interest(
            expression, named.priority if self.priority is None else self.priority
        )


def _timeout(text: bytes) -> int:
    number = integer(text, "ERR timeout is not an integer or out of range")
    if number < 0:
        raise CommandError("ERR timeout is negative")
    if number > TIMEOUT_MAX:
        raise CommandError("ERR timeout is out of range")
    return number


@table.command(
    "xreadgroup",
    -7,
    flags=("write", "blocking", "movablekeys"),
    categories=("write", "stream", "slow", "blocking"),
    find_keys=streams_in,
    steps=ENTRIES_STEPS,
)
def xreadgroup(session: RespSession, args: list[bytes]) -> Reply:
    reading = Reading(args, by_group=True)
    group = reading.group or b""
    keys: dict[QueueId, bytes] = {}
    wants: list[Want] = []
    for key, id in zip(reading.keys, reading.ids, strict=True):
        stream = stream_of(session, key)
        app = app_of(stream, group)
        if app is None:
            raise no_group(key, group, IN_READ)
        if id == b"$":
            raise CommandError(MEANINGLESS)
        after = None if id == NEW else read_id(id)
        keys.setdefault(stream.queue, key)
        wants.append(Want(stream.queue, stream.domain.name, app, after))
    name, interest = reading.interest()
    is_blocking = reading.block is not None and not session.is_executing
    client = client_of(session)
    first = reading.keys[0]

    def make(ref: PendingAnswer) -> Pull:
        return Pull(
            session.id,
            ref,
            tuple(wants),
            name,
            interest,
            reading.count,
            is_blocking,
            reading.confirms,
            reading.claims,
            client,
        )

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Pulled), "the pull is over"
        repeated = {want.queue for want in wants if want.after is not None}
        return _by_stream(keys, delivered, repeated, effect.past or NO_PAST)

    def refused(error: HeadgateError) -> CommandError | None:
        if isinstance(error, AppGone):
            return CommandError(GONE)
        if isinstance(error, NoSuchApp | NoSuchQueue):
            return no_group(keys.get(QueueId(error.queue), first), group, IN_READ)
        return refusal(error)

    seconds = None
    if is_blocking and reading.block is not None and all(w.after is None for w in wants):
        seconds = reading.block / 1000
    return Asked(make, answer, refusal=refused, seconds=seconds, has_entries=True)


@table.command(
    "xread",
    -4,
    flags=("readonly", "blocking", "movablekeys"),
    categories=("read", "stream", "slow", "blocking"),
    find_keys=streams_in,
    steps=ENTRIES_STEPS,
)
def xread(session: RespSession, args: list[bytes]) -> Reply:
    """Read streams without a group. Of a domain that keeps nothing this is refused: silently
    missing what was acknowledged between two reads would be worse."""
    reading = Reading(args, by_group=False)
    keys: dict[QueueId, bytes] = {}
    wants: list[View] = []
    for key, id in zip(reading.keys, reading.ids, strict=True):
        if id == NEW:
            raise CommandError(ONLY_NEW)
        stream = stream_of(session, key)
        after = None if id == b"$" else read_id(id)
        keys.setdefault(stream.queue, key)
        wants.append(View(stream.queue, stream.domain.name, after))
    is_blocking = reading.block is not None and not session.is_executing

    def make(ref: PendingAnswer) -> Browse:
        return Browse(session.id, ref, tuple(wants), reading.count, is_blocking, client_of(session))

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, BrowseDone), "it was told"
        return _by_stream(keys, delivered, set())

    seconds = None if reading.block is None or not is_blocking else reading.block / 1000
    return Asked(make, answer, refusal=refusal, seconds=seconds, has_entries=True)


def _by_stream(
    keys: dict[QueueId, bytes],
    delivered: list[Deliver],
    always: set[QueueId],
    past: Past = NO_PAST,
) -> Reply:
    """The entries of each stream; for some even if there are none."""
    found: dict[QueueId, list[Deliver]] = {queue: [] for queue in keys}
    for each in delivered:
        found[each.queue].append(each)
    pairs = [
        (key, entries(found[queue], past))
        for queue, key in keys.items()
        if found[queue] or queue in always
    ]
    return Pairs(pairs) if pairs else NoArray()
