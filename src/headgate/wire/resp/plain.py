"""What a session does with a read, and what it asks of the hub for that.

Most reads are PUBLISHes of somebody for whom nothing is in the way. Compiled, those take a short
way (`_plain.c`) from the read to the pass that is open; whatever is not plain is left to
`PurePlainSession.receive`, at the command where it begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING

from headgate.compiled import part
from headgate.core.channels.channels import Channels
from headgate.core.delivery.mailbox import Mailbox
from headgate.core.model.ids import SessionId
from headgate.core.redis.acl import User
from headgate.core.redis.cluster import Cluster
from headgate.wire.resp.codec.publish_runs import STARTS
from headgate.wire.resp.codec.requests import RequestParser
from headgate.wire.resp.port import Monitor, OtherWorkers, RespPort
from headgate.wire.resp.publishing import publish_at_once
from headgate.wire.resp.reply_mode import ReplyMode
from headgate.wire.resp.streams.awaited import Awaited
from headgate.wire.resp.streams.feeds import ChannelFeeds

if TYPE_CHECKING:
    from headgate.wire.resp.commands.table import CommandEntry
    from headgate.wire.resp.hub import Hub


class PurePlainHub:
    """The part of the hub that a plain read asks."""

    channels: Channels
    left: Sized
    """What was published and could not be written to all in one go. Nothing more is published
    before it is."""
    monitors: dict[SessionId, Monitor]
    cluster: Cluster | None
    """Who owns which slots; nothing outside of cluster mode."""
    elsewhere: OtherWorkers | None
    """The other workers of the router, if there are any."""
    feeds: ChannelFeeds
    stuck: Mapping[SessionId, Mailbox]
    """Who does not read."""
    names_fit: bool
    """Whether no name in a run of PUBLISHes can be over the limit."""
    is_flushing: bool
    """Whether what was published is written at the end of this pass."""
    commands: int
    """Commands carried out since the start."""


class PurePlainSession:
    """The part of a session that is told what the client sent."""

    __slots__ = (
        "answers",
        "awaited",
        "held",
        "hub",
        "id",
        "is_closing",
        "last_command",
        "outlet",
        "pending",
        "queued",
        "requests",
        "user",
    )

    hub: Hub
    id: SessionId
    outlet: RespPort
    requests: RequestParser
    user: User | None
    """Nobody, until the client says who it is, if it has to."""
    answers: ReplyMode
    awaited: Awaited | None
    """The answers that wait for turns, while there are any: see `streams/awaited.py`."""
    queued: list[tuple[CommandEntry, list[bytes]]] | None
    """The commands of a transaction, while there is one."""
    held: int
    """Bytes that it sent and that are not carried out yet, as the hub knows them."""
    is_closing: bool
    last_command: str
    pending: list[list[bytes]]
    """Commands behind one that has to wait: a PUBLISH for who does not read, or any for the client
    to take the answers it has."""

    def receive(self, data: bytes) -> None:
        """Carry out what the client sent, as far as it is whole."""
        hub = self.hub
        if self.awaited is not None:
            self._receive_later(data)
            return
        if (hub.channels.is_unwritten or hub.left) and hub.channels.has(self.id):
            # What was published before these commands comes before their answers.
            # S002-42, RESP-46: its messages from before a command precede the answer.
            hub.flush_for((self.id,))
        if data.startswith(STARTS):
            end = publish_at_once(self, data)
            if end and self.pending:
                self.pending += self.requests.feed(data[end:])
                self._may_hold()
                return
            if end == len(data):
                return
            data = data[end:]
        requests = self.requests
        commands = requests.feed(data)
        if (self.held or requests.unread is not None) and not self._may_hold():
            return
        if commands:
            self._run(commands)
            self._may_hold()
        if requests.error is not None:
            self._may_break_off()

    # What the session decides.

    def _receive_later(self, data: bytes) -> None:
        """Commands behind those that wait for a turn."""
        raise NotImplementedError

    def _run(self, commands: list[list[bytes]]) -> None:
        """Carry commands out, as far as that is possible now."""
        raise NotImplementedError

    def _may_hold(self) -> bool:
        """Tell the hub what it has sent that is not carried out yet; false if that is too much."""
        raise NotImplementedError

    def _may_break_off(self) -> None:
        """The client broke the protocol. It is told when all before that is carried out."""
        raise NotImplementedError


if TYPE_CHECKING:
    PlainHub = PurePlainHub
    PlainSession = PurePlainSession
else:
    PlainHub = part("headgate.wire.resp._plain", "PlainHub", PurePlainHub)
    PlainSession = part("headgate.wire.resp._plain", "PlainSession", PurePlainSession)
