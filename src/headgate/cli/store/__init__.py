"""``headgate store``: what is done to a store while no router uses it."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup

HERE = "headgate.cli.store"


@click.group(
    cls=LazyGroup,
    lazy={
        "check": (f"{HERE}.checking", "Look whether what a store holds is sound."),
        "vacuum": (f"{HERE}.checking", "Give back the room of what was deleted."),
        "copy": (f"{HERE}.copying", "Copy a store to an empty one."),
    },
)
def store() -> None:
    """Check, tidy and copy what the router keeps.

    No router may use the store meanwhile: it says who does.
    """
