"""``headgate agent queue``: the queues that an agent reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click

from headgate.agent.model import UserId
from headgate.agent.queues import OwnQueue, find_named
from headgate.agent.records import Database, connections
from headgate.agent.records.connections import ConnectionKind
from headgate.cli.agent.deleting import print_deleted, wait_until_gone
from headgate.cli.agent.place import (
    RouterText,
    facts_of,
    file_option,
    find_queue,
    known_queue,
    look,
    making_at,
    open_agent,
    progress,
    shown_router,
)
from headgate.cli.output import emit, json_option
from headgate.wire.smp.codec.router_address import RouterAddress


@click.group()
def queue() -> None:
    """Make, list and delete the queues that this agent reads."""


@queue.command()
@file_option
@json_option
@click.option(
    "--router",
    "address",
    type=RouterText(),
    metavar="smp://...",
    help="Make it there.  [default: the router that init was given]",
)
@click.argument("name")
def new(path: Path, as_json: bool, address: RouterAddress | None, name: str) -> None:
    """Make a queue, and print the address that its sender needs.

    If there is a queue of this name, its address is printed again. The first who sends to an
    address is its only sender from then on, so hand it to one, and make a queue for each.

    \b
    Example:
      headgate agent queue new meters
    """
    found = find_queue(path, name)
    if found is None:
        found = asyncio.run(_make(path, name, address or facts_of(path).router))
    else:
        click.echo(f"{name} was there already", err=True)
    emit([_row(found)], lambda row: str(row["address"]), as_json)


async def _make(path: Path, name: str, router: RouterAddress) -> OwnQueue:
    async with making_at(router), open_agent(path, subscribe=False) as opened:
        return await opened.queue(name, router=router)


@queue.command()
@file_option
@json_option
@click.argument("name")
def delete(path: Path, as_json: bool, name: str) -> None:
    """Delete a queue, with the messages in it that were not read.

    Its name is free at once. If its router does not answer, the router is asked again while any
    later `headgate agent send` or `headgate agent listen` runs.
    """
    print_deleted(name, asyncio.run(_delete(path, known_queue(path, name))), as_json)


async def _delete(path: Path, queue: OwnQueue) -> str | None:
    assert queue.name is not None, "it was found by its name"
    router = queue.address.router
    waiting = progress(f"waiting for {shown_router(router)} ...")
    async with waiting, open_agent(path, subscribe=False) as agent:
        await (await agent.queue(queue.name)).delete()
        return await wait_until_gone(path, queue.connection, router)


@queue.command("list")
@file_option
@json_option
def list_(path: Path, as_json: bool) -> None:
    """Print every queue that this agent reads, with its address."""
    with look(path) as (tables, facts):
        rows = (_row(each) for each in named_queues(tables, facts.user))
        emit(rows, lambda row: f"{row['name']}: {row['address']}", as_json)


def named_queues(tables: Database, user: UserId) -> Iterator[OwnQueue]:
    """All queues that the file has, a page at a time."""
    after = b""
    while page := connections.page(tables, user, after):
        for record in page:
            if record.kind is ConnectionKind.RECEIVE and record.name and not record.deleted:
                found = find_named(tables, user, record.name)
                assert found is not None, "a name that was just read"
                yield found
        after = page[-1].id


def _row(shown: OwnQueue) -> dict[str, object]:
    return {"name": shown.name, "address": shown.address.text}
