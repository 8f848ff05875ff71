"""``headgate pub`` and ``headgate sub`` for queues of domains."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from headgate.cli.address import QUEUES, host_and_port
from headgate.cli.output import emit
from headgate.client.bmq import Change, Client, Delivery, Lost, Subscription
from headgate.core.message import Properties, PropertyValue
from headgate.server.config import load_config
from headgate.server.config.sections import ListenBmq

SECONDS = 10.0
"""For an answer of the router."""

SCHEME = "bmq://"
"""What the name of a queue begins with, and the name of a channel does not."""

FORM = f"{SCHEME}DOMAIN/QUEUE"


async def post(
    config: Path | None, address: str | None, uri: str, body: bytes, properties: Properties
) -> str:
    """Post a message and return its id."""
    async with await _connect(config, address, patience=SECONDS) as client:
        queue = await client.open(uri, write=True)
        return (await queue.post(body, properties)).hex()


async def follow(
    config: Path | None,
    address: str | None,
    uri: str,
    subscriptions: Sequence[Subscription],
    count: int | None,
    as_json: bool,
) -> None:
    """Print messages and confirm each when it is printed."""
    async with await _connect(config, address) as client:
        queue = await client.open(uri, read=True, subscriptions=subscriptions)
        click.echo(f"subscribed to {uri}", err=True)
        printed = 0
        async for delivery in queue:
            emit([_row(uri, delivery)], _line, as_json)
            await delivery.confirm()
            printed += 1
            if printed == count:
                return


def wanted(expressions: Sequence[str], priority: int, count: int | None) -> list[Subscription]:
    """What is read: no more at a time than is to be printed, since others may be reading too."""
    window = Subscription().max_unconfirmed_messages
    if count is not None:
        window = min(window, count)
    texts: Sequence[str | None] = expressions or (None,)
    return [Subscription(text, priority, max_unconfirmed_messages=window) for text in texts]


async def _connect(config: Path | None, address: str | None, *, patience: float = 60.0) -> Client:
    settings = load_config(config, os.environ)
    listen = settings.listen.bmq or ListenBmq()
    host, port = host_and_port(address, QUEUES, (listen.host, listen.port))
    certificate = None if listen.tls is None else settings.directory / listen.tls.certificate
    scheme = "tcp" if certificate is None else "tcps"
    where = f"[{host}]" if ":" in host else host
    return await Client.connect(
        f"{scheme}://{where}:{port}",
        certificate=certificate,
        timeout=SECONDS,
        patience=patience,
        on_change=_told,
    )


def _told(change: Change) -> None:
    text = f"connection lost: {change.reason}" if isinstance(change, Lost) else "connected again"
    click.echo(text, err=True)


def _row(uri: str, delivery: Delivery) -> dict[str, object]:
    row: dict[str, object] = {
        "queue": uri,
        "guid": delivery.guid.hex(),
        "body": delivery.body.decode(errors="backslashreplace"),
        "properties": {name: _shown(item) for name, item in delivery.properties.items()},
    }
    if delivery.subscription.expression is not None:
        row["where"] = delivery.subscription.expression
    if delivery.is_redelivered:
        row["redelivered"] = True
    return row


def _line(row: Mapping[str, object]) -> str:
    properties = row["properties"]
    assert isinstance(properties, dict)
    told = " ".join(f"{name}={_text(item)}" for name, item in properties.items())
    return f"{row['queue']}: {row['body']}" + (f" [{told}]" if told else "")


def _text(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


def _shown(item: PropertyValue) -> object:
    return item.hex() if isinstance(item, bytes) else item
