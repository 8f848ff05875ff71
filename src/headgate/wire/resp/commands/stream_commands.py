"""Parts that commands on streams share: their registration, their keys and groups, their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.core.effects import Deliver, Effect
from headgate.core.model.ids import AppId
from headgate.core.model.stream_id import stream_id
from headgate.core.reader_effects import Counted, Past
from headgate.errors import (
    BadSubscription,
    HeadgateError,
    KeepsNothing,
    LimitReached,
    NoRight,
    NoSuchApp,
    NoSuchQueue,
    QuotaReached,
)
from headgate.wire.resp.codec.replies import CommandError, Pieces, Reply, text_of
from headgate.wire.resp.streams.fields import write_entry
from headgate.wire.resp.streams.ids import write_id
from headgate.wire.resp.streams.keys import StreamName

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

READ, WRITE, WRITE_FAST = ("readonly",), ("write",), ("write", "fast")
READING, READING_FAST = ("read", "stream", "slow"), ("read", "stream", "fast")
WRITING, WRITING_FAST = ("write", "stream", "slow"), ("write", "stream", "fast")
ID_STEPS = 3
"""Of an id that a command names: it is read, and looked for."""
ENTRIES_STEPS = 250
"""Of reading entries in a transaction, where it cannot wait until the client takes them."""
SYNTAX = "ERR syntax error"
NO_PAST: Final[Past] = {}
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
ADVICE = {
    "max_groups": ": destroy a group, or raise max_groups of the domain",
    "range_messages": ": ask for pages, with COUNT",
    "range_bytes": ": ask for smaller pages, with COUNT",
}
"""Advice about a limit."""


def stream_of(session: RespSession, key: bytes) -> StreamName:
    """The stream of a key; raise if it is none."""
    hub = session.hub
    longest = hub.broker.limits.name_bytes
    if len(key) > longest:
        raise LimitReached("name_bytes", longest)
    if hub.keys.has(session.db, key, hub.shell.clock()):
        raise CommandError(WRONG_TYPE)
    return hub.stream_keys.find(key)


def app_of(stream: StreamName, group: bytes) -> AppId | None:
    """The app that a group of a stream is; none if there is no such group."""
    return stream.domain.app_of(text_of(group))


def client_of(session: RespSession) -> str:
    """The name of who asks, as the domain's lists know it."""
    return "" if session.user is None else session.user.name


def no_group(key: bytes, group: bytes, where: str = "") -> CommandError:
    return CommandError(
        f"NOGROUP No such key '{text_of(key)}' or consumer group '{text_of(group)}'{where}"
    )


def refusal(error: HeadgateError) -> CommandError | None:
    """The text of a refusal of the core, as Redis would word it."""
    if isinstance(error, QuotaReached):
        name = f"max_{error.unit}" if error.scope == "queue" else f"domain_max_{error.unit}"
        return CommandError(f"OOM the {error.scope} is full: {name} {error.limit}")
    if isinstance(error, LimitReached):
        return CommandError(f"ERR {error}{ADVICE.get(error.name, '')}")
    if isinstance(error, KeepsNothing):
        return CommandError(f"ERR {error}")
    if isinstance(error, NoRight):
        return CommandError(f"NOPERM {error}")
    if isinstance(error, BadSubscription):
        return CommandError(f"ERR bad expression at {error.error.offset}: {error.error.message}")
    return None


class GroupRefusal:
    """A refusal of the core about a group, which may be gone by then."""

    __slots__ = ("_group", "_key")

    def __init__(self, key: bytes, group: bytes) -> None:
        self._key = key
        self._group = group

    def __call__(self, error: HeadgateError) -> CommandError | None:
        if isinstance(error, NoSuchApp | NoSuchQueue):
            return no_group(self._key, self._group)
        return refusal(error)


def counted(delivered: list[Deliver], effect: Effect) -> Reply:
    assert isinstance(effect, Counted), "it was counted"
    return effect.count


def entry_of(delivery: Deliver, past: Past = NO_PAST) -> tuple[bytes, ...]:
    """The pieces of a message as it is answered, with what is told of its past."""
    message, seq = delivery.message, delivery.seq
    id = write_id(stream_id(message.arrived, seq))
    return write_entry(id, message, past.get((delivery.queue, seq)) if past else None)


def entries(deliveries: list[Deliver], past: Past = NO_PAST) -> Pieces:
    """A list of entries; it is the same in both versions of the protocol."""
    found = [b"*%d\r\n" % len(deliveries)]
    for each in deliveries:
        found += entry_of(each, past)
    return Pieces(found)
