"""Whether a client wants to be answered."""

from __future__ import annotations

from enum import Enum


class Answers(Enum):
    """What CLIENT REPLY asked for."""

    ON = "on"
    OFF = "off"
    SKIP = "skip"
    """Not the next one."""
