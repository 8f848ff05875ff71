"""``headgate channel`` and ``headgate pattern``: what is published, and who hears it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from headgate.cli.admin import Admin
from headgate.cli.lazy import LazyGroup
from headgate.cli.live.pages import paged
from headgate.cli.output import emit, json_option
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.terminal import clean
from headgate.cli.units import count, moment, rate, size
from headgate.cli.which_router import Asked, router_options

HERE = "headgate.cli.live.channel"


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the channels that are published to, busiest first."),
        "tail": (HERE, "Print some of what is published, as it comes."),
    },
)
def channel() -> None:
    """Look at channels, and at what is published on them."""


@click.group(
    cls=LazyGroup,
    lazy={"ls": (f"{HERE}:patterns", "Print the patterns that somebody subscribed to.")},
)
def pattern() -> None:
    """Look at patterns."""


@click.command()
@click.option("--search", metavar="TEXT", help="Only those whose name has this in it.")
@list_options(
    Column("channel"),
    Column("rate", "in", rate, is_number=True),
    Column("bytes_per_s", "size", lambda n: f"{size(n)}/s", is_number=True),
    Column("receivers", show=count, is_number=True),
    Column("deliveries_per_s", "out", rate, is_number=True),
    Column("patterns_hearing", "heard by", ", ".join),
    Column("kind", is_wide=True),
)
@router_options
def ls(search: str | None, listing: Listing, asked: Asked) -> None:
    """Print the channels that are published to, busiest first.

    Numbers are those of the last ten seconds.
    """
    admin = asked.admin()
    listing.show(lambda: paged(admin, "/channels", listing, q=search))


@click.command("ls")
@list_options(
    Column("pattern"),
    Column("sessions", show=count, is_number=True),
    Column("matched_per_s", "matched", rate, is_number=True),
)
@router_options
def patterns(listing: Listing, asked: Asked) -> None:
    """Print the patterns that somebody subscribed to."""
    admin = asked.admin()
    listing.show(lambda: paged(admin, "/patterns", listing))


@click.command()
@click.argument("pattern")
@click.option("--where", metavar="EXPR", help="Of queues, only messages for which this is true.")
@click.option("--bodies", is_flag=True, help="Also bodies, if desk.bodies of the router allows it.")
@click.option("--count", "most", type=click.IntRange(1), help="Exit after this many messages.")
@router_options
@json_option
def tail(
    pattern: str,
    where: str | None,
    bodies: bool,
    most: int | None,
    asked: Asked,
    as_json: bool,
) -> None:
    """Print some of what is published, as it comes.

    PATTERN is a glob over channels, as "ticks.*", or the name of a queue, bmq://DOMAIN/QUEUE.
    Nobody is slowed down: the router shows at most twenty messages a second and says how many it
    did not show. To get every message, use "headgate sub".
    """
    emit(_messages(asked.admin(), pattern, where, bodies, most), _line, as_json)


def _messages(
    admin: Admin, pattern: str, where: str | None, bodies: bool, most: int | None
) -> Iterator[Mapping[str, Any]]:
    shown = 0
    query: dict[str, object] = {"pattern": pattern, "where": where, "bodies": bodies or None}
    for event in admin.events("/tail", **query):
        if event.kind == "skipped":
            if event.content["count"]:
                click.echo(f"… {event.content['count']} more were not shown", err=True)
        elif event.kind == "message":
            yield event.content
            shown += 1
            if shown == most:
                return


def _line(row: Mapping[str, Any]) -> str:
    where = row.get("channel") or row.get("queue") or ""
    properties = row.get("properties") or {}
    shown: Iterable[str] = (f"{name}={value}" for name, value in properties.items())
    parts = [moment(row["at"]), where, size(row["size"]), *shown]
    if row.get("body") is not None:
        parts.append(row["body"])
    return clean("  ".join(parts))
