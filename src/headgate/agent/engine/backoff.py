"""The pauses between attempts, as a sequence without a clock."""

from __future__ import annotations

from zlib import crc32

from headgate.core.model.value import value

JITTER = 0.1
"""The part by which a pause may be shorter or longer."""


@value
class Delays:
    """The numbers of a sequence of pauses, in seconds."""

    first: float = 2.0
    constant_for: float = 10.0
    """Seconds of waiting in total before the pauses grow."""
    factor: float = 1.5
    longest: float = 180.0

    def after(self, pause: float) -> float:
        """The pause after this one, once pauses grow."""
        return min(pause * self.factor, self.longest)


@value
class Backoff:
    """A place in a sequence of pauses. It never changes; `step` leads to the next."""

    delays: Delays
    attempt: int = 0
    waited: float = 0.0
    pause: float = 0.0
    """The last one, before jitter; 0 before the first."""

    def step(self) -> Backoff:
        """The position after one more failure; its `pause` is to be waited now."""
        delays = self.delays
        if self.attempt == 0:
            pause = delays.first
        # S000-84: pauses grow once the failure has lasted.
        elif self.waited < delays.constant_for:
            pause = self.pause
        else:
            pause = delays.after(self.pause)
        return Backoff(delays, self.attempt + 1, self.waited + pause, pause)

    def step_longest(self) -> Backoff:
        """The position after a failure that hardly passes by itself."""
        longest = self.delays.longest
        return Backoff(self.delays, self.attempt + 1, self.waited + longest, longest)


def spread(pause: float, jitter: float) -> float:
    """The pause with its jitter, a number from -1 to 1."""
    return pause * (1 + JITTER * jitter)


def draw_jitter(seed: int, name: str, attempt: int) -> float:
    """A number from -1 to 1 for this attempt, the same for the same arguments, so that an engine
    with the same inputs does the same."""
    return crc32(f"{seed} {name} {attempt}".encode()) / 0xFFFFFFFF * 2 - 1
