"""``headgate queues``: which shared queues there are, and to empty or remove one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import click

from headgate.cli.config import config_option, token_file_option
from headgate.cli.explain import QueueName, admin_url
from headgate.cli.output import emit, json_option
from headgate.client.admin import AdminPort
from headgate.core.model.queue_uri import parse_uri
from headgate.errors import NoRouter, NotAllowed, RouterError
from headgate.server.admin import tokens
from headgate.server.config import load_config

F = TypeVar("F", bound=Callable[..., Any])

ANSWER_SECONDS = 600.0
"""A large queue is emptied a part at a time."""
NO_ROUTER, NOT_ALLOWED = 4, 5
"""Exit codes."""


@click.group()
def queues() -> None:
    """List, empty and remove shared queues of a running router.

    Exit codes: 0 done, 1 failed, 2 misused, 4 no router answers, 5 not allowed.
    """


def asking(command: F) -> F:
    """Add the options of a command that asks the admin port."""
    address = click.option(
        "--address",
        metavar="HOST:PORT",
        envvar="HEADGATE_ROUTER",
        help="The admin port of the router. Without it [admin] of the configuration says so.",
    )
    return address(token_file_option(config_option(json_option(command))))


def yes_option(command: F) -> F:
    return click.option("--yes", is_flag=True, help="Do not ask whether that is meant.")(command)


queue_argument = click.argument("queue", metavar="DOMAIN/QUEUE", type=QueueName())


@queues.command("list")
@click.argument("domain")
@asking
def list_(
    domain: str, address: str | None, token_file: Path | None, config: Path | None, as_json: bool
) -> None:
    """Print the queues of a domain, open or not, and what each holds."""
    port = _port(config, address, token_file)
    emit(_listed(port, domain), _line, as_json)


@queues.command()
@queue_argument
@asking
def show(
    queue: str, address: str | None, token_file: Path | None, config: Path | None, as_json: bool
) -> None:
    """Print what a queue holds, and how many have it open."""
    port = _port(config, address, token_file)
    found = [row for row in _listed(port, parse_uri(queue).domain) if row["queue"] == queue]
    if not found:
        raise RouterError(f"there is no queue {queue}")
    emit(found, _line, as_json)


@queues.command()
@queue_argument
@yes_option
@asking
def purge(
    queue: str,
    yes: bool,
    address: str | None,
    token_file: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Remove all messages that a queue holds now, for all apps, delivered or not."""
    port = _port(config, address, token_file)
    _confirm(yes, f"Remove all messages of {queue}?")
    _purge(port, {"queue": queue}, as_json)


@queues.command()
@queue_argument
@click.option("--force", is_flag=True, help="Even if it is open: its sessions are closed.")
@yes_option
@asking
def delete(
    queue: str,
    force: bool,
    yes: bool,
    address: str | None,
    token_file: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Remove a queue with all its messages."""
    port = _port(config, address, token_file)
    _confirm(yes, f"Remove {queue} and all its messages?")
    _purge(port, {"queue": queue, "removes": True, "forced": force}, as_json)


def _port(config: Path | None, address: str | None, token_file: Path | None) -> AdminPort:
    settings = load_config(config, os.environ)
    url = admin_url(settings, address)
    token = tokens.found(settings, url, token_file)
    return AdminPort(url, token, answer_seconds=ANSWER_SECONDS)


def _ask(port: AdminPort, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
    try:
        return port.ask(method, path, body, patience=0)
    except (NoRouter, NotAllowed) as error:
        click.echo(f"headgate: {error}", err=True)
        code = NO_ROUTER if isinstance(error, NoRouter) else NOT_ALLOWED
        click.get_current_context().exit(code)
    except RouterError as error:
        raise RouterError(error.why or str(error), error.status) from None


def _listed(port: AdminPort, domain: str) -> Iterator[dict[str, Any]]:
    after = ""
    while True:
        path = f"/queues/{quote(domain, safe='')}?{urlencode({'after': after})}"
        rows = _ask(port, "GET", path)["queues"]
        yield from rows
        if not rows:
            return
        after = rows[-1]["queue"]


def _confirm(yes: bool, text: str) -> None:
    if not yes and not click.confirm(text, err=True):
        raise click.UsageError("nothing was done")


def _purge(port: AdminPort, wanted: Mapping[str, object], as_json: bool) -> None:
    done = _ask(port, "DELETE", "/queues", json.dumps(wanted).encode())
    emit([done], _done, as_json)


def _line(row: Mapping[str, object]) -> str:
    return (
        f"{row['queue']}: {row['messages']} messages, {row['bytes']} bytes,"
        f" {row['consumers']} consumers, {row['producers']} producers"
    )


def _done(row: Mapping[str, object]) -> str:
    what = "removed" if row["removed"] else "purged"
    return f"{row['queue']}: {what}, {row['messages']} messages"
