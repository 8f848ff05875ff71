"""``headgate service``: the services that are subscribed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from headgate.cli.admin import Admin
from headgate.cli.lazy import LazyGroup
from headgate.cli.live.pages import paged
from headgate.cli.output import emit, json_option, print_page
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.units import count
from headgate.cli.which_router import Asked, router_options
from headgate.errors import RouterError

HERE = "headgate.cli.live.service"
POLL_SECONDS = 1.0


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the services that are subscribed."),
        "show": (HERE, "Print one service."),
        "sweep": (HERE, "Follow the sweep through the queues of a service."),
    },
)
def service() -> None:
    """Look at services, their tallies and their sweeps."""


COLUMNS = (
    Column("service"),
    Column("role"),
    Column("session", is_number=True),
    Column("queues_counted", "queues", count, is_number=True),
    Column("queues_said", "said", count, is_number=True),
    Column("drift"),
    Column("sweep"),
)


@click.command()
@list_options(*COLUMNS)
@router_options
def ls(listing: Listing, asked: Asked) -> None:
    """Print the services that are subscribed.

    Of each how many queues it has, by the router's tally and by what it said, and how far the sweep
    through them is.
    """
    admin = asked.admin()
    listing.show(lambda: _rows(paged(admin, "/services", listing)))


def _rows(found: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in found:
        yield row | {"sweep": _sweep(row)}


def _sweep(row: Mapping[str, Any]) -> str:
    if row["sweep_started"] is None:
        return ""
    if row["sweep_ended"] is not None:
        return f"done, {row['sweep_ended'] - row['sweep_started']:.1f} s"
    return f"{count(row['swept'])} of {count(row['sweep_total'])}"


@click.command()
@click.argument("name", metavar="SERVICE")
@router_options
@json_option
def show(name: str, asked: Asked, as_json: bool) -> None:
    """Print one service.

    SERVICE is the beginning of its id, as ls prints it.
    """
    for row in _named(asked.admin(), name):
        print_page(row, as_json=as_json)


def _named(admin: Admin, name: str) -> list[dict[str, Any]]:
    """The services whose id begins so."""
    rows = _rows(paged(admin, "/services", Listing(())))
    found = [row for row in rows if row["service"].startswith(name)]
    if not found:
        raise RouterError(f"no service {name} is subscribed; headgate service ls lists those")
    return found


@click.command()
@click.argument("name", metavar="SERVICE")
@router_options
@json_option
def sweep(name: str, asked: Asked, as_json: bool) -> None:
    """Follow the sweep through the queues of a service.

    A router sweeps when a service subscribes: it goes through all its queues, and delivers what
    waits there. Prints how far that is, until it is done. SERVICE is the beginning of the
    service's id, as ls prints it.
    """
    admin = asked.admin()
    emit(_swept(lambda: _named(admin, name)), _sweep_line, as_json)


def _swept(look: Callable[[], list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """How far the sweeps are, whenever one has gone further."""
    before: dict[str, Any] = {}
    while True:
        rows = look()
        for row in rows:
            if before.get(row["service"]) != (row["swept"], row["sweep_ended"]):
                before[row["service"]] = row["swept"], row["sweep_ended"]
                yield row
        if all(row["sweep_started"] is None or row["sweep_ended"] is not None for row in rows):
            return
        time.sleep(POLL_SECONDS)


def _sweep_line(row: Mapping[str, Any]) -> str:
    return f"{row['service']}  {row['sweep'] or 'no sweep since the router started'}"
