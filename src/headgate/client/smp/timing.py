"""The timing of a link: how long it waits, and how much it keeps."""

from __future__ import annotations

from headgate.core.model.value import value


@value
class Timing:
    """The seconds and bounds of one link. The defaults are those of work in the background."""

    connect_seconds: float = 45.0
    """For one host of an address: TCP, TLS and the greetings."""
    answer_seconds: float = 30.0
    """From the moment when a block was written until it is answered."""
    ping_seconds: float = 600.0
    """Without data after which a link with subscriptions asks whether the router is there."""
    pings_missed_max: int = 3
    """Unanswered in a row before a link is given up, if it was also silent for long enough."""
    silence_seconds: float = 900.0
    """Without data before which no link is given up for missed pings."""
    late_seconds: float = 600.0
    """For which a request is remembered that nobody waits for any more."""
    late_max: int = 10_000
    """Requests that are remembered so."""
    subscribing_blocks_max: int = 10
    """Blocks of SUBs that may be unanswered at once."""


BACKGROUND = Timing()
PERSON_WAITS = Timing(connect_seconds=15.0, answer_seconds=10.0)
