"""``headgate queue``: which shared queues there are, and to empty or remove one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from headgate.cli.admin import Admin, part
from headgate.cli.confirming import confirm_by_name, reason_option, yes_option
from headgate.cli.lazy import LazyGroup
from headgate.cli.live.actions import print_action
from headgate.cli.live.known import LATER, naming
from headgate.cli.live.pages import PAGE, paged
from headgate.cli.live.reasons import sampled, why_undecided
from headgate.cli.output import json_option, print_page
from headgate.cli.queue_name import QueueName, path_of, queue_argument
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.terminal import clean
from headgate.cli.units import count, counted, limited, moment, since, size
from headgate.cli.which_router import Asked, router_options
from headgate.errors import RouterError

HERE = "headgate.cli.live.queue"


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print shared queues, open or not."),
        "show": (HERE, "Print a queue: its apps, what waits, and for whom."),
        "peek": (HERE, "Print messages that came to a queue lately."),
        "purge": (HERE, "Remove all messages that a queue holds now."),
        "delete": (HERE, "Remove a queue with all its messages."),
        "look-again": (HERE, "Look again at messages that an app put aside."),
    },
    hidden={"list": "ls"},
)
def queue() -> None:
    """List, look into, empty and remove shared queues."""


def _properties(given: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())


PEEKED = 20
COLUMNS = (
    Column("queue"),
    Column("messages", show=count, is_number=True),
    Column("bytes", "size", size, is_number=True),
    Column("consumers", show=count, is_number=True),
    Column("producers", show=count, is_number=True),
    Column("domain", is_wide=True),
)


@click.command()
@click.argument("domain", required=False)
@list_options(*COLUMNS)
@router_options
def ls(domain: str | None, listing: Listing, asked: Asked) -> None:
    """Print shared queues, open or not.

    Of each, what it holds and how many have it open. With DOMAIN, only the queues of one.
    """
    admin = asked.admin()
    if domain is None:
        listing.show(lambda: _all(admin))
        return
    with naming(admin, domain):
        listing.show(lambda: listed(admin, domain))


def _all(admin: Admin) -> Iterator[dict[str, Any]]:
    for row in paged(admin, "/domains", Listing(())):
        if row["mode"] != "exclusive":
            yield from listed(admin, row["domain"])


@click.command()
@click.argument("queue", metavar="DOMAIN/QUEUE|ID")
@router_options
@json_option
def show(queue: str, asked: Asked, as_json: bool) -> None:
    """Print a queue: its apps, what waits, and for whom.

    ID is that of an exclusive queue, for its recipient.
    """
    admin = asked.admin()
    if "/" not in queue:
        found = admin.get(f"/queues/{part(queue)}")
        print_page(found if as_json else exclusive_fields(found), as_json=as_json)
        return
    name = QueueName().convert(queue, None, None)
    with naming(admin, queue):
        found = admin.get(path_of(name))
        if not found["opened"]:
            found |= _stored(admin, name)
    if as_json:
        print_page(found, as_json=True)
        return
    print_page(shared_fields(found))
    for app in found["apps"]:
        click.echo(f"\n{clean(_app(app))}")
        if app["groups"]:
            messages = sampled(admin, found["queue"], app) if _is_undecided(app) else ()
            for line in Listing(GROUPS).lines([_group(each, messages) for each in app["groups"]]):
                click.echo(f"  {line}")


def _stored(admin: Admin, name: str) -> dict[str, Any]:
    """What the store has of a queue that nobody opened; an error if there is no such queue."""
    try:
        found = admin.get(f"/queues/{part(name)}")
    except RouterError as error:
        if error.status not in LATER:
            raise
        return {"messages": None, "bytes": None}
    return {"messages": found["backlog_messages"], "bytes": found["backlog_bytes"]}


def exclusive_fields(found: Mapping[str, Any]) -> dict[str, object]:
    """A queue of one recipient, for people."""
    oldest, whose, taken = found["oldest_at"], found["subscriber"], found["backlog_bytes"]
    holds = counted(found["backlog_messages"], "message")
    return {
        **{name: found[name] or None for name in ("queue", "kind", "domain", "service")},
        "subscriber": "nobody" if whose is None else f"{whose['session']} {whose['name']}",
        "holds": holds if taken is None else f"{holds}, {size(taken)}",
        "oldest": None if oldest is None else f"{since(oldest)}, since {moment(oldest)}",
        "unconfirmed": count(found["unconfirmed"]),
        "notifier": found["notifier"],
        "in memory": found["in_memory"],
    }


def shared_fields(found: Mapping[str, Any]) -> dict[str, object]:
    """A shared queue, for people."""
    return {
        **{name: found[name] for name in ("queue", "mode", "capacity")},
        "holds": "unknown: the store has no time" if found["messages"] is None else _holds(found),
        "producers": count(found["producers"]),
        "state": None if found["opened"] else "nobody has opened it since the router started",
    }


def _holds(found: Mapping[str, Any]) -> str:
    messages = limited(counted(found["messages"], "message"), found["max_messages"], count)
    return f"{messages}, {limited(size(found['bytes']), found['max_bytes'], size)}"


def _app(app: Mapping[str, Any]) -> str:
    numbers = {
        "in line": app["in_line"],
        "waiting for room": app["waiting"],
        "aside": app["aside"],
        "unconfirmed": app["unconfirmed"],
        "to redeliver": app["to_redeliver"],
    }
    shown = ", ".join(f"{count(number)} {name}" for name, number in numbers.items() if number)
    oldest = "" if app["oldest_at"] is None else f", the oldest for {since(app['oldest_at'])}"
    stuck = "; stuck" if app["stuck"] else ""
    name = f"app {app['app']}, " if app["app"] else ""
    consumers = counted(app["consumers"], "consumer")
    return f"{name}{consumers}: {shown or 'nothing waits'}{oldest}{stuck}"


GROUPS = (
    Column("priority", is_number=True),
    Column("expression"),
    Column("matched", show=count, is_number=True),
    Column("missed", "not", count, is_number=True),
    Column("in_flight", "in flight"),
    Column("undecided"),
)


def _is_undecided(app: Mapping[str, Any]) -> bool:
    return any(_failed(group) for group in app["groups"])


def _failed(group: Mapping[str, Any]) -> int:
    """For how many of the messages that it was tried on an expression had no value."""
    return sum(group["undecided"][kind] for kind in ("name", "type", "arithmetic"))


def _in_flight(group: Mapping[str, Any]) -> str:
    held, window = count(group["in_flight"]), group["window"]
    return held if window is None else f"{held} of {count(window)}"


def _group(group: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    undecided = None
    if failed := _failed(group):
        why = why_undecided(group["expression"], messages)
        undecided = f"{count(failed)} of {count(group['undecided']['sampled'])} tried"
        undecided += f": {why}" if why else ""
    return {
        **group,
        "expression": group["expression"] or "(no expression)",
        "in_flight": _in_flight(group),
        "undecided": undecided,
    }


@click.command()
@queue_argument
@list_options(
    Column("at", show=moment),
    Column("message"),
    Column("size", show=size, is_number=True),
    Column("properties", show=_properties),
)
@router_options
def peek(queue: str, listing: Listing, asked: Asked) -> None:
    """Print messages that came to a queue lately.

    The newest come first. Nothing is taken out, and bodies are not shown: "headgate sub" reads.
    """
    admin, most = asked.admin(), min(listing.limit or PEEKED, 100)
    with naming(admin, queue):
        admin.get(path_of(queue))  # of a queue that cannot be, nothing came lately either
        listing.show(lambda: admin.get("/recent", queue=queue, limit=most)["rows"])


@click.command()
@queue_argument
@reason_option
@yes_option
@router_options
@json_option
def purge(queue: str, reason: str, yes: bool, asked: Asked, as_json: bool) -> None:
    """Remove all messages that a queue holds now.

    They go for all apps, delivered or not.
    """
    admin = asked.operator()
    messages = _planned(admin, "purge", queue)
    confirm_by_name(yes, f"Remove {_counted(messages)} of {queue}?", queue)
    wanted = {"queue": queue, "confirm": queue, "reason": reason, "count": messages}
    print_action(admin.act("/queues/purge", wanted), as_json)


def _planned(admin: Admin, action: str, queue: str) -> int | None:
    """How many messages an action is about, if the router knows."""
    found = admin.act(f"/queues/{action}", {"queue": queue, "dry_run": True})
    with naming(admin, queue):
        admin.get(path_of(queue))  # before anybody is asked whether that is meant
    messages: int | None = found["count"]
    return messages


def _counted(messages: int | None) -> str:
    return "all messages" if messages is None else counted(messages, "message")


@click.command()
@queue_argument
@click.option("--force", is_flag=True, help="Even if it is open: its sessions are closed.")
@reason_option
@yes_option
@router_options
@json_option
def delete(queue: str, force: bool, reason: str, yes: bool, asked: Asked, as_json: bool) -> None:
    """Remove a queue with all its messages."""
    admin = asked.operator()
    messages = _planned(admin, "delete", queue)
    confirm_by_name(yes, f"Remove {queue}, with {_counted(messages)}?", queue)
    wanted = {
        "queue": queue,
        "confirm": queue,
        "reason": reason,
        "count": messages,
        "forced": force,
    }
    print_action(admin.act("/queues/delete", wanted), as_json)


@click.command("look-again")
@queue_argument
@click.option("--app", default="", help="The app, if the domain has apps.")
@reason_option
@router_options
@json_option
def look_again(queue: str, app: str, reason: str, asked: Asked, as_json: bool) -> None:
    """Look again at messages that an app put aside.

    The router does so by itself whenever a subscription changes; this is harmless.
    """
    wanted = {"queue": queue, "app": app, "confirm": queue, "reason": reason}
    admin = asked.operator()
    with naming(admin, queue, app):
        done = admin.act("/apps/look-again", wanted)
    print_action(done, as_json)


def listed(admin: Admin, domain: str) -> Iterator[dict[str, Any]]:
    """All queues of a domain, a page at a time."""
    after: str | None = ""
    while after is not None:
        found = admin.get(f"/domains/{part(domain)}/queues", after=after, limit=PAGE)
        yield from found["rows"]
        after = found["next"]
