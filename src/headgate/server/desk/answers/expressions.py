"""Answers about expressions: their value, their impact, a comparison."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.server.desk.answers.base import Answer
from headgate.server.desk.answers.domains import MessageRow


class TreePart(Answer, frozen=True, kw_only=True):
    """A part of an expression, and its value for some properties."""

    label: str
    kind: Literal["operator", "property", "literal"]
    value: str | None
    """Null if it was not reached."""
    parts: list[TreePart]


class Tried(Answer, frozen=True, kw_only=True):
    """What an expression says of recent messages."""

    true: int
    false: int
    name: int
    type: int
    arithmetic: int


class ImpactRow(Answer, frozen=True, kw_only=True):
    """Whose messages a new subscription would take."""

    count: int
    expression: str | None
    priority: int | None
    """Null if nobody gets these messages now."""
    shares: bool
    """The priority is the same: it would get its turn if the expression is the same too, and
    else what the other has no room for."""


class ExpressionAnswer(Answer, frozen=True, kw_only=True):
    """What an expression means, or why it is none."""

    ok: bool
    code: str = ""
    message: str = ""
    offset: int | None = None
    """Where it is wrong: characters before that place."""
    hint: str = ""
    tree: TreePart | None = None
    names: list[str] = msgspec.field(default_factory=list)
    keys: list[str] | None = None
    """By which an index finds it; null if it has to be tried on every message."""
    warnings: list[str] = msgspec.field(default_factory=list)
    result: str = ""
    """Its value for the properties that were given: true, false, NAME, TYPE or ARITHMETIC."""
    reason: str = ""
    """Why it has none, as `explain` says it."""
    tried: Tried | None = None
    recent: int = 0
    """How many recent messages it was tried on."""
    samples: list[MessageRow] = msgspec.field(default_factory=list)
    """Some that it is true for."""
    impact: list[ImpactRow] = msgspec.field(default_factory=list)


class Moved(Answer, frozen=True, kw_only=True):
    """Messages that others would get."""

    count: int
    app: str
    before: str | None
    """The expression that takes them now; null if none does."""
    after: str | None
    sample: MessageRow


class CompareAnswer(Answer, frozen=True, kw_only=True):
    """What becomes of recent messages with one set of subscriptions, and with another."""

    recent: int
    unchanged: int
    moved: list[Moved]
    orphaned: int
    """Messages that somebody gets before and nobody after."""
    newly_matched: int
    """Messages that nobody gets before and somebody after."""
