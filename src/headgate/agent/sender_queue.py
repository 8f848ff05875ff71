"""A queue as its sender uses it."""

from __future__ import annotations

from headgate.agent.queues import OpenedQueue
from headgate.agent.sending import Sending


class SenderQueue:
    """A queue that an agent sends to."""

    def __init__(self, opened: OpenedQueue, sending: Sending) -> None:
        self.connection = opened.connection
        self.address = opened.address
        self._sending = sending

    async def send(self, body: bytes, *, notify: bool = False) -> int:
        """Send a message: when this returns it is stored, and `Sent` or `Failed` with this id
        follow. Messages are sent in the order of calls. Raises `TooLong`, `LinkUsed` if the queue
        has another sender, and `StoreError`; then nothing is sent."""
        return await self._sending.send(self.connection, body, notify=notify)

    def __repr__(self) -> str:
        return f"SenderQueue({self.connection.hex()})"
