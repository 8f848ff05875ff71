"""History in memory: messages that every app of a queue has confirmed and that are kept.

They are in no line. Only number, time and size of each are in memory, twenty bytes; the rest is
read from the store when needed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from headgate.core.model.ids import Seq
from headgate.core.model.stream_id import StreamId, stream_id
from headgate.core.turn.undo import Undo


class KeptMessages:
    """The history of a queue, oldest first.

    Owned by `SharedQueue`. Its messages are in the store without apps, and the meters count them.
    """

    __slots__ = ("arrived", "seqs", "sizes")

    def __init__(self) -> None:
        self.seqs = array("q")
        self.arrived = array("d")
        self.sizes = array("I")

    def __len__(self) -> int:
        return len(self.seqs)

    def id_at(self, place: int) -> StreamId:
        return stream_id(self.arrived[place], self.seqs[place])

    def place_of(self, id: StreamId) -> int:
        """The place of the first message whose id is not smaller."""
        return bisect_left(range(len(self.seqs)), id, key=self.id_at)

    def find(self, id: StreamId) -> int | None:
        """The place of a message."""
        place = self.place_of(id)
        return place if place < len(self.seqs) and self.id_at(place) == id else None

    def add(self, seq: Seq, arrived: float, size: int, undo: Undo | None) -> None:
        """Add a message. They are confirmed in any order; most come last."""
        seqs = self.seqs
        place = len(seqs) if not seqs or seqs[-1] < seq else bisect_left(seqs, seq)
        self._insert(place, (seq, arrived, size))
        if undo is not None:
            undo.note(self._take, place)

    def remove(self, place: int, undo: Undo) -> tuple[Seq, int]:
        """Remove one message; return its number and its size."""
        taken = self._take(place)
        undo.note(self._insert, place, taken)
        return Seq(taken[0]), taken[2]

    def remove_first(self, count: int, undo: Undo) -> tuple[list[Seq], int]:
        """Remove the oldest; return their numbers, and the sum of their sizes."""
        firsts = self.seqs[:count], self.arrived[:count], self.sizes[:count]
        del self.seqs[:count], self.arrived[:count], self.sizes[:count]
        undo.note(self._put_first, *firsts)
        return [Seq(seq) for seq in firsts[0]], sum(firsts[2])

    def _insert(self, place: int, message: tuple[int, float, int]) -> None:
        seq, arrived, size = message
        self.seqs.insert(place, seq)
        self.arrived.insert(place, arrived)
        self.sizes.insert(place, size)

    def _take(self, place: int) -> tuple[int, float, int]:
        return self.seqs.pop(place), self.arrived.pop(place), self.sizes.pop(place)

    def _put_first(self, seqs: array[int], arrived: array[float], sizes: array[int]) -> None:
        self.seqs[:0] = seqs
        self.arrived[:0] = arrived
        self.sizes[:0] = sizes
