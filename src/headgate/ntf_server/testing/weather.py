"""Weather of a world of a notification server: what goes wrong, and how often."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random

from headgate.testing.agents.weather import AgentWeather, draw_weather


@dataclass
class NtfWeather(AgentWeather):
    """Weather in which providers fail as well."""

    push_failure: float = 0.0
    """That a push is not delivered: the provider raises, hangs, wants it later, or refuses it."""
    death: float = 0.0
    """That the provider takes a device for dead."""

    def calm(self) -> None:
        super().calm()
        self.push_failure = self.death = 0.0


def draw_ntf_weather(random: Random) -> NtfWeather:
    weather = asdict(draw_weather(random))
    weather["disk_failure"] = random.choice((0.0, 0.05, 0.3))
    return NtfWeather(
        **weather,
        push_failure=random.choice((0.0, 0.1, 0.5)),
        death=random.choice((0.0, 0.0, 0.05)),
    )
