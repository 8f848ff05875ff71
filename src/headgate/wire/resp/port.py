"""Ports of Redis sessions: what they ask of their process, each by itself and all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from headgate.core.channels.publish_pass import Blob
from headgate.core.commands import Command
from headgate.core.facts import Fact
from headgate.core.model.ids import SessionId
from headgate.core.reader_commands import Block
from headgate.wire.port import ClientPort
from headgate.wire.resp.codec.replies import Reply, Several

if TYPE_CHECKING:
    from headgate.wire.resp.commands.table import CommandEntry
    from headgate.wire.resp.session import RespSession

HERE: Reply = Several(("here",))
"""A command is carried out by the worker that has the session."""
WAIT: Reply = Several(("wait",))
"""A command waits for other workers. The session is paused, and told to go on."""


class RespPort(ClientPort, Protocol):
    """The server's end of a Redis session. Its commands are carried out at once, without a turn."""

    def write(self, blob: bytes) -> None:
        """Answers: in line behind what waits already."""
        ...

    def deliver(self, blob: bytes, messages: int) -> None:
        """Messages, for which the session's mailbox is charged."""
        ...

    def pause(self, *, may_leave: bool = True) -> None:
        """Read no more from the client, until `resume`. One that hangs up meanwhile is gone, unless
        what it sent before is still to be carried out."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the client has too many answers that it did not take. Then no more commands are
        carried out until it did, and `go_on` is called."""
        ...

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """End the session, after what waits was written unless it has to be at once."""
        ...


class MessagePort(Protocol):
    """Where messages go."""

    def deliver(self, blob: bytes, messages: int) -> None: ...


class Monitor(Protocol):
    """A session that is told every command that is carried out."""

    @property
    def outlet(self) -> MessagePort: ...


class OtherWorkers(Protocol):
    """The other workers of a router, as sessions see them. A router of one process has none."""

    def step(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        """The decision about a command of a session: `HERE`, or `WAIT`, or its answer if it was
        carried out elsewhere."""
        ...

    def check_queued(self, entry: CommandEntry) -> None:
        """Raise if a command cannot be part of a transaction."""
        ...

    def resume(self, session: RespSession) -> Reply:
        """Go on with the command that a session waits for; `HERE` if it waits for none."""
        ...

    def disconnect(self, session: SessionId) -> None:
        """A session is gone."""
        ...


class Timer(Protocol):
    """A call that comes later."""

    def cancel(self) -> None: ...


class HubPort(Protocol):
    """The port of the hub: what it asks of the process it is in."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call it at the end of this pass of the loop."""
        ...

    def next_pass(self, call: Callable[[], None]) -> None:
        """Call it in the next pass, when others had their turn."""
        ...

    def deliver_all(
        self, blobs: Iterable[Blob], calls: dict[SessionId, Callable[[bytes, int], None]], room: int
    ) -> Sequence[Blob]:
        """Hand each blob to all who get it and are there, before the next one is made. After so
        many deliveries no more are begun; what is left is returned."""
        ...

    def announce(self, facts: Sequence[Fact]) -> None: ...

    def clock(self) -> float: ...

    def known(self, session: SessionId) -> None:
        """A session has shown who it is."""
        ...

    def suspect(self, session: SessionId) -> None:
        """A session has not shown who it is when it tried to, whoever it was before. It may have
        to go at once, and counts even if it is gone, until it is known."""
        ...

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call it after so long, unless it is cancelled."""
        ...

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        """Put commands on queues in line for a turn; raise if there is no room for them."""
        ...

    def draw(self, length: int) -> bytes:
        """So many bytes that nobody can guess."""
        ...

    def memory(self) -> int:
        """Resident bytes of the process."""
        ...
