"""``headgate store copy``: what the router keeps, in another store."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from headgate.cli.config_file import config_option
from headgate.cli.output import emit, json_option
from headgate.cli.store.place import existing
from headgate.cli.units import counted
from headgate.server.config import load_config
from headgate.store.backends import masked, open_store
from headgate.store.base import Extent, Store
from headgate.store.copy import copy as copy_all


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@config_option
@json_option
def copy(source: str, target: str, config: Path | None, as_json: bool) -> None:
    """Copy a store to an empty one.

    Queues, messages, services, sinks and unsealed facts are copied. FROM and TO are URLs as in the
    configuration: "sqlite:FILE", relative to the state directory,
    or "postgresql://USER@HOST/DATABASE". No router may use either of them meanwhile; afterwards
    name the new one in [store] url. The journal stays where it is and goes on.
    """
    directory = load_config(config, os.environ).directory
    stores = existing(source, directory), open_store(target, directory)
    copied = asyncio.run(_copy(*stores))
    row = {
        "from": masked(source),
        "to": masked(target),
        "queues": copied.queues,
        "messages": copied.messages,
    }
    emit(
        [row],
        lambda shown: (
            f"{counted(copied.queues, 'queue')} and {counted(copied.messages, 'message')} copied"
        ),
        as_json,
    )


async def _copy(source: Store, target: Store) -> Extent:
    try:
        await source.open()
        await target.open()
        extent = await source.extent()
        with click.progressbar(
            length=extent.queues + extent.messages, label="copying", file=sys.stderr
        ) as bar:
            return await copy_all(
                source, target, lambda more: bar.update(more.queues + more.messages)
            )
    finally:
        await source.close()
        await target.close()
