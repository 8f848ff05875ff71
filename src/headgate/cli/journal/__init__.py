"""``headgate journal``: what happened, from the segments on disk."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup

LOOKING = "headgate.cli.journal.looking"


@click.group(
    cls=LazyGroup,
    lazy={
        "tail": (LOOKING, "Print facts, oldest first: the last 20, or from a number on."),
        "stats": (LOOKING, "Count the facts by kind, and say how much the journal takes."),
        "verify": (LOOKING, "Read every segment and see whether it is what its name says."),
    },
)
def journal() -> None:
    """Look at the facts that a router or a server wrote down."""
