"""The router's own time, which nobody can set.

It begins with the machine's time and goes on with a clock that only runs, asleep or not. The
machine's time draws it by one part in a hundred at most, so that it keeps to it in the long run
and never jumps. Whatever ends by itself ends by this clock: messages, keys, ids that are
remembered, segments of the journal, what sinks have staged, sessions that say nothing.

What is stored is removed for its age only by a time that is beyond doubt (`sure`), because it is
gone for good then. In doubt that time stands still; docs/design/clock.md says when.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from headgate.store.private import make_file

FILE = "clock"
"""In the state directory: the latest time beyond doubt, as text."""

DRAW = 0.01
"""How much of a second the machine's clock may draw ours in a second."""

DOUBT_SECONDS = 3600.0
"""If the clocks are further apart, one of them is wrong, and it is not known which."""

AWAY_SECONDS = 86_400.0
"""A router that was away for longer may be started with a wrong clock."""

HOLD_SECONDS = 3600.0
"""How long such a clock is doubted."""

steady: Callable[[], float] = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)
"""Seconds since some moment, sleep of the machine included."""


class Clock:
    """Called for the time. `last` is what an earlier router was sure of, if there was one."""

    def __init__(
        self,
        last: float | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()
        self._followed = steady()
        self.is_sure = last is None or self() - last <= AWAY_SECONDS
        """Whether time that passes makes stored things older."""
        self._sure = self() if self.is_sure or last is None else last
        self._believed = 0.0 if self.is_sure else self() + HOLD_SECONDS
        """From then on the time of the start is not doubted any more."""

    def __call__(self) -> float:
        return self._steady() + self._offset

    @property
    def sure(self) -> float:
        """The latest time beyond doubt."""
        return self() if self.is_sure else self._sure

    @property
    def difference(self) -> float:
        """How far the machine's clock is ahead of this one."""
        return self._wall() - self()

    def follow(self) -> bool:
        """Look at the machine's clock; to be called every second or so. Whether doubt came or
        went."""
        difference, now = self.difference, self._steady()
        passed, self._followed = now - self._followed, now
        is_near = abs(difference) <= DOUBT_SECONDS
        if is_near:
            most = DRAW * passed
            self._offset += min(max(difference, -most), most)
        is_sure = is_near and self() >= self._believed
        changed = is_sure != self.is_sure
        if changed and not is_sure:
            self._sure = self()
        self.is_sure = is_sure
        return changed


def load(folder: Path) -> float | None:
    """The time saved in a state directory, if there is one that can be read."""
    try:
        return float((folder / FILE).read_text("ascii"))
    except (OSError, ValueError):
        return None


def save(folder: Path, sure: float) -> None:
    """Keep it for the next start. A disk that is full has more important things to say."""
    part = folder / f".{FILE}.{os.getpid()}"
    with suppress(OSError):
        with open(make_file(part), "w", encoding="ascii") as file:
            file.write(f"{sure:.3f}\n")
        part.replace(folder / FILE)
