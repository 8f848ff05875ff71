"""What every answer of the API is, and what is answered instead of one."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Whatever is answered."""


class Problem(Answer, frozen=True, kw_only=True):
    """Why a request was refused."""

    error: str
    """What is wrong, for people."""
    code: str
    """The same for programs: one word."""
    hint: str = ""
    """What to do next."""
