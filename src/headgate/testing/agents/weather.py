"""Weather of a world of agents: what goes wrong, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass
class AgentWeather:
    """The weather of a world of agents. It changes once: the world becomes calm."""

    latency: float = 0.05
    """Seconds at most from one end of a link to the other."""
    disk_seconds: float = 0.02
    """At most until a disk has done what it was asked, and again until that is known."""
    disk_failure: float = 0.0
    """That a commit fails."""
    refusal: float = 0.0
    """That a router answers a request with an error that passes."""
    connect_failure: float = 0.0
    loss: float = 0.0
    """That a connection breaks with what it is asked to carry."""

    def calm(self) -> None:
        """Nothing goes wrong from now on."""
        self.disk_failure = self.refusal = self.connect_failure = self.loss = 0.0


def draw_weather(random: Random) -> AgentWeather:
    """Bad weather: each part of it is missing in some worlds, so that others are seen alone."""
    return AgentWeather(
        latency=random.choice((0.001, 0.05, 2.0)),
        disk_seconds=random.choice((0.0, 0.02, 1.0)),
        disk_failure=random.choice((0.0, 0.0, 0.05)),
        refusal=random.choice((0.0, 0.03, 0.1)),
        connect_failure=random.choice((0.0, 0.2)),
        loss=random.choice((0.0, 0.01, 0.05)),
    )
