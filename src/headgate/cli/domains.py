"""``headgate pub`` and ``headgate sub`` for queues of domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from headgate.cli.address import QUEUES, Identity, Where, place_of, trusted
from headgate.cli.config_file import load
from headgate.cli.live.known import Known, app_problem, domain_problem, domains_wherever
from headgate.cli.live.reasons import MESSAGES, why_never_decided
from headgate.cli.output import emit
from headgate.cli.which_router import Asked
from headgate.client.bmq import Change, Client, Delivery, Lost, Subscription
from headgate.core.model.message import Properties, PropertyValue
from headgate.core.model.queue_uri import parse_uri
from headgate.errors import ExpressionError, HeadgateError, Refused
from headgate.expr.explain import caret, explain
from headgate.server.config.sections import ListenBmq

APPS_SHOWN = 5
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
        with _named(config, where, uri):
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
    warn_of_expressions(subscriptions)
    async with await connect(config, where, identity) as client:
        with _named(config, where, uri):
            queue = await client.open(uri, read=True, subscriptions=subscriptions)
        _warn_of_app(config, where, uri)
        _warn_of_missing(config, where, uri, subscriptions)
        click.echo(f"subscribed to {uri}", err=True)
        printed = 0
        async for delivery in queue:
            emit([_row(uri, delivery)], _line, as_json)
            await delivery.confirm()
            printed += 1
            if printed == count:
                return


def wanted(expressions: Sequence[str], priority: int, count: int | None) -> list[Subscription]:
    """The messages read: no more at a time than are to be printed, since others may be reading
    too."""
    window = Subscription().max_unconfirmed_messages
    if count is not None:
        window = min(window, count)
    texts: Sequence[str | None] = expressions or (None,)
    return [Subscription(text, priority, max_unconfirmed_messages=window) for text in texts]


def warn_of_expressions(subscriptions: Sequence[Subscription]) -> None:
    """Refuse an expression that is wrong, with a picture of where; say what looks wrong in one."""
    for text in (each.expression for each in subscriptions if each.expression is not None):
        try:
            explained = explain(text)
        except ExpressionError as error:
            raise click.UsageError(f"the expression is wrong\n{caret(error)}") from None
        for warning in explained.warnings:
            click.echo(f"warning: {warning}", err=True)


def _warn_of_app(config: Path | None, where: Where, uri: str) -> None:
    """An app that the domain does not have gets nothing, and nobody is told, as it may be added to
    the domain later."""
    parts = parse_uri(uri)
    if not parts.app:
        return
    known = _known(config, where)
    if parts.domain in known and (problem := app_problem(parts.domain, parts.app, known)):
        click.echo(f"warning: {problem}. Nothing will come", err=True)


def _warn_of_missing(
    config: Path | None, where: Where, uri: str, subscriptions: Sequence[Subscription]
) -> None:
    """An expression that has no value for any message that came lately gets nothing either: most
    often it names a property that is not there."""
    texts = [each.expression for each in subscriptions if each.expression is not None]
    if not texts or where.address is not None:
        return
    try:
        admin = Asked(context=where.context, config=config).admin()
        found = admin.get("/recent", queue=parse_uri(uri).canonical, limit=MESSAGES)["rows"]
    except HeadgateError:
        return  # nobody can be asked
    for text in texts:
        if why := why_never_decided(text, found):
            lately = "message that came" if len(found) == 1 else f"{len(found)} messages that came"
            click.echo(f"warning: {text} has no value for the last {lately}: {why}", err=True)


@contextmanager
def _named(config: Path | None, where: Where, uri: str) -> Iterator[None]:
    """If the router refuses a queue, say which domains and apps there are."""
    try:
        yield
    except Refused as error:
        parts, known = parse_uri(uri), _known(config, where)
        problem = domain_problem(parts.domain, known) if known else None
        if problem is None and (apps := known.get(parts.domain)) and not parts.app:
            problem = f"{error}: {', '.join(f'{uri}?id={app}' for app in apps[:APPS_SHOWN])}"
        if problem is None:
            raise
        raise Refused(problem) from None


def _known(config: Path | None, where: Where) -> Known:
    """The domains and apps of the router, as far as it is known where to ask."""
    if where.address is not None:
        return {}  # it may be another router
    return domains_wherever(Asked(context=where.context, config=config), load(config))


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
