"""Laws of the messages and events of agents, as their applications see them.

The book knows what was sent, shown and acknowledged, and nothing of how that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.agent.model import ConnectionId

Broken: TypeAlias = Callable[[str, str], None]
"""Called with the law that does not hold, and how."""


@dataclass(eq=False)
class QueueBook:
    """The book of one queue: the messages that its sender gave to its agent, by number, and what
    became of them at the other end."""

    name: str
    broken: Broken
    begun: int = 0
    """Messages whose `send` was called."""
    sent: set[int] = field(default_factory=set)
    """Messages whose `send` returned."""
    refused: set[int] = field(default_factory=set)
    """Messages whose `send` raised."""
    shown: dict[int, int] = field(default_factory=dict)
    """How often each was shown."""
    done: set[int] = field(default_factory=set)
    """Messages whose `ack` was called: its process may be killed before that returns."""
    acknowledged: set[int] = field(default_factory=set)
    """Messages whose `ack` returned."""
    _last: int = 0

    def next(self) -> int:
        self.begun += 1
        return self.begun

    def show(self, number: int) -> None:
        """A message is shown to the application."""
        if number > self.begun or number in self.refused:
            self.broken("lost", f"{self.name}: message {number} was shown and never sent")
        if number in self.acknowledged:
            self.broken("acknowledged", f"{self.name}: message {number} was shown after its ack")
        if number not in self.shown:
            missing = sorted(n for n in self.sent if n < number and n not in self.shown)
            if number < self._last or missing:
                before = missing or [self._last]
                self.broken("order", f"{self.name}: {number} was shown in front of {before}")
            self._last = max(self._last, number)
        self.shown[number] = self.shown.get(number, 0) + 1

    @property
    def left(self) -> list[int]:
        """What was sent, and not shown to somebody who was done with it."""
        return sorted(self.sent - self.done - self.acknowledged)


class UpBook:
    """A book of who is up, by the events of one run of an agent."""

    def __init__(self, name: str, broken: Broken) -> None:
        self._name = name
        self._broken = broken
        self._up: set[ConnectionId] = set()
        self._down: set[ConnectionId] = set()
        """Announced down, and not up since. One that was just made is up without a word."""

    def up(self, connections: tuple[ConnectionId, ...]) -> None:
        if not connections or len(set(connections)) < len(connections):
            self._broken("up", f"{self._name}: an UP of nobody, or of somebody twice")
        if self._up.intersection(connections):
            self._broken("up", f"{self._name}: a connection is announced up twice in a row")
        self._up.update(connections)
        self._down.difference_update(connections)

    def down(self, connections: tuple[ConnectionId, ...]) -> None:
        if self._down.intersection(connections):
            self._broken("up", f"{self._name}: a connection is announced down twice in a row")
        self._up.difference_update(connections)
        self._down.update(connections)

    def over(self, connections: Iterable[ConnectionId]) -> None:
        """Another event has ended what these had."""
        self._up.difference_update(connections)
