"""Count and XOR hash of a set of queues, by which two parties compare theirs."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5

from headgate.core.model.drift import Drift
from headgate.core.model.ids import QueueId
from headgate.core.model.value import value


@value
class Tally:
    """A set of queues, as far as two parties need to compare theirs.

    The hash is the XOR of the MD5 of the ids: adding and removing are the same operation, and
    the order does not matter. Two sets may share a hash, so the count belongs to it.
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
        """How this tally, the kept one, differs from what somebody expected."""
        # S001-39: neither count nor hash is enough by itself.
        if self.count != expected.count:
            return Drift.MORE if self.count > expected.count else Drift.FEWER
        return Drift.NONE if self.xor == expected.xor else Drift.DIFFERENT


NOTHING = Tally()


def digest(queue: QueueId) -> int:
    return int.from_bytes(name_of(queue), "big")


def name_of(queue: QueueId) -> bytes:
    """What a queue is called where its id must not be known: the digest that a tally has of it,
    so that an audit can XOR a column of names."""
    return md5(queue, usedforsecurity=False).digest()
