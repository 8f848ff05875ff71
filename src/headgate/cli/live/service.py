"""``headgate service``: the services that are subscribed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from headgate.cli.lazy import LazyGroup
from headgate.cli.live.pages import paged
from headgate.cli.output import json_option, print_page
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.units import count
from headgate.cli.which_router import Asked, router_options
from headgate.errors import RouterError

HERE = "headgate.cli.live.service"


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the services that are subscribed."),
        "show": (HERE, "Print one service."),
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
    admin = asked.admin()
    found = [
        r for r in _rows(paged(admin, "/services", Listing(()))) if r["service"].startswith(name)
    ]
    if not found:
        raise RouterError(f"no service {name} is subscribed; headgate service ls lists those")
    for row in found:
        print_page(row, as_json=as_json)
