"""Drift: the queues of a service at its router are not those that the service counts on.

Both keep a tally (`tally`), and whoever has the other's compares. What is found is recorded or
repaired, never refused: a service that drifted still gets its messages.
"""

from __future__ import annotations

from enum import Enum


class Drift(Enum):
    """How an expected tally differs from the kept one."""

    NONE = "none"
    MORE = "more"
    """The router has more queues than expected."""
    FEWER = "fewer"
    DIFFERENT = "different"
    """As many, but others."""
