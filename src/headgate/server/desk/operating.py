"""The port through which actions reach the server that runs the router."""

from __future__ import annotations

from typing import Protocol


class Operating(Protocol):
    """The server as operators drive it."""

    async def compare(self) -> tuple[list[str], list[str]]:
        """The keys that a reload would change, and those that would wait for a restart. Raises if
        the configuration is wrong."""
        ...

    async def reload_now(self) -> tuple[list[str], list[str]]:
        """Read the configuration again; the same two lists. Raises if it is wrong, and the old one
        stays."""
        ...

    def drain(self, is_draining: bool) -> None:
        """Take no new sessions, or take them again."""
        ...
