"""``headgate pub`` and ``headgate sub``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.address import (
    CHANNELS,
    Identity,
    Where,
    address_option,
    identity_options,
    place_of,
    trusted,
)
from headgate.cli.config_file import config_option, load
from headgate.cli.output import emit, json_option
from headgate.cli.properties import property_option
from headgate.cli.queue_name import FORM
from headgate.cli.queue_name import SCHEME as QUEUE

if TYPE_CHECKING:
    from headgate.client.resp import Published, RespClient
    from headgate.core.model.message import Declared

OPERATORS = frozenset(["==", "!=", "<", "<=", ">", ">=", "&&", "||", "=", "+", "-", "*", "/", "%"])
"""Words that are no names: an expression was not quoted."""
QUOTE = "the shell took the expression apart; quote it: --where 'kind == \"express\"'"
AGENT = "smp://"
"""The beginning of the address of an agent's queue."""


@click.command()
@config_option
@address_option
@identity_options
@json_option
@property_option
@click.argument("name", metavar="CHANNEL|QUEUE|ADDRESS")
@click.argument("body", required=False)
def pub(
    config: Path | None,
    where: Where,
    identity: Identity,
    as_json: bool,
    properties: Declared,
    name: str,
    body: str | None,
) -> None:
    """Publish BODY on a channel, or post it to a queue.

    Without BODY, what comes on standard input. A queue is named as bmq://DOMAIN/QUEUE; every other
    name is a channel. Prints how many received it, or for a queue the id of the message, as soon as
    the router has stored it.

    An address that begins with smp://, as "headgate agent queue new" prints it, gets one encrypted
    message. Nothing is kept here, not even the key that makes a sender the only one of its queue:
    the same address takes no second message. "headgate agent send" sends many.
    """
    if name.startswith(AGENT):
        _send_once(name, _content(body), as_json, properties)
        return
    is_queue = name.startswith(QUEUE)
    if properties and not is_queue:
        raise click.UsageError(f"--property is for queues, which are named {FORM}")
    content = _content(body)
    if is_queue:
        import asyncio

        from headgate.cli import domains

        guid = asyncio.run(domains.post(config, where, identity, name, content, properties))
        emit([{"queue": name, "guid": guid}], lambda row: f"{row['guid']}", as_json)
        return
    with connect(config, where) as client:
        count = client.publish(name.encode(), content)
    if not count:
        hint_queue(name, "published on")
    emit([{"channel": name, "receivers": count}], lambda row: f"{row['receivers']}", as_json)


def hint_queue(name: str, done: str) -> None:
    """A queue that is named without its scheme is taken for a channel: say so."""
    domain, slash, queue = name.partition("/")
    if domain and slash and queue:
        click.echo(f"{done} the channel {name}; the queue would be {QUEUE}{name}", err=True)


def _content(body: str | None) -> bytes:
    return sys.stdin.buffer.read() if body is None else body.encode(errors="surrogateescape")


def _send_once(address: str, content: bytes, as_json: bool, properties: Declared) -> None:
    import asyncio

    from headgate.cli.agent import sending  # not for those who publish on channels

    if properties:
        raise click.UsageError(f"--property is for queues, which are named {FORM}")
    target = sending.parse_address(address)
    asyncio.run(sending.send_once(target, content))
    emit([{"address": target.text, "sent": True}], lambda _: "sent", as_json)


@click.command()
@config_option
@address_option
@identity_options
@json_option
@click.option("--pattern", "are_patterns", is_flag=True, help="The names are patterns.")
@click.option(
    "--where",
    "expressions",
    multiple=True,
    metavar="EXPR",
    help="Of a queue, only messages for which this is true, or another --where.",
)
@click.option(
    "--priority",
    type=int,
    help="Of a queue, before readers of a lower priority; 0 without it.",
)
@click.option("--count", type=click.IntRange(1), help="Exit after this many messages.")
@click.argument("names", metavar="CHANNEL...|QUEUE", nargs=-1, required=True)
def sub(
    config: Path | None,
    where: Where,
    identity: Identity,
    as_json: bool,
    are_patterns: bool,
    expressions: tuple[str, ...],
    priority: int | None,
    count: int | None,
    names: tuple[str, ...],
) -> None:
    """Print what is published on channels, or is in a queue.

    There is a line for each message, until Ctrl-C. A queue is named as bmq://DOMAIN/QUEUE, or
    bmq://DOMAIN/QUEUE?id=APP if it has apps. Its messages are confirmed when they are printed, and
    so are gone.
    """
    if not any(name.startswith(QUEUE) for name in names):
        if expressions and OPERATORS.intersection(names):
            raise click.UsageError(QUOTE)
        if expressions or priority is not None:
            option = "--where" if expressions else "--priority"
            raise click.UsageError(f"{option} is for queues, which are named {FORM}")
        _listen(config, where, names, are_patterns, count, as_json)
        return
    if are_patterns:
        raise click.UsageError("--pattern is for channels")
    if len(names) > 1:
        if expressions and OPERATORS.intersection(names):
            raise click.UsageError(QUOTE)
        raise click.UsageError("a queue is read alone, without other queues or channels")
    import asyncio

    from headgate.cli import domains

    wanted = domains.wanted(expressions, priority or 0, count)
    reading = domains.follow(config, where, identity, names[0], wanted, count, as_json)
    asyncio.run(reading)


def _listen(
    config: Path | None,
    where: Where,
    channels: tuple[str, ...],
    are_patterns: bool,
    count: int | None,
    as_json: bool,
) -> None:
    with connect(config, where) as client:
        client.subscribe([name.encode() for name in channels], are_patterns=are_patterns)
        click.echo(f"subscribed to {' '.join(channels)}", err=True)
        for name in () if are_patterns else channels:
            hint_queue(name, "that is")
        emit(islice(_rows(client), count), _line, as_json)


def _rows(client: RespClient) -> Iterator[Mapping[str, object]]:
    for message in client.messages():
        yield _row(message)


def _row(message: Published) -> dict[str, object]:
    row: dict[str, object] = {"channel": _text(message.channel), "body": _text(message.body)}
    if message.pattern is not None:
        row["pattern"] = _text(message.pattern)
    return row


def _line(row: Mapping[str, object]) -> str:
    return f"{row['channel']}: {row['body']}"


def _text(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def connect(config: Path | None, where: Where) -> RespClient:
    from headgate.client.resp import RespClient
    from headgate.server.config.sections import ListenResp

    settings = load(config)
    listen = settings.listen.resp or ListenResp()
    place = place_of(where, CHANNELS, listen.host, listen.port, config)
    configured = None if listen.password is None else listen.password.reveal()
    certificate = trusted(where, config) if place.tls else where.ca
    if certificate is None and listen.tls is not None and place.tls is not False:
        certificate = settings.directory / listen.tls.certificate
    return RespClient(
        place.host,
        place.port,
        place.password or configured,
        user=place.user,
        tls=bool(place.tls),
        certificate=certificate,
    )
