"""The timing of a link: its timeouts, and its limits."""

from __future__ import annotations

from headgate.core.model.value import value


@value
class Timing:
    """The seconds and limits of one link. The defaults are for work in the background."""

    connect_seconds: float = 45.0
    """For one host of an address: TCP, TLS and the greetings."""
    answer_seconds: float = 30.0
    """From the writing of a block until it is answered."""
    ping_seconds: float = 600.0
    """Seconds without data after which a link with subscriptions sends a PING."""
    pings_missed_max: int = 3
    """Missing answers in a row after which a link is given up, if it was also silent for long
    enough."""
    silence_seconds: float = 900.0
    """Seconds without data before which no link is given up for missing answers."""
    late_seconds: float = 600.0
    """Seconds for which a request without a caller is remembered."""
    late_max: int = 10_000
    """Requests remembered so."""
    subscribing_blocks_max: int = 10
    """Unanswered blocks of SUBs at once."""


BACKGROUND = Timing()
PERSON_WAITS = Timing(connect_seconds=15.0, answer_seconds=10.0)
