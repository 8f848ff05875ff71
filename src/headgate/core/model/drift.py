"""Drift: a service and its router disagree about the queues of the service.

Both keep a tally (`tally`), and either can compare. A difference is recorded or repaired, never
refused: a service that drifted still gets its messages.
"""

from __future__ import annotations

from enum import Enum


class Drift(Enum):
    """How an expected tally differs from the router's own."""

    NONE = "none"
    MORE = "more"
    """The router has more queues than expected."""
    FEWER = "fewer"
    DIFFERENT = "different"
    """As many queues, but others."""
