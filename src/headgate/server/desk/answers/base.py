"""The base of all answers of the API, and the answer to a request that is refused."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all answers."""


class Problem(Answer, frozen=True, kw_only=True):
    """Why a request was refused."""

    error: str
    """What is wrong, for people."""
    code: str
    """The same for programs: one word."""
    hint: str = ""
    """What to do next."""
