"""``headgate session``: who is connected, who is slow, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from headgate.cli.admin import Admin
from headgate.cli.confirming import confirm_by_name, reason_option, yes_option
from headgate.cli.lazy import LazyGroup
from headgate.cli.live.actions import print_action
from headgate.cli.live.known import session_number
from headgate.cli.live.pages import paged
from headgate.cli.output import json_option, print_page
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.units import count, counted, duration, moment, since, size
from headgate.cli.which_router import Asked, router_options
from headgate.server.wires.names import NAMES

HERE = "headgate.cli.live.session"


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the sessions, those in trouble first."),
        "show": (HERE, "Print one session, with what it hears and holds."),
        "close": (HERE, "Close a session."),
        "trim": (HERE, "Drop the oldest of what waits for a session."),
    },
)
def session() -> None:
    """Look at sessions, and close one."""


COLUMNS = (
    Column("session", is_number=True),
    Column("name"),
    Column("wire"),
    Column("mailbox_bytes", "mailbox", size, is_number=True),
    Column("state"),
    Column("opened", "open", since, is_number=True),
    Column("user", is_wide=True),
    Column("peer", is_wide=True),
    Column("agent", is_wide=True),
    Column("subscriptions", "hears", count, is_number=True, is_wide=True),
    Column("queues", show=count, is_number=True, is_wide=True),
    Column("in_per_s", "in", lambda n: f"{size(n)}/s", is_number=True, is_wide=True),
    Column("out_per_s", "out", lambda n: f"{size(n)}/s", is_number=True, is_wide=True),
    Column("unconfirmed", show=count, is_number=True, is_wide=True),
    Column("worker", is_number=True, is_wide=True),
    Column("idle", show=duration, is_number=True, is_wide=True),
)
SLOW = tuple(
    column._replace(is_wide=False) if column.name == "peer" else column for column in COLUMNS
)
"""The columns of sessions in trouble; their peers are shown, so that their programs are found."""
CLOSED = (
    Column("session", is_number=True),
    Column("name"),
    Column("wire"),
    Column("at", "closed", moment),
    Column("reason"),
)


@click.command()
@click.option("--slow", is_flag=True, help="Only those in trouble; exits with 3 if there is one.")
@click.option("--wire", type=click.Choice(NAMES), help="Only those of a protocol.")
@click.option("--search", metavar="TEXT", help="Only those whose name or user has this in it.")
@click.option("--closed", is_flag=True, help="Those that ended last instead, and why.")
@list_options(*COLUMNS)
@router_options
@click.pass_context
def ls(
    ctx: click.Context,
    slow: bool,
    wire: str | None,
    search: str | None,
    closed: bool,
    listing: Listing,
    asked: Asked,
) -> None:
    """Print the sessions, those in trouble first.

    In trouble is who holds up others, then who does not keep up, then who waits.
    """
    admin = asked.admin()
    if closed:
        listing.of(CLOSED).show(lambda: admin.get("/sessions", limit=1)["closed"])
        return

    def rows() -> Iterable[Mapping[str, Any]]:
        found = paged(admin, "/sessions", listing, wire=wire, q=search, slow=slow or None)
        return (row | {"state": state(row)} for row in found)

    found = (listing.of(SLOW) if slow else listing).show(rows)
    ctx.exit(3 if slow and found else 0)


def state(row: Mapping[str, Any]) -> str:
    """The trouble of a session, in words."""
    for_how_long = f" ({since(row['slow_since'])})" if row["slow_since"] is not None else ""
    if row["held_up"]:
        return f"holds up {row['held_up']}{for_how_long}"
    if row["waits_for"] is not None:
        return f"waits for {row['waits_for']['session']} {row['waits_for']['name']}"
    if row["pressure"] != "easy":
        return f"does not keep up{for_how_long}"
    return "ok"


@click.command()
@click.argument("who", metavar="SESSION")
@router_options
@json_option
def show(who: str, asked: Asked, as_json: bool) -> None:
    """Print one session, with what it hears and holds.

    SESSION is its number, or its name if no other has it.
    """
    admin = asked.admin()
    found = admin.get(f"/sessions/{session_number(admin, who)}")
    if as_json:
        print_page(found, as_json=True)
        return
    row = found["row"]
    fields = {
        "session": row["session"],
        "name": row["name"],
        "wire": row["wire"],
        "state": state(row),
        "open": f"{since(row['opened'])}, since {moment(row['opened'])}",
        "mailbox": f"{size(row['mailbox_bytes'])} of {size(row['mailbox_hard'])}",
        "in, out": f"{size(row['in_per_s'])}/s, {size(row['out_per_s'])}/s",
        "unconfirmed": row["unconfirmed"],
        "idle": duration(row["idle"]),
        **{name: row[name] or None for name in ("worker", "user", "peer", "agent")},
        "waited for by": [f"{s['session']} {s['name']}" for s in found["waited_for_by"]] or None,
    }
    print_page(
        fields,
        {
            "channels": _some(found, "channels"),
            "patterns": _some(found, "patterns"),
            "queues": _some(found, "queues"),
            "subscriptions": [_subscription(each) for each in found["subscriptions"]],
            "facts": [f"{moment(f['at'])}  {f['kind']}" for f in found["facts"]],
        },
    )


def _some(found: Mapping[str, Any], name: str) -> list[str]:
    shown: list[str] = found[name]
    more = found[f"{name}_total"] - len(shown)
    return [*shown, f"and {more} more"] if more > 0 else shown


def _subscription(row: Mapping[str, Any]) -> str:
    app = f" {row['app']}" if row["app"] else ""
    full = ", full" if row["full"] else ""
    text = row["expression"] or "(no expression)"
    held = f"{row['unconfirmed']} of {row['window']} unconfirmed{full}"
    return f"{row['queue']}{app}: {text}, priority {row['priority']}, {held}"


@click.command()
@click.argument("who", metavar="SESSION")
@reason_option
@yes_option
@router_options
@json_option
def close(who: str, reason: str, yes: bool, asked: Asked, as_json: bool) -> None:
    """Close a session.

    What it has not confirmed is given to others. It may connect again.
    """
    admin = asked.operator()
    number = session_number(admin, who, acts=True)
    name, held = _planned(admin, number, "close")
    confirm_by_name(
        yes, f"Close session {number}, with {counted(held, 'message')} not confirmed?", name
    )
    wanted = {"confirm": str(number), "reason": reason}
    print_action(admin.act(f"/sessions/{number}/close", wanted), as_json)


@click.command()
@click.argument("who", metavar="SESSION")
@reason_option
@yes_option
@router_options
@json_option
def trim(who: str, reason: str, yes: bool, asked: Asked, as_json: bool) -> None:
    """Drop the oldest of what waits for a session.

    Only messages of channels can be dropped: the session loses them, and whoever waits for it goes
    on.
    """
    admin = asked.operator()
    number = session_number(admin, who, acts=True)
    name, waiting = _planned(admin, number, "trim")
    confirm_by_name(yes, f"Drop {size(waiting)} that wait for session {number}?", name)
    wanted = {"confirm": str(number), "reason": reason}
    print_action(admin.act(f"/sessions/{number}/trim", wanted), as_json)


def _planned(admin: Admin, number: int, action: str) -> tuple[str, int]:
    """The name of a session, and how much an action is about."""
    found = admin.act(f"/sessions/{number}/{action}", {"dry_run": True})
    return found["target"], found["count"] or 0
