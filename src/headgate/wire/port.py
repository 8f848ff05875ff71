"""The ports of sessions: what a wire needs of the server that has its socket.

A wire adds what only its protocol needs. The server implements ports, and so do the test harnesses;
sessions know nothing else of the outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.core.commands import Command


class ClientPort(Protocol):
    """The client of a session: read or paused, until it is closed."""

    def pause(self) -> None:
        """Read no more from the client, until `resume`."""
        ...

    def resume(self) -> None: ...

    def close(self, reason: str) -> None:
        """End the session when everything is written."""
        ...


class SessionPort(ClientPort, Protocol):
    """The port of a session whose commands go through turns."""

    def now(self) -> float: ...

    def write(self, data: bytes, messages: int) -> None:
        """Send these bytes, which hold so many messages."""
        ...

    def submit(self, commands: Sequence[Command]) -> None:
        """Put commands in line, all of them; or raise, and put in none."""
        ...
