"""The listeners at which commands publish, post and read, and the identity that they show."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import click

from headgate.cli.contexts import Contexts
from headgate.cli.which_router import CONTEXT, context_option
from headgate.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

TOKEN = "HEADGATE_BMQ_TOKEN"

CHANNELS, QUEUES = "HEADGATE_RESP", "HEADGATE_BMQ"
"""Variables that say the same as the option: for channels, and for queues."""

PASSWORD = "HEADGATE_PASSWORD"

SECURE = {"redis": False, "rediss": True, "tcp": False, "tcps": True}
"""Whether there is TLS behind a URL."""


@dataclass(frozen=True, slots=True)
class Where:
    """The options that say where to connect, as they were given."""

    address: str | None = None
    tls: bool = False
    ca: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A place to connect to. A missing part is None."""

    host: str
    port: int
    tls: bool | None = None
    user: str | None = None
    password: str | None = None


def address_option(command: F) -> F:
    """Add ``--url`` and who asks to a command that is for channels and for queues, as the argument
    `where`."""

    @context_option
    @click.option(
        "--url",
        metavar="HOST:PORT|URL",
        help="Where the router listens: of channels redis://USER:PASSWORD@HOST:PORT, or rediss://"
        " with TLS; of queues tcp:// and tcps://. Without it the context has it, or"
        f" {CHANNELS} for channels and {QUEUES} for queues, or [listen.resp] and [listen.bmq] of"
        " the configuration.",
    )
    @click.option("--address", hidden=True, metavar="HOST:PORT|URL")
    @click.option("--tls", is_flag=True, help="With TLS, to whom this machine trusts.")
    @click.option(
        "--ca",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="With TLS, to whoever has this certificate or is signed by it, whatever the name.",
    )
    @click.option("--user", help="Who asks, of channels.")
    @click.option(
        "--password-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help=f"Has the password, of channels; without it {PASSWORD}, or else the configuration.",
    )
    @wraps(command)
    def wrapped(
        *args: Any,  # noqa: ANN401
        context: str | None,
        url: str | None,
        address: str | None,
        tls: bool,
        ca: Path | None,
        user: str | None,
        password_file: Path | None,
        **others: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        where = Where(url or address, tls, ca, user, password_file, context)
        return command(*args, where=where, **others)

    return cast("F", wrapped)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a command, for a router that wants to know."""

    client: str | None = None
    token: str | None = field(default=None, repr=False)
    certificate: Path | None = None
    key: Path | None = None


def identity_options(command: F) -> F:
    """Add what says who a client of queues is, as one argument."""

    @click.option(
        "--client",
        envvar="HEADGATE_BMQ_CLIENT",
        metavar="NAME",
        help="Of a queue, the client to be, as [listen.bmq.clients] names it. Its token is in"
        f" {TOKEN}, or else in the configuration.",
    )
    @click.option(
        "--certificate",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Of a queue, the client's own certificate, for a router that asks for one.",
    )
    @click.option(
        "--key",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The key of that certificate, if it is not in the same file.",
    )
    @wraps(command)
    def wrapped(
        *args: Any,  # noqa: ANN401
        client: str | None,
        certificate: Path | None,
        key: Path | None,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        identity = Identity(client, os.environ.get(TOKEN), certificate, key)
        return command(*args, identity=identity, **options)

    return cast("F", wrapped)


def place_of(where: Where, variable: str, host: str, port: int, config: Path | None) -> Place:
    """Of the option, a context, the variable or the configuration: what is said nearest."""
    text = (
        where.address
        or _in_context(where.context, variable)
        or os.environ.get(variable)
        or _in_context(os.environ.get(CONTEXT), variable)
        or (_in_context(Contexts.of(os.environ).current, variable) if config is None else None)
    )
    place = Place(host, port) if text is None else _parsed(text, port)
    return Place(
        place.host,
        place.port,
        True if where.tls or where.ca is not None else place.tls,
        where.user or place.user,
        _in_file(where.password_file) or place.password or os.environ.get(PASSWORD),
    )


def trusted(where: Where, config: Path | None) -> Path | None:
    """The certificate to trust: that of the option, or of the context that counts."""
    if where.ca is not None or where.address is not None:
        return where.ca
    contexts = Contexts.of(os.environ)
    name = (
        where.context or os.environ.get(CONTEXT) or (contexts.current if config is None else None)
    )
    ca = None if name is None else contexts.get(name).ca
    return None if ca is None else Path(ca)


def _in_context(name: str | None, variable: str) -> str | None:
    """Where a context has the listener that a variable is about."""
    if name is None:
        return None
    found = Contexts.of(os.environ).get(name)
    key = "resp" if variable == CHANNELS else "bmq"
    text = found.resp if variable == CHANNELS else found.bmq
    if text is None:
        raise ConfigError(
            f"the context {name} does not say where that is: headgate context add {name} --yes"
            f" --url {found.url} --{key} HOST:PORT"
        )
    return text


def _parsed(text: str, port: int) -> Place:
    if "://" not in text:
        host, _, digits = text.rpartition(":")
        if not host or not digits.isdecimal():
            raise ConfigError(f"{text!r} is no address; write it as 127.0.0.1:{port}")
        return Place(host.strip("[]"), int(digits))
    scheme = text.partition("://")[0]
    if scheme not in SECURE:
        raise ConfigError(f"{scheme}:// is no address of a router; known are {', '.join(SECURE)}")
    try:
        url = urlsplit(text)
        at = url.port
    except ValueError:  # not echoed: there may be a password in it
        raise ConfigError(f"the address is no URL; write {scheme}://127.0.0.1:{port}") from None
    return Place(
        url.hostname or "127.0.0.1",
        at or port,
        SECURE[scheme],
        unquote(url.username) if url.username else None,
        unquote(url.password) if url.password else None,
    )


def _in_file(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text"
        raise ConfigError(f"{path} cannot be read: {why}") from None
