"""``headgate agent connection``: the connections that an agent has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click

from headgate.agent.model import UserId
from headgate.agent.records import Database, connections
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord
from headgate.cli.agent.deleting import print_deleted, router_of, wait_until_gone
from headgate.cli.agent.place import file_option, find_connection, look, open_agent, progress
from headgate.cli.output import emit, json_option
from headgate.errors import ConfigError

PEERS = (ConnectionKind.NEW, ConnectionKind.DUPLEX)
"""With another agent; others are queues, and addresses."""


@click.group()
def connection() -> None:
    """List and delete connections, which invite and join make."""


@connection.command("list")
@file_option
@json_option
def list_(path: Path, as_json: bool) -> None:
    """Print every connection and how far it is: "ready" is one on which messages go both ways."""
    with look(path) as (tables, facts):
        rows = (
            {"name": record.name or record.id.hex(), "status": record.status.value}
            for record in peers(tables, facts.user)
        )
        emit(rows, lambda row: f"{row['name']}: {row['status']}", as_json)


def peers(tables: Database, user: UserId) -> Iterator[ConnectionRecord]:
    """All connections that the file has, a page at a time."""
    after = b""
    while page := connections.page(tables, user, after):
        for record in page:
            if record.kind in PEERS and not record.deleted:
                yield record
        after = page[-1].id


@connection.command()
@file_option
@json_option
@click.argument("name")
def delete(path: Path, as_json: bool, name: str) -> None:
    """Delete a connection, with the messages that were not read.

    Its name is free at once. What waits to be sent is sent before. If its router does not answer,
    the router is asked again while any later `headgate agent send` or `headgate agent listen` runs.
    """
    record = find_connection(path, name)
    if record is None or record.kind not in PEERS:
        raise ConfigError(
            f"there is no connection {name}; `headgate agent connection list` names those that"
            " there are"
        )
    print_deleted(name, asyncio.run(_delete(path, record)), as_json)


async def _delete(path: Path, record: ConnectionRecord) -> str | None:
    router = router_of(path, record.id)
    waiting = progress("waiting for the router ...")
    async with waiting, open_agent(path, subscribe=False) as agent:
        await (await agent.connection(record.id)).delete()
        return await wait_until_gone(path, record.id, router)
