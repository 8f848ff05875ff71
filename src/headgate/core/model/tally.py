"""Count and XOR hash of a set of queues, for comparison between two parties."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5

from headgate.core.model.drift import Drift
from headgate.core.model.ids import QueueId
from headgate.core.model.value import value


@value
class Tally:
    """The tally of a set of queues.

    The hash is the XOR of the MD5 of the ids: adding and removing are the same operation, and the
    order does not matter. Two sets may share a hash, so the count belongs to it.
    """

    count: int = 0
    xor: int = 0

    @classmethod
    def of(cls, queues: Iterable[QueueId]) -> Tally:
        tally = NOTHING
        for queue in queues:
            tally = tally.plus(queue)
        return tally

    @classmethod
    def parse(cls, count: int, hashed: bytes) -> Tally:
        return cls(count, int.from_bytes(hashed, "big"))

    @property
    def hash(self) -> bytes:
        return self.xor.to_bytes(16, "big")

    def plus(self, queue: QueueId) -> Tally:
        # S001-37, S001-38: XOR adds and removes alike, in any order.
        return Tally(self.count + 1, self.xor ^ digest(queue))

    def minus(self, queue: QueueId) -> Tally:
        return Tally(self.count - 1, self.xor ^ digest(queue))

    def join(self, other: Tally) -> Tally:
        """The tally of two sets that share no queue."""
        return Tally(self.count + other.count, self.xor ^ other.xor)

    def drift(self, expected: Tally) -> Drift:
        """How this tally, the router's, differs from an expected one."""
        # S001-39: neither count nor hash is enough by itself.
        if self.count != expected.count:
            return Drift.MORE if self.count > expected.count else Drift.FEWER
        return Drift.NONE if self.xor == expected.xor else Drift.DIFFERENT


NOTHING = Tally()


def digest(queue: QueueId) -> int:
    return int.from_bytes(name_of(queue), "big")


def name_of(queue: QueueId) -> bytes:
    """The name of a queue where its id must not appear: its digest as in a tally, so that an audit
    can XOR a column of names."""
    return md5(queue, usedforsecurity=False).digest()
