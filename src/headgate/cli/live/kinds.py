"""``headgate ls`` and ``headgate show``: everything by its kind."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.units import count, moment, size
from headgate.cli.which_router import Asked, router_options

LIVE = "headgate.cli.live"


@click.group(
    cls=LazyGroup,
    lazy={
        "sessions": (f"{LIVE}.session:ls", "Print the sessions, those in trouble first."),
        "channels": (
            f"{LIVE}.channel:ls",
            "Print the channels that are published to, busiest first.",
        ),
        "patterns": (f"{LIVE}.channel:patterns", "Print the patterns that somebody subscribed to."),
        "queues": (f"{LIVE}.queue:ls", "Print shared queues, open or not."),
        "services": (f"{LIVE}.service:ls", "Print the services that are subscribed."),
        "domains": (f"{LIVE}.domain:ls", "Print the domains, and what their queues hold."),
        "sinks": (f"{LIVE}.kinds:sinks", "Print the sinks of Spark, and their last batches."),
    },
)
def ls() -> None:
    """List what there is, by its kind."""


@click.group(
    cls=LazyGroup,
    lazy={
        "session": (f"{LIVE}.session:show", "Print one session, with what it hears and holds."),
        "queue": (f"{LIVE}.queue:show", "Print a queue: its apps, what waits, and for whom."),
        "service": (f"{LIVE}.service:show", "Print one service."),
        "domain": (f"{LIVE}.domain:show", "Print a domain, with its queues in memory."),
    },
)
def show() -> None:
    """Show one thing, by its kind and name."""


@click.command()
@list_options(
    Column("sink"),
    Column("batch", "last batch", count, is_number=True),
    Column("at", "committed", moment),
    Column("staged_bytes", "staged", size, is_number=True),
)
@router_options
def sinks(listing: Listing, asked: Asked) -> None:
    """Print the sinks of Spark, and their last batches."""
    admin = asked.admin()
    listing.show(lambda: admin.plain("GET", "/sinks")["sinks"])
