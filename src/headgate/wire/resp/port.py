"""What a session asks of the shell that has its socket."""

from __future__ import annotations

from typing import Protocol

from headgate.wire.port import ClientPort


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
