"""Numbers as people read them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(number: float) -> str:
    """Bytes."""
    place = 0
    while number >= 1024 and place < len(UNITS) - 1:
        number /= 1024
        place += 1
    return f"{number:.0f} B" if place == 0 else f"{number:.1f} {UNITS[place]}"


def count(number: float) -> str:
    """A number of things."""
    return f"{number:,.0f}"


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{count(number)} {what}" + ("" if number == 1 else "s")


def limited(text: str, most: float | None, show: Callable[[float], str]) -> str:
    """An amount, and of how much at most."""
    return text if most is None else f"{text} of {show(most)}"


def rate(number: float) -> str:
    """So many a second."""
    return f"{number:,.0f}/s" if number >= 10 or number == 0 else f"{number:.1f}/s"


def share(number: float) -> str:
    return f"{number * 100:.0f} %"


def duration(seconds: float) -> str:
    """How long, with one unit or two."""
    if seconds < 0.001:
        return "0 s" if seconds <= 0 else f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} d"


def since(moment: float) -> str:
    """How long ago."""
    return duration(max(0.0, time.time() - moment))


def moment(seconds: float) -> str:
    """A time, in UTC."""
    at = datetime.fromtimestamp(seconds, UTC)
    return at.replace(tzinfo=None).isoformat(" ", "seconds")
