"""Numbers as people read them, in the sentences of the API."""

from __future__ import annotations


def some(number: float, noun: str, plural: str = "") -> str:
    """So many of something: ``1 message``, ``1,204 messages``."""
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"


def some_do(number: float, noun: str, one: str, many: str) -> str:
    """So many do something: ``1 message waits``, ``7 messages wait``."""
    return f"{some(number, noun)} {one if number == 1 else many}"


def percent(part: float) -> str:
    """A part of a whole, as the page and the command line write it."""
    return f"{part * 100:.0f} %"


def in_words(seconds: float) -> str:
    """A duration for people."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 172_800:
        return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} days"
