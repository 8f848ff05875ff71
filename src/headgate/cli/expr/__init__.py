"""``headgate expr``: check expressions, try them, and ask what they would change."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "check": (
            "headgate.cli.expr.trying",
            "Show how an expression is read, and what looks wrong.",
        ),
        "test": ("headgate.cli.expr.trying", "Evaluate an expression for a message."),
        "repl": ("headgate.cli.expr.prompt", "Try expressions one after another."),
        "impact": ("headgate.cli.expr.asking", "Say what an expression would take from whom."),
        "compare": ("headgate.cli.expr.asking", "Say what another set of subscriptions changes."),
    },
)
def expr() -> None:
    """Check and try subscription expressions.

    An expression that begins with a minus goes after a double dash: -- "-x < 5".
    """
