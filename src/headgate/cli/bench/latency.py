"""``headgate bench rtt``: how long one message takes, one at a time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from headgate.cli.address import Identity, Where, address_option, identity_options
from headgate.cli.bench.channels import new_channel
from headgate.cli.bench.queues import new_queue
from headgate.cli.bench.result import (
    count_option,
    finish,
    percentiles,
    result_options,
    size_option,
)
from headgate.cli.config_file import config_option
from headgate.cli.domains import connect as connect_queues
from headgate.cli.pubsub import connect


@click.command()
@click.option("--domain", help="Also measure queues, in one that is made in this domain.")
@count_option(1_000)
@size_option
@config_option
@address_option
@identity_options
@result_options
def rtt(
    domain: str | None,
    count: int,
    body_bytes: int,
    config: Path | None,
    where: Where,
    identity: Identity,
    report: Path | None,
    as_json: bool,
) -> None:
    """Measure how long one message takes.

    On a channel, from PUBLISH to the message at a subscriber; with --domain, in a queue, from the
    post to the answer that it is stored.
    """
    row: dict[str, object] = {"bench": "rtt", "count": count, "size": body_bytes}
    if domain is not None and where.address is not None:
        raise click.UsageError("--url is of one listener: leave it out, or leave out --domain")
    row |= percentiles("resp", _channel(config, where, count, body_bytes))
    texts = [f"resp PUBLISH→message  p50 {row['resp_p50_ms']} ms  p99 {row['resp_p99_ms']} ms"]
    if domain is not None:
        found = asyncio.run(_queue(config, where, identity, domain, count, body_bytes))
        row |= percentiles("bmq", found)
        texts.append(f"bmq post→ack  p50 {row['bmq_p50_ms']} ms  p99 {row['bmq_p99_ms']} ms")
    finish(row, "     ".join(texts), report, as_json)


def _channel(config: Path | None, where: Where, count: int, body_bytes: int) -> list[float]:
    channel, body, found = new_channel(), b"x" * body_bytes, []
    with connect(config, where) as publisher, connect(config, where) as subscriber:
        subscriber.subscribe([channel])
        messages = subscriber.messages()
        for _ in range(count):
            started = time.perf_counter()
            publisher.send("PUBLISH", channel, body)
            next(messages)
            found.append(time.perf_counter() - started)
            publisher.answer()
    return found


async def _queue(
    config: Path | None, where: Where, identity: Identity, domain: str, count: int, body_bytes: int
) -> list[float]:
    body, found = b"x" * body_bytes, []
    uri = new_queue(domain)
    async with await connect_queues(config, where, identity, patience=10) as client:
        queue = await client.open(uri, read=True, write=True)
        for _ in range(count):
            started = time.perf_counter()
            await queue.post(body)
            found.append(time.perf_counter() - started)
            async for delivery in queue:
                await delivery.confirm()
                break
    return found
