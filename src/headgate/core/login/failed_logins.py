"""Addresses with failed logins, and the delay of the next answer: none at first, for people
mistype, then twice as long each time."""

from __future__ import annotations

FREE = 3
"""Failures that are answered at once."""
FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
FORGIVEN_SECONDS = 60.0
"""Seconds without a failure after which an address is like any other."""
REMEMBERED = 10_000
"""Addresses remembered; beyond that those that failed longest ago are dropped."""


class FailedLogins:
    """The number of failed logins of each address, for a while after the last."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}
        """Their number and the time of the last, in the order of the last."""

    def failed(self, address: str, now: float) -> float:
        """Count a failure, and return the seconds by which its answer is delayed."""
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
