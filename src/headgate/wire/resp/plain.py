"""The read of a session, the attributes of the hub that it needs, and the end of a pass.

Most reads are PUBLISHes that nothing stands in the way of. Compiled, those take a short way
(`_plain.c`) from the read to the open pass; anything else is left to `PurePlainSession.receive`, at
the command where it begins. At the end of a pass of the loop the hub has what was published
written, and nearly always all of it is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from headgate.compiled import part
from headgate.core.channels.channels import Channels
from headgate.core.channels.publish_pass import Blob
from headgate.core.delivery.mailbox import Mailbox
from headgate.core.model.ids import SessionId
from headgate.core.redis.acl import User
from headgate.core.redis.cluster import Cluster
from headgate.wire.resp.codec.publish_runs import STARTS
from headgate.wire.resp.codec.requests import RequestParser
from headgate.wire.resp.commands.at_once import AtOnce
from headgate.wire.resp.port import HubPort, Monitor, OtherWorkers, RespPort
from headgate.wire.resp.publishing import publish_at_once
from headgate.wire.resp.reply_mode import ReplyMode
from headgate.wire.resp.streams.awaited import Awaited
from headgate.wire.resp.streams.feeds import ChannelFeeds

if TYPE_CHECKING:
    from headgate.wire.resp.commands.table import CommandEntry
    from headgate.wire.resp.hub import Hub, Unwritten


FLUSHED = 2048
"""Deliveries made in a row; then others get a turn."""


class PurePlainHub:
    """The part of the hub that a plain read needs, and the end of a pass."""

    shell: HubPort
    channels: Channels
    _deliver: dict[SessionId, Callable[[bytes, int], None]]
    """How each session and link is written to."""
    left: Collection[Unwritten]
    """Messages that could not be written to all receivers in one go. No more are published before
    they are."""
    monitors: dict[SessionId, Monitor]
    cluster: Cluster | None
    """The owners of slots; None outside of cluster mode."""
    elsewhere: OtherWorkers | None
    """The other workers of the router, if there are any."""
    feeds: ChannelFeeds
    stuck: Mapping[SessionId, Mailbox]
    """The mailboxes of sessions that do not read."""
    at_once: Mapping[bytes, AtOnce]
    """Commands that are carried out in one call between PUBLISHes."""
    names_fit: bool
    """Whether no name in a run of PUBLISHes can exceed the limit."""
    is_flushing: bool
    """Whether published messages are written at the end of this pass."""
    flushed_most: int
    """So many deliveries are made in a row."""
    commands: int
    """Commands carried out since the start."""

    def flush_soon(self) -> None:
        """Have what was published written at the end of this pass."""
        if not self.is_flushing:
            self.is_flushing = True
            self.shell.soon(self._flush_some)

    def _flush_some(self) -> None:
        """Write what was published, as much of it as is written in a row."""
        self.is_flushing = False
        rest: Iterable[Blob] = self.channels.take()
        if not self.left:
            rest = self.shell.deliver_all(rest, self._deliver, self.flushed_most)
            if not rest and not self.left:
                return
        self._write_later(rest)

    @abstractmethod
    def _write_later(self, rest: Iterable[Blob]) -> None:
        """Leave for later what is not written yet, and go on with what was left."""


class PurePlainSession:
    """The part of a session that gets what the client sent."""

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
    """None until the client has authenticated, if it has to."""
    answers: ReplyMode
    awaited: Awaited | None
    """Answers that wait for their turns, if there are any (`streams/awaited.py`)."""
    queued: list[tuple[CommandEntry, list[bytes]]] | None
    """The commands of an open transaction."""
    held: int
    """Bytes received and not carried out yet, as counted by the hub."""
    is_closing: bool
    last_command: str
    pending: list[list[bytes]]
    """Commands behind one that waits: a PUBLISH to a session that does not read, or any command
    until the client takes its answers."""

    def receive(self, data: bytes) -> None:
        """Carry out the complete commands that the client sent."""
        hub = self.hub
        if self.awaited is not None:
            self._receive_later(data)
            return
        if (hub.channels.is_unwritten or hub.left) and hub.channels.has(self.id):
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

    @abstractmethod
    def _receive_later(self, data: bytes) -> None:
        """Queue commands behind those that wait for a turn."""

    @abstractmethod
    def _run(self, commands: list[list[bytes]]) -> None:
        """Carry out commands, as far as possible now."""

    @abstractmethod
    def _may_hold(self) -> bool:
        """Report to the hub what is not carried out yet; return False if that is too much."""

    @abstractmethod
    def _may_break_off(self) -> None:
        """Answer a breach of the protocol once everything before it is carried out."""


if TYPE_CHECKING:
    PlainHub = PurePlainHub
    PlainSession = PurePlainSession
else:
    PlainHub = part("headgate.wire.resp._plain", "PlainHub", PurePlainHub)
    PlainSession = part("headgate.wire.resp._plain", "PlainSession", PurePlainSession)
