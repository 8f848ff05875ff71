"""Addresses from which somebody failed to show who it is, and how long each has to wait for that
answer: nothing at first, for people mistype, then twice as long each time."""

from __future__ import annotations

FREE = 3
"""Failures that are answered at once."""
FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
FORGIVEN_SECONDS = 60.0
"""After so long without a failure an address is like any other."""
REMEMBERED = 10_000
"""Addresses; of more, those that failed longest ago are forgotten."""


class FailedLogins:
    """How often each address failed, for a while after the last time."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}
        """How many, and when the last was; in the order of the last."""

    def failed(self, address: str, now: float) -> float:
        """Count a failure, and say after how many seconds it is answered."""
        count, last = self._failures.pop(address, (0, now))
        count = 1 if now - last >= FORGIVEN_SECONDS else count + 1
        self._failures[address] = count, now
        if len(self._failures) > REMEMBERED:
            del self._failures[next(iter(self._failures))]
        if count <= FREE:
            return 0.0
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(count - FREE - 1, 30))

    def __len__(self) -> int:
        return len(self._failures)
