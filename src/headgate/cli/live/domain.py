"""``headgate domain``: domains, their queues and apps, and what nobody wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from headgate.cli.admin import Admin, part
from headgate.cli.lazy import LazyGroup
from headgate.cli.live.known import naming
from headgate.cli.live.pages import paged
from headgate.cli.live.reasons import MESSAGES, why_undecided
from headgate.cli.output import emit, json_option, print_page
from headgate.cli.queue_name import path_of, queue_argument
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.terminal import clean
from headgate.cli.units import count, counted, limited, moment, size
from headgate.cli.which_router import Asked, router_options
from headgate.errors import RouterError

HERE = "headgate.cli.live.domain"


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the domains, and what their queues hold."),
        "show": (HERE, "Print a domain, with its queues in memory."),
        "aside": (HERE, "Print messages that nobody wants, and why."),
        "poison": (HERE, "Print messages that were given up lately."),
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
    admin = asked.admin()
    with naming(admin, name):
        found = admin.get(f"/domains/{part(name)}", limit=100)
    if as_json:
        print_page(found, as_json=True)
        return
    print_page(domain_fields(found["row"]))
    if found["rows"]:
        click.echo()
        for line in Listing(QUEUES).lines(found["rows"]):
            click.echo(line)
    for row in [row for row in found["rows"] if row["undelivered"]][:EXPLAINED_QUEUES]:
        for text in _nobody_wants(admin, row["queue"]):
            click.echo(f"\n{text}")


def domain_fields(row: Mapping[str, Any]) -> dict[str, object]:
    per_queue = [
        show(row[name]) + what
        for name, show, what in (("max_messages", count, " messages"), ("max_bytes", size, ""))
        if row[name] is not None
    ]
    return {
        "domain": row["domain"],
        "mode": row["mode"],
        "apps": row["apps"] or None,
        **(_holding(row) if row["queues"] is not None else EXCLUSIVE),
        "per queue": f"at most {', '.join(per_queue)}" if per_queue else None,
        "streams": row["streams"] or None,
        "groups": "clients make more" if row["groups"] == "open" else None,
        "fed by": row["feeds"] or None,
        "speaks on": row["speaks"] or None,
    }


EXCLUSIVE = {"queues": "exclusive, and not counted; headgate queue show ID looks one up"}
"""In place of what a domain of shared queues holds."""


def _holding(row: Mapping[str, Any]) -> dict[str, object]:
    messages = limited(counted(row["messages"], "message"), row["domain_max_messages"], count)
    return {
        "queues": f"{count(row['queues'])}, {count(row['opened'])} of them in memory",
        "holds": f"{messages}, {limited(size(row['bytes']), row['domain_max_bytes'], size)}",
        "capacity": row["capacity"],
    }


QUEUES = (
    Column("name", "queue"),
    Column("messages", show=count, is_number=True),
    Column("bytes", "size", size, is_number=True),
    Column("undelivered", show=count, is_number=True),
    Column("consumers", show=count, is_number=True),
    Column("producers", show=count, is_number=True),
)
EXPLAINED_QUEUES = 3
"""Of so many it is said why messages wait."""


def _nobody_wants(admin: Admin, queue: str) -> Iterator[str]:
    """Of each app that put messages aside, why."""
    with suppress(RouterError):  # it went meanwhile
        for row in _found(admin, queue, None, MESSAGES):
            if row["total"]:
                yield _lines(row | {"rows": []}, row["rows"])


@click.command()
@list_options(
    Column("at", show=moment),
    Column("queue"),
    Column("app"),
    Column("message"),
    Column("attempts", show=count, is_number=True),
)
@router_options
@click.pass_context
def poison(ctx: click.Context, listing: Listing, asked: Asked) -> None:
    """Print messages that were given up lately.

    Sessions were lost with them too often, so nobody is given them any more. The journal has older
    ones. Exits with 3 if there are some.
    """
    admin = asked.admin()

    def rows() -> Iterator[Mapping[str, Any]]:
        for fact in admin.get("/facts", kind="Poisoned", limit=100)["rows"]:
            yield {"at": fact["at"], **fact["fields"]}

    ctx.exit(3 if listing.show(rows) else 0)


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
    admin = asked.admin()
    with naming(admin, queue, app):
        found = list(_found(admin, queue, app, limit))
    emit(found, _lines, as_json)
    ctx.exit(3 if any(each["total"] for each in found) else 0)


def _found(admin: Admin, queue: str, app: str | None, limit: int) -> Iterator[dict[str, Any]]:
    path = path_of(queue)
    page = admin.get(path)
    if not page["opened"]:  # so there is nothing to look at
        click.echo(f"nobody has opened {queue} since the router started", err=True)
        return
    apps = [each["app"] for each in page["apps"]] if app is None else [app]
    for each in apps:
        yield {"queue": queue, "app": each, **admin.get(f"{path}/aside", app=each, limit=limit)}


def _lines(row: Mapping[str, Any], messages: Sequence[Mapping[str, Any]] | None = None) -> str:
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
        undecided = why_undecided(why["expression"], row["rows"] if messages is None else messages)
        text = f"{shown or 'none'}" + (f": {undecided}" if undecided else "")
        lines.append(f"  {why['expression'] or '(no expression)'}: {text}")
    return "\n".join(map(clean, lines))
