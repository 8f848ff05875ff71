"""The reply mode of a client: whether it wants to be answered."""

from __future__ import annotations

from enum import Enum

from headgate.wire.resp.codec.replies import CommandError, Reply
from headgate.wire.resp.commands.table import CommandEntry


class ReplyMode(Enum):
    """The mode that CLIENT REPLY asked for."""

    ON = "on"
    OFF = "off"
    SKIP_NEXT = "skip next"
    """Not the answer after this one. Asked for inside of a transaction, that is not EXEC's but
    the one after it."""
    SKIP = "skip"
    """Not this one."""


SILENT = frozenset((ReplyMode.OFF, ReplyMode.SKIP))
"""Nothing is answered but confirmations."""

FOLLOWING = {
    ReplyMode.ON: ReplyMode.ON,
    ReplyMode.OFF: ReplyMode.OFF,
    ReplyMode.SKIP_NEXT: ReplyMode.SKIP,
    ReplyMode.SKIP: ReplyMode.ON,
}
"""The mode for the next command."""


def is_confirmation(entry: CommandEntry, reply: Reply) -> bool:
    """Whether this tells who subscribed or left that it did: CLIENT REPLY does not silence that."""
    return entry.is_confirmed and type(reply) is not CommandError
