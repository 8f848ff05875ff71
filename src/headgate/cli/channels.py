"""``headgate pub`` and ``headgate sub``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from headgate.cli.config import config_option
from headgate.cli.output import emit, json_option
from headgate.client.resp import Published, RespClient
from headgate.errors import ConfigError
from headgate.server.config import load_config
from headgate.server.config.sections import ListenResp

F = TypeVar("F", bound=Callable[..., Any])


def address_option(command: F) -> F:
    return click.option(
        "--address",
        metavar="HOST:PORT",
        envvar="HEADGATE_RESP",
        help="Where the router listens. Without it [listen.resp] of the configuration says so.",
    )(command)


@click.command()
@config_option
@address_option
@json_option
@click.argument("channel")
@click.argument("body", required=False)
def pub(
    config: Path | None, address: str | None, as_json: bool, channel: str, body: str | None
) -> None:
    """Publish BODY on CHANNEL, or what comes on standard input, and print how many received it."""
    content = sys.stdin.buffer.read() if body is None else body.encode()
    with _connect(config, address) as client:
        count = client.publish(channel.encode(), content)
    emit([{"channel": channel, "receivers": count}], lambda row: f"{row['receivers']}", as_json)


@click.command()
@config_option
@address_option
@json_option
@click.option("--pattern", "are_patterns", is_flag=True, help="The names are patterns.")
@click.option("--count", type=click.IntRange(1), help="Exit after this many messages.")
@click.argument("channels", nargs=-1, required=True)
def sub(
    config: Path | None,
    address: str | None,
    as_json: bool,
    are_patterns: bool,
    count: int | None,
    channels: tuple[str, ...],
) -> None:
    """Print what is published on CHANNELS, a line for each message, until Ctrl-C."""
    with _connect(config, address) as client:
        client.subscribe([name.encode() for name in channels], are_patterns=are_patterns)
        click.echo(f"subscribed to {' '.join(channels)}", err=True)
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


def _connect(config: Path | None, address: str | None) -> RespClient:
    settings = load_config(config, os.environ)
    listen = settings.listen.resp or ListenResp()
    host, port = listen.host, listen.port
    if address is not None:
        name, _, number = address.rpartition(":")
        if not name or not number.isdecimal():
            raise ConfigError(f"{address!r} is no address; write it as 127.0.0.1:6379")
        host, port = name.strip("[]"), int(number)
    password = None if listen.password is None else listen.password.reveal()
    certificate = None if listen.tls is None else settings.directory / listen.tls.certificate
    return RespClient(host, port, password, certificate=certificate)
