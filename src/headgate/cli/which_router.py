"""The router that a command asks, and its token: one answer for all commands.

The nearest of these wins: ``--url``, ``--context``, their variables ``HEADGATE_URL`` and
``HEADGATE_CONTEXT``, the configuration (``--config``, or headgate.toml of the current directory),
the context in use, and at last the admin port of a router with the defaults.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from headgate.cli.admin import Admin
from headgate.cli.completing import complete_context
from headgate.cli.config_file import config_option, load
from headgate.cli.contexts import Context, Contexts
from headgate.client.admin import TOKEN_FILE, read_token
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.server.config import Config

F = TypeVar("F", bound=Callable[..., Any])

URL, CONTEXT, TOKEN, OLD_URL = (
    "HEADGATE_URL",
    "HEADGATE_CONTEXT",
    "HEADGATE_TOKEN",
    "HEADGATE_ROUTER",
)
"""Variables that say the same as the options; the last is an older name of the first."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that say which router is asked, as they were given."""

    url: str | None = None
    context: str | None = None
    token_file: Path | None = None
    config: Path | None = None

    def chosen(self, environ: Mapping[str, str] = os.environ) -> Chosen:
        """The context that counts, and why."""
        if self.url is not None:
            return Chosen(Context(url=self.url), "--url")
        contexts = Contexts.of(environ)
        if self.context is not None:
            return Chosen(contexts.get(self.context), f"--context {self.context}")
        for variable in (URL, OLD_URL):
            if text := environ.get(variable):
                return Chosen(Context(url=text), variable)
        if name := environ.get(CONTEXT):
            return Chosen(contexts.get(name), f"{CONTEXT}={name}")
        if self.config is not None:
            return Chosen(Context(), f"the configuration {self.config}")
        if name := contexts.current:
            return Chosen(contexts.get(name), f"the context in use, {name}")
        return Chosen(Context(), "the defaults")

    def admin(self) -> Admin:
        """The router's admin port, to look."""
        return Admin(*self.place())

    def operator(self) -> Admin:
        """The router's admin port, to have something done: with the operator's token, if the
        configuration has one."""
        return Admin(*self.place(acts=True))

    def place(self, *, acts: bool = False) -> tuple[str, str | None, Path | None]:
        """The URL of the admin port, the token, and the certificate to trust."""
        chosen = self.chosen().context
        ca = None if chosen.ca is None else Path(chosen.ca).expanduser()
        if chosen.url is not None and chosen.token is not None and self.token_file is None:
            return full_url(chosen.url), _context_token(chosen.token), ca
        settings = load(self.config)
        url = full_url(chosen.url) if chosen.url is not None else configured_url(settings)
        return url, self._token(settings, url, acts), ca

    def _token(self, settings: Config, url: str, acts: bool) -> str | None:
        from headgate.server.admin import tokens

        if self.token_file is None:
            if text := os.environ.get(TOKEN):
                return text
            if acts and settings.admin.operator_token is not None:
                return settings.admin.operator_token.reveal()
        return tokens.found(settings, url, self.token_file)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A context, and what said so."""

    context: Context
    reason: str


def router_options(command: F) -> F:
    """Add the options that say which router is asked, as the argument `asked`."""

    @wraps(command)
    def wrapped(
        *args: Any,  # noqa: ANN401
        url: str | None,
        address: str | None,
        context: str | None,
        token_file: Path | None,
        config: Path | None,
        **others: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        return command(*args, asked=Asked(url or address, context, token_file, config), **others)

    for option in (
        config_option,
        token_file_option,
        click.option("--address", hidden=True, metavar="HOST:PORT"),
        click.option(
            "--url",
            metavar="URL",
            help=f"The admin port of the router, as http://127.0.0.1:8222. [env: {URL}]",
        ),
        context_option,
    ):
        wrapped = option(wrapped)
    return cast("F", wrapped)


def token_file_option(command: F) -> F:
    """Add ``--token-file`` to a command that asks the admin port."""
    return click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        envvar=TOKEN_FILE,
        metavar="FILE",
        help=f"The file with the token of the admin port. Without it {TOKEN} is the token, or the"
        " context has it, or the configuration or its state directory.",
    )(command)


def context_option(command: F) -> F:
    """Add ``--context`` to a command."""
    return click.option(
        "--context",
        metavar="NAME",
        shell_complete=complete_context,
        help=f"The router, by the name that `headgate context add` gave it. [env: {CONTEXT}]",
    )(command)


def configured_url(settings: Config) -> str:
    """The admin port of a configuration."""
    admin = settings.admin
    if not admin.port:
        raise ConfigError(
            "admin.port is 0, so the router has picked one: say it with --url; the router's log"
            " and its ready file have it"
        )
    host = f"[{admin.host}]" if ":" in admin.host else admin.host
    return f"http://{host}:{admin.port}"


def full_url(text: str) -> str:
    """A URL, of which the scheme may be left out."""
    if text.startswith(("http://", "https://")):
        return text.rstrip("/")
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"{text!r} is no address; write it as http://127.0.0.1:8222")
    return f"http://{text}"


def _context_token(text: str) -> str:
    if not text.startswith("file:"):
        return text
    path = Path(text.removeprefix("file:")).expanduser()
    try:
        return read_token(path)
    except OSError as error:
        raise ConfigError(f"the token cannot be read from {path}: {error.strerror}") from None
