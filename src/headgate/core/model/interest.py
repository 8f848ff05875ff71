"""The interest of a consumer in an app: an expression, a priority, a window."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.value import value
from headgate.core.model.window import Window
from headgate.expr.predicate import Predicate


@value
class Interest:
    """One subscription of a consumer. Without an expression it matches every message."""

    expression: str | None = None
    priority: int = 0
    window: Window = Window(1000, 32 * 1024 * 1024)


Compiled: TypeAlias = dict[str, Predicate]
"""Expressions of a command that are compiled already. Many take several turns: the command is
repeated until all are, and other commands, also of its session, are carried out in between."""
