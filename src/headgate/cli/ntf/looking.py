"""``headgate ntf tokens``, ``routers`` and ``audit``: what the server remembers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from headgate.cli.ntf.place import ntf_config_option
from headgate.cli.output import emit, json_option
from headgate.cli.units import counted
from headgate.ntf_server.config import load_ntf_config
from headgate.ntf_server.records import Tables, subscriptions
from headgate.ntf_server.records import audit as auditing
from headgate.ntf_server.records import routers as routing
from headgate.ntf_server.records import tokens as counting
from headgate.ntf_server.records.view import view
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus

FOUND_SOMETHING: Final = 3
"""An exit code."""


@contextmanager
def _viewed(config: Path | None) -> Iterator[Tables]:
    loaded = load_ntf_config(config, os.environ)
    with view(loaded.ntf.store, loaded.directory) as tables:
        yield tables


@click.command()
@ntf_config_option
@json_option
def tokens(config: Path | None, as_json: bool) -> None:
    """Count the tokens, by provider and status.

    A token is a device that an app registered. NEW to CONFIRMED are not verified yet, ACTIVE are
    pushed to, and INVALID were given up by their provider. Nothing tells whose they are.
    """
    with _viewed(config) as tables:
        known = counting.counts_by_provider(tables)
        held = subscriptions.counts(tables)
    rows = [
        {"provider": provider.name.lower(), "status": status.value, "tokens": count}
        for (provider, status), count in sorted(known.items(), key=_place)
    ]
    emit(rows, lambda row: f"{row['tokens']:>10}  {row['provider']}  {row['status']}", as_json)
    total, watched = sum(known.values()), sum(held.values())
    click.echo(f"{counted(total, 'token')}, {counted(watched, 'subscription')}", err=True)


def _place(item: tuple[tuple[Provider, TokenStatus], int]) -> tuple[str, int]:
    (provider, status), _ = item
    return provider.name, list(TokenStatus).index(status)


@click.command()
@ntf_config_option
@json_option
def routers(config: Path | None, as_json: bool) -> None:
    """Print every router that apps named.

    Of each its subscriptions by status, and our service there. Those in the service are subscribed
    to with one request; their status is that of the last answer. What the sessions are doing right
    now is on /status.json of the admin port.
    """
    with _viewed(config) as tables:
        counted = subscriptions.counts_by_router(tables)
        rows = [
            {
                "router": record.address.text,
                "subscriptions": {
                    status.value: counted.get((record.number, status), 0)
                    for status in SubscriptionStatus
                    if (record.number, status) in counted
                },
                "in_service": record.tally.count,
                "service": None
                if record.credentials is None
                else record.credentials.fingerprint.hex(),
            }
            for record in routing.everyone(tables)
        ]
    emit(rows, _router_line, as_json)


def _router_line(row: Mapping[str, object]) -> str:
    found = row["subscriptions"]
    assert isinstance(found, dict), "counts by status"
    shown = ", ".join(f"{count} {status}" for status, count in found.items()) or "none"
    service = "no service" if row["service"] is None else f"{row['in_service']} in the service"
    return f"{row['router']}: {shown} ({service})"


@click.command()
@ntf_config_option
@json_option
@click.pass_context
def audit(ctx: click.Context, config: Path | None, as_json: bool) -> None:
    """Recount the tallies of services, and look for what belongs to nothing.

    Prints a line for each fault and exits with 3 if there is one. This reads everything; it can be
    used while the server runs.
    """
    with _viewed(config) as tables:
        faults = auditing.audit(tables)
    emit(({"fault": fault} for fault in faults), lambda row: str(row["fault"]), as_json)
    if faults:
        ctx.exit(FOUND_SOMETHING)
    if not as_json:
        click.echo("ok")
