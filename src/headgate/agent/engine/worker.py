"""A worker that tries again for one slot until nothing is pending."""

from __future__ import annotations

from headgate.agent.engine.backoff import Backoff, Delays, draw_jitter, spread

MINUTE = 60.0


class Worker:
    """The pauses of a slot. It rests between two rounds; in a round the service and every pending
    queue are sent once. Each slot has one, independent of the others."""

    __slots__ = ("_armed", "_backoff", "_delays", "_failures", "_name", "_seed", "rest_until")

    def __init__(self, delays: Delays, seed: int, name: str) -> None:
        # S000-88: it has no reference to another slot, so it can only end itself.
        self._delays = delays
        self._seed = seed
        self._name = name
        self._backoff = Backoff(delays)
        self._failures: list[float] = []
        self.rest_until: float | None = None
        """None while a round goes on."""
        self._armed: float | None = None

    def rest(self, now: float, longest: bool = False) -> None:
        """Wait before the next round."""
        backoff = self._backoff.step_longest() if longest else self._backoff.step()
        self._backoff = backoff
        jitter = draw_jitter(self._seed, self._name, backoff.attempt)
        self.rest_until = now + spread(backoff.pause, jitter)

    def arm(self) -> float | None:
        """The end of the rest, if no wake-up was requested for it yet."""
        if self.rest_until == self._armed:
            return None
        self._armed = self.rest_until
        return self._armed

    def is_resting(self, now: float) -> bool:
        return self.rest_until is not None and now < self.rest_until

    def reset(self) -> None:
        """Begin with the first pause again, and with a round at once."""
        self._backoff = Backoff(self._delays)
        self.rest_until = None

    def lose_session(self, opened_at: float, now: float) -> None:
        """Note that a session ended. After one that lasted, the next is tried at once; one that did
        not counts as another failure, so that a router that hangs up is not called without a
        pause."""
        # S000-83: resubscribing begins by itself.
        if now - opened_at >= self._delays.constant_for:
            self.reset()
        else:
            self.rest(now)

    def count_failure(self, now: float) -> int:
        """Count an error of the shell; return how many there were within a minute."""
        self._failures = [at for at in self._failures if now - at < MINUTE]
        self._failures.append(now)
        return len(self._failures)
