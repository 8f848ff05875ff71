"""``headgate queue``: which shared queues there are, and to empty or remove one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import click

from headgate.cli.admin import Admin, part
from headgate.cli.confirming import confirm, yes_option
from headgate.cli.lazy import LazyGroup
from headgate.cli.output import emit, json_option
from headgate.cli.queue_name import domain_of, queue_argument
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.units import count, size
from headgate.cli.which_router import Asked, router_options
from headgate.errors import RouterError

HERE = "headgate.cli.live.queue"


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the queues of a domain, open or not."),
        "show": (HERE, "Print what a queue holds, and how many have it open."),
        "purge": (HERE, "Remove all messages that a queue holds now."),
        "delete": (HERE, "Remove a queue with all its messages."),
    },
    hidden={"list": "ls"},
)
def queue() -> None:
    """List, look into, empty and remove shared queues."""


COLUMNS = (
    Column("queue"),
    Column("messages", show=count, is_number=True),
    Column("bytes", "size", size, is_number=True),
    Column("consumers", show=count, is_number=True),
    Column("producers", show=count, is_number=True),
    Column("domain", is_wide=True),
)


@click.command()
@click.argument("domain")
@list_options(*COLUMNS)
@router_options
def ls(domain: str, listing: Listing, asked: Asked) -> None:
    """Print the queues of a domain, open or not.

    Of each, what it holds and how many have it open.
    """
    admin = asked.admin()
    listing.show(lambda: listed(admin, domain))


@click.command()
@queue_argument
@router_options
@json_option
def show(queue: str, asked: Asked, as_json: bool) -> None:
    """Print what a queue holds, and how many have it open."""
    rows = listed(asked.admin(), domain_of(queue))
    found = [row for row in rows if row["queue"] == queue]
    if not found:
        raise RouterError(f"there is no queue {queue}")
    emit(found, _line, as_json)


@click.command()
@queue_argument
@yes_option
@router_options
@json_option
def purge(queue: str, yes: bool, asked: Asked, as_json: bool) -> None:
    """Remove all messages that a queue holds now.

    They go for all apps, delivered or not.
    """
    admin = asked.admin()
    confirm(yes, f"Remove all messages of {queue}?")
    emit([admin.plain("DELETE", "/queues", {"queue": queue})], _done, as_json)


@click.command()
@queue_argument
@click.option("--force", is_flag=True, help="Even if it is open: its sessions are closed.")
@yes_option
@router_options
@json_option
def delete(queue: str, force: bool, yes: bool, asked: Asked, as_json: bool) -> None:
    """Remove a queue with all its messages."""
    admin = asked.admin()
    confirm(yes, f"Remove {queue} and all its messages?")
    wanted = {"queue": queue, "removes": True, "forced": force}
    emit([admin.plain("DELETE", "/queues", wanted)], _done, as_json)


def listed(admin: Admin, domain: str) -> Iterator[dict[str, Any]]:
    """All queues of a domain, a page at a time."""
    after = ""
    while True:
        path = f"/queues/{part(domain)}?{urlencode({'after': after})}"
        rows = admin.plain("GET", path)["queues"]
        yield from rows
        if not rows:
            return
        after = rows[-1]["queue"]


def _line(row: Mapping[str, object]) -> str:
    return (
        f"{row['queue']}: {row['messages']} messages, {row['bytes']} bytes,"
        f" {row['consumers']} consumers, {row['producers']} producers"
    )


def _done(row: Mapping[str, object]) -> str:
    what = "removed" if row["removed"] else "purged"
    return f"{row['queue']}: {what}, {row['messages']} messages"
