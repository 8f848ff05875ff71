"""The bodies of shared queues kept in memory, up to a number of bytes."""

from __future__ import annotations

from collections import OrderedDict

from headgate.core.model.ids import Seq


class BodyCache:
    """The bodies of recent messages.

    Owned by `SharedQueues`. The oldest is dropped first; a body that is not here is in the store.
    """

    __slots__ = ("_bodies", "bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._bodies: OrderedDict[Seq, bytes] = OrderedDict()

    def find(self, seq: Seq) -> bytes | None:
        return self._bodies.get(seq)

    def keep(self, seq: Seq, body: bytes) -> None:
        if seq in self._bodies or len(body) > self.limit:
            return
        self._bodies[seq] = body
        self.bytes += len(body)
        while self.bytes > self.limit:
            _, oldest = self._bodies.popitem(last=False)
            self.bytes -= len(oldest)

    def forget(self, seq: Seq) -> None:
        body = self._bodies.pop(seq, None)
        if body is not None:
            self.bytes -= len(body)

    def __len__(self) -> int:
        return len(self._bodies)
