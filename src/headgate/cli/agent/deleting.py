"""Waiting until what was deleted is gone at its router, too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import click

from headgate.agent.model import ConnectionId
from headgate.agent.records import connections, receive_queues, routers
from headgate.cli.agent.place import ANSWER_SECONDS, look
from headgate.cli.agent.reaching import reach_later
from headgate.cli.output import emit
from headgate.errors import HeadgateError
from headgate.wire.smp.codec.router_address import RouterAddress

LOOK_SECONDS: Final = 0.05
"""How often the file is looked into."""


def router_of(path: Path, connection: ConnectionId) -> RouterAddress | None:
    """Where a queue or a connection receives; none if it does not yet."""
    with look(path) as (tables, _):
        queues = receive_queues.of_connections(tables, [connection])[connection]
        router = routers.get(tables, queues[0].router) if queues else None
        return None if router is None else router.address


async def wait_until_gone(
    path: Path, connection: ConnectionId, router: RouterAddress | None
) -> str | None:
    """Wait while an agent deletes: none when the router has done so, else why not yet."""
    failing = asyncio.create_task(_failure(router))
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while _is_kept(path, connection):
                failure = failing.result() if failing.done() else None
                if failure is not None:
                    return str(failure)
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return f"its router did not delete it within {ANSWER_SECONDS:g} seconds"
    finally:
        failing.cancel()
    return None


async def _failure(router: RouterAddress | None) -> HeadgateError | None:
    return None if router is None else await reach_later(router)


def _is_kept(path: Path, connection: ConnectionId) -> bool:
    with look(path) as (tables, _):
        return connections.get(tables, connection) is not None


def print_deleted(name: str, why: str | None, as_json: bool) -> None:
    """The output of a command that deleted something, with the reason if its router did not yet."""
    if why is not None:
        click.echo(f"headgate: {why}", err=True)
    emit([{"name": name, "deleted": True}], lambda row: "deleted", as_json)
