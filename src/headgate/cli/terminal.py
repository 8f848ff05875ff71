"""The terminal at standard output: how wide it is, and whether it takes colours.

``NO_COLOR`` and ``TERM=dumb`` are respected. Names, expressions and reasons that others chose are
text: characters that a terminal would obey are shown as a mark.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata

import click

NARROW = 80
"""Columns of a terminal that does not say how many it has."""


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def has_colours() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def has_cursor() -> bool:
    """Whether a screen can be drawn anew in place."""
    return is_terminal() and os.environ.get("TERM", "dumb") != "dumb"


def width() -> int:
    """Columns of the terminal."""
    return _extent().columns


def height() -> int:
    return _extent().lines


def _extent() -> os.terminal_size:
    """As large as it is; what the environment says may be of another one."""
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return shutil.get_terminal_size((NARROW, 24))


def styled(text: str, **style: bool | str) -> str:
    """The text, in a style if there are any."""
    return click.style(text, **style) if has_colours() else text  # type: ignore[arg-type]


def clean(text: str) -> str:
    """A text that somebody else chose, without characters that a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def cells(text: str) -> int:
    """How many columns a text takes."""
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, most: int) -> str:
    """The text, or its beginning and a mark if it is too wide."""
    if cells(text) <= most:
        return text
    kept, used = [], 0
    for character in text:
        used += _cells(character)
        if used > most - 1:
            break
        kept.append(character)
    return "".join(kept) + "…" if most > 0 else ""


def padded(text: str, to: int, *, right: bool = False) -> str:
    """The text with spaces, so that it takes so many columns."""
    space = " " * (to - cells(text))
    return space + text if right else text + space
