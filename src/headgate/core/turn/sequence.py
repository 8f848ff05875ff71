"""The numbers of a shard's messages."""

from __future__ import annotations

from headgate.core.model.ids import Seq


class NumberSequence:
    """Larger for later messages. A turn that fails leaves its numbers unused: there are gaps."""

    __slots__ = ("_last",)

    def __init__(self, last: Seq) -> None:
        self._last = last

    def next(self) -> Seq:
        self._last = Seq(self._last + 1)
        return self._last
