"""``headgate bench pub`` and ``sub``: channels, over the Redis wire."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import click

from headgate.cli.address import Where, address_option
from headgate.cli.bench.result import (
    count_option,
    finish,
    per_second,
    result_options,
    size_option,
    throughput,
)
from headgate.cli.config_file import config_option
from headgate.cli.pubsub import connect
from headgate.client.resp import RespClient
from headgate.errors import HeadgateError

BATCH = 100
"""Commands that are sent before their answers are read."""


@click.command()
@count_option(100_000)
@size_option
@config_option
@address_option
@result_options
def pub(
    count: int,
    body_bytes: int,
    config: Path | None,
    where: Where,
    report: Path | None,
    as_json: bool,
) -> None:
    """Publish as fast as the router takes it.

    Nobody listens: this is what the router reads and answers, a hundred commands at a time.
    """
    with connect(config, where) as client:
        seconds = publish(client, new_channel(), b"x" * body_bytes, count)
    row = {"bench": "pub", **throughput(count, body_bytes, seconds)}
    finish(row, per_second(row, "resp PUBLISH"), report, as_json)


@click.command()
@click.option("--subscribers", type=click.IntRange(1, 200), default=10, show_default=True)
@count_option(20_000)
@size_option
@config_option
@address_option
@result_options
def sub(
    subscribers: int,
    count: int,
    body_bytes: int,
    config: Path | None,
    where: Where,
    report: Path | None,
    as_json: bool,
) -> None:
    """Publish to subscribers, and count what comes.

    Each subscriber is a thread with a connection of its own.
    """
    channel = new_channel()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(config, where)) for _ in range(subscribers)]
        for client in clients:
            client.subscribe([channel])
        counts = [0] * subscribers
        threads = [
            Thread(target=_count, args=(client, count, counts, place), daemon=True)
            for place, client in enumerate(clients)
        ]
        publisher = stack.enter_context(connect(config, where))
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        publish(publisher, channel, b"x" * body_bytes, count)
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
    if sum(counts) != count * subscribers:
        raise HeadgateError(f"only {sum(counts)} of {count * subscribers} messages came")
    row: dict[str, object] = {
        "bench": "sub",
        "subscribers": subscribers,
        **throughput(count * subscribers, body_bytes, seconds),
    }
    finish(row, per_second(row, f"resp to {subscribers} subscribers"), report, as_json)


def new_channel() -> bytes:
    """A channel that nobody else uses."""
    return f"headgate.bench.{secrets.token_hex(8)}".encode()


def publish(client: RespClient, channel: bytes, body: bytes, count: int) -> float:
    """Publish so many times; how long it took."""
    started = time.perf_counter()
    left = count
    while left:
        batch = min(BATCH, left)
        client.send_all([("PUBLISH", channel, body)] * batch)
        for _ in range(batch):
            client.answer()
        left -= batch
    return time.perf_counter() - started


def _count(client: RespClient, wanted: int, counts: list[int], place: int) -> None:
    try:
        for _ in client.messages():
            counts[place] += 1
            if counts[place] == wanted:
                return
    except HeadgateError:
        return  # the count says so
