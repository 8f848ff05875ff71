"""The numbers of a shard's messages."""

from __future__ import annotations

from headgate.core.model.ids import Seq


class NumberSequence:
    """Numbers that grow. A failed turn leaves its numbers unused, so there are gaps."""

    __slots__ = ("_last",)

    def __init__(self, last: Seq) -> None:
        self._last = last

    def next(self) -> Seq:
        self._last = Seq(self._last + 1)
        return self._last
