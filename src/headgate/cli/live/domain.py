"""``headgate domain``: domains, their queues and apps, and what nobody wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from headgate.cli.admin import Admin, part
from headgate.cli.lazy import LazyGroup
from headgate.cli.live.pages import paged
from headgate.cli.output import emit, json_option, print_page
from headgate.cli.queue_name import path_of, queue_argument
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.terminal import clean
from headgate.cli.units import count, counted, moment, size
from headgate.cli.which_router import Asked, router_options

HERE = "headgate.cli.live.domain"


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the domains, and what their queues hold."),
        "show": (HERE, "Print a domain, with its queues in memory."),
        "aside": (HERE, "Print messages that nobody wants, and why."),
    },
)
def domain() -> None:
    """Look at domains, and at what nobody wants."""


@click.command()
@click.option("--search", metavar="TEXT", help="Only those whose name has this in it.")
@list_options(
    Column("domain"),
    Column("mode"),
    Column("queues", show=count, is_number=True),
    Column("messages", show=count, is_number=True),
    Column("bytes", "size", size, is_number=True),
    Column("capacity"),
    Column("apps", show=", ".join),
    *(
        Column(name, show=count, is_number=True, is_wide=True)
        for name in ("opened", "max_messages", "domain_max_messages")
    ),
)
@router_options
def ls(search: str | None, listing: Listing, asked: Asked) -> None:
    """Print the domains, and what their queues hold."""
    admin = asked.admin()
    listing.show(lambda: paged(admin, "/domains", listing, q=search))


@click.command()
@click.argument("name", metavar="DOMAIN")
@router_options
@json_option
def show(name: str, asked: Asked, as_json: bool) -> None:
    """Print a domain, with its queues in memory.

    The fullest come first.
    """
    found = asked.admin().get(f"/domains/{part(name)}", limit=100)
    if as_json:
        print_page(found, as_json=True)
        return
    queues = [
        f"{row['name']}: {counted(row['messages'], 'message')} ({size(row['bytes'])}),"
        f" {counted(row['consumers'], 'consumer')}, {counted(row['producers'], 'producer')}"
        for row in found["rows"]
    ]
    print_page(found["row"], {"queues": queues})


@click.command()
@queue_argument
@click.option("--app", default=None, help="Of an app.  [default: all]")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@router_options
@json_option
@click.pass_context
def aside(
    ctx: click.Context,
    queue: str,
    app: str | None,
    limit: int,
    asked: Asked,
    as_json: bool,
) -> None:
    """Print messages that nobody wants, and why.

    They were put aside: no subscription is true for them now. Exits with 3 if there are some.
    """
    found = list(_found(asked.admin(), queue, app, limit))
    emit(found, _lines, as_json)
    ctx.exit(3 if any(each["total"] for each in found) else 0)


def _found(admin: Admin, queue: str, app: str | None, limit: int) -> Iterator[dict[str, Any]]:
    path = path_of(queue)
    apps = [app] if app is not None else [each["app"] for each in admin.get(path)["apps"]]
    for each in apps:
        yield {"queue": queue, "app": each, **admin.get(f"{path}/aside", app=each, limit=limit)}


def _lines(row: Mapping[str, Any]) -> str:
    name = f"{row['queue']} {row['app']}".strip()
    verb = "matches" if row["total"] == 1 else "match"
    lines = [f"{name}: {counted(row['total'], 'message')} {verb} nobody"]
    for message in row["rows"]:
        properties = ", ".join(f"{k}={v}" for k, v in message["properties"].items())
        lines.append(f"  {moment(message['at'])}  {message['message']}  {properties}")
    for why in row["why"]:
        reasons = {
            "false": why["false"],
            "without a property": why["name"],
            "of another type": why["type"],
            "arithmetic": why["arithmetic"],
        }
        shown = ", ".join(f"{number} {reason}" for reason, number in reasons.items() if number)
        lines.append(f"  {why['expression'] or '(no expression)'}: {shown or 'none'}")
    return "\n".join(map(clean, lines))
