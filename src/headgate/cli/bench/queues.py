"""``headgate bench queue`` and ``route``: shared queues, over BlazingMQ's wire."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import click

from headgate.cli.address import Identity, Where, address_option, identity_options
from headgate.cli.bench.result import (
    count_option,
    finish,
    per_second,
    result_options,
    size_option,
    throughput,
)
from headgate.cli.config_file import config_option
from headgate.cli.domains import connect
from headgate.client.bmq import Queue, Subscription
from headgate.core.model.message import Properties
from headgate.errors import HeadgateError

IN_FLIGHT = 200
"""Posts whose answers are not there yet."""

domain_option = click.option(
    "--domain",
    required=True,
    help="In which a queue is made, of mode priority; it stays, and is empty.",
)


@click.command()
@domain_option
@count_option(10_000)
@size_option
@config_option
@address_option
@identity_options
@result_options
def queue(
    domain: str,
    count: int,
    body_bytes: int,
    config: Path | None,
    where: Where,
    identity: Identity,
    report: Path | None,
    as_json: bool,
) -> None:
    """Post to a queue, read and confirm.

    A post counts when the router has stored it, and a message when it was confirmed.
    """
    seconds = asyncio.run(
        _run(config, where, identity, domain, [Subscription()], [{}], count, body_bytes)
    )
    row = {"bench": "queue", **throughput(count, body_bytes, seconds)}
    finish(row, per_second(row, "bmq post, store, deliver, confirm"), report, as_json)


@click.command()
@domain_option
@click.option("--expressions", type=click.IntRange(1, 100), default=20, show_default=True)
@count_option(10_000)
@size_option
@config_option
@address_option
@identity_options
@result_options
def route(
    domain: str,
    expressions: int,
    count: int,
    body_bytes: int,
    config: Path | None,
    where: Where,
    identity: Identity,
    report: Path | None,
    as_json: bool,
) -> None:
    """Post to a queue with many expressions.

    Each message has properties that exactly one of the expressions is true for.
    """
    wanted = [Subscription(f'kind == "k{n}" && amount >= {n}') for n in range(expressions)]
    properties: list[Properties] = [{"kind": f"k{n}", "amount": n + 1} for n in range(expressions)]
    seconds = asyncio.run(
        _run(config, where, identity, domain, wanted, properties, count, body_bytes)
    )
    row: dict[str, object] = {
        "bench": "route",
        "expressions": expressions,
        **throughput(count, body_bytes, seconds),
    }
    finish(row, per_second(row, f"bmq by {expressions} expressions"), report, as_json)


def new_queue(domain: str) -> str:
    """A queue that nobody else uses."""
    return f"bmq://{domain}/headgate-bench-{secrets.token_hex(8)}"


async def _run(
    config: Path | None,
    where: Where,
    identity: Identity,
    domain: str,
    wanted: Sequence[Subscription],
    properties: Sequence[Properties],
    count: int,
    body_bytes: int,
) -> float:
    uri, body = new_queue(domain), b"x" * body_bytes
    async with (
        await connect(config, where, identity, patience=10) as reader,
        await connect(config, where, identity, patience=10) as writer,
    ):
        source = await reader.open(uri, read=True, subscriptions=wanted)
        target = await writer.open(uri, write=True)
        started = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_read(source, count))
                room = asyncio.Semaphore(IN_FLIGHT)
                for number in range(count):
                    await room.acquire()
                    given = properties[number % len(properties)]
                    group.create_task(_post(target, body, given, room))
        except* HeadgateError as errors:
            raise errors.exceptions[0] from None
        return time.perf_counter() - started


async def _post(target: Queue, body: bytes, given: Properties, room: asyncio.Semaphore) -> None:
    try:
        await target.post(body, given)
    finally:
        room.release()


async def _read(source: Queue, count: int) -> None:
    left = count
    async for delivery in source:
        await delivery.confirm()
        left -= 1
        if not left:
            return
