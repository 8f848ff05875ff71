"""``headgate pub`` and ``headgate sub`` for queues of domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from headgate.cli.address import QUEUES, Identity, Where, place_of, trusted
from headgate.cli.config_file import load
from headgate.cli.output import emit
from headgate.client.bmq import Change, Client, Delivery, Lost, Subscription
from headgate.core.model.message import Properties, PropertyValue
from headgate.server.config.sections import ListenBmq

SECONDS = 10.0
"""For an answer of the router."""


async def post(
    config: Path | None,
    where: Where,
    identity: Identity,
    uri: str,
    body: bytes,
    properties: Properties,
) -> str:
    """Post a message and return its id."""
    async with await connect(config, where, identity, patience=SECONDS) as client:
        queue = await client.open(uri, write=True)
        return (await queue.post(body, properties)).hex()


async def follow(
    config: Path | None,
    where: Where,
    identity: Identity,
    uri: str,
    subscriptions: Sequence[Subscription],
    count: int | None,
    as_json: bool,
) -> None:
    """Print messages and confirm each when it is printed."""
    async with await connect(config, where, identity) as client:
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


async def connect(
    config: Path | None, where: Where, identity: Identity, *, patience: float = 60.0
) -> Client:
    if where.user is not None or where.password_file is not None:
        raise click.UsageError("--user and --password-file are for channels")
    settings = load(config)
    listen = settings.listen.bmq or ListenBmq()
    token = identity.token
    if token is None and identity.client is not None:
        known = listen.clients.get(identity.client)
        token = None if known is None else known.reveal()
    place = place_of(where, QUEUES, listen.host, listen.port, config)
    certificate = trusted(where, config) if place.tls else where.ca
    if certificate is None and listen.tls is not None and place.tls is not False:
        certificate = settings.directory / listen.tls.certificate
    scheme = "tcps" if place.tls or certificate is not None else "tcp"
    host = f"[{place.host}]" if ":" in place.host else place.host
    return await Client.connect(
        f"{scheme}://{host}:{place.port}",
        certificate=certificate,
        timeout=SECONDS,
        patience=patience,
        name=identity.client,
        token=token,
        client_certificate=identity.certificate,
        client_key=identity.key,
        on_change=_print_change,
    )


def _print_change(change: Change) -> None:
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
    shown = " ".join(f"{name}={_text(item)}" for name, item in properties.items())
    return f"{row['queue']}: {row['body']}" + (f" [{shown}]" if shown else "")


def _text(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


def _shown(item: PropertyValue) -> object:
    return item.hex() if isinstance(item, bytes) else item
