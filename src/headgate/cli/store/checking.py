"""``headgate store check`` and ``vacuum``: whether a store is sound, and how much room it takes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from headgate.cli.config_file import config_option
from headgate.cli.output import emit, json_option
from headgate.cli.store.place import existing
from headgate.cli.units import size
from headgate.errors import StoreError
from headgate.server.config import load_config
from headgate.store.backends import masked
from headgate.store.inspection import inspect
from headgate.store.sql_store import SqlStore

NAME_WIDTH = 9


@click.command()
@click.argument("url", required=False)
@config_option
@json_option
@click.pass_context
def check(ctx: click.Context, url: str | None, config: Path | None, as_json: bool) -> None:
    """Look whether what a store holds is sound.

    URL is that of a store as in the configuration, or else the configuration's own. The database
    looks at its files, everything is read once, and what is counted is compared with what there is:
    messages with their queues, and the tallies of services with their queues. A large store takes
    minutes. No router may use it meanwhile; one of an older schema is brought up to date first, as
    at a start. Exits with 3 if something is wrong.
    """
    ctx.exit(asyncio.run(_check(url, config, as_json)))


async def _check(url: str | None, config: Path | None, as_json: bool) -> int:
    code = 0
    async with _opened(url, config) as (store, _):
        extent = await store.extent()
        with click.progressbar(
            length=extent.queues + extent.messages,
            label="reading",
            file=sys.stderr,
            hidden=not sys.stderr.isatty(),
        ) as bar:
            found = [
                each
                async for each in inspect(
                    store, lambda more: bar.update(more.queues + more.messages)
                )
            ]
    for each in found:
        code = code if each.ok else 3
        emit([asdict(each)], _line, as_json)
    return code


def _line(row: Mapping[str, Any]) -> str:
    return f"{'ok  ' if row['ok'] else 'FAIL'}  {row['name']:<{NAME_WIDTH}}  {row['text']}"


@click.command()
@click.argument("url", required=False)
@config_option
@json_option
def vacuum(url: str | None, config: Path | None, as_json: bool) -> None:
    """Give back the room of what was deleted.

    URL is that of a store as in the configuration, or else the configuration's own. A file of
    SQLite is written anew, which needs as much room again for as long as it takes; tables of
    PostgreSQL are vacuumed and analysed where they are. No router may use the store meanwhile.
    """
    row = asyncio.run(_vacuum(url, config))
    before, now = size(row["bytes_before"]), size(row["bytes"])
    emit([row], lambda row: f"{row['store']}: {before} before, {now} now", as_json)


async def _vacuum(url: str | None, config: Path | None) -> dict[str, Any]:
    async with _opened(url, config) as (store, name):
        before = await store.disk_bytes()
        await store.vacuum()
        return {"store": name, "bytes_before": before, "bytes": await store.disk_bytes()}


@asynccontextmanager
async def _opened(url: str | None, config: Path | None) -> AsyncIterator[tuple[SqlStore, str]]:
    """The store that is meant, and its name; nobody else has it meanwhile."""
    settings = load_config(config, os.environ)
    url = url or settings.store.url
    store = existing(url, settings.directory)
    if not isinstance(store, SqlStore):
        raise StoreError("a store in memory is gone with its router; there is nothing to look at")
    try:
        await store.open()
        yield store, masked(url)
    finally:
        await store.close()
