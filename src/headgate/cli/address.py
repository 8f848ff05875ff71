"""``--address``: where the router listens for those who publish, post and read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headgate.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

CHANNELS, QUEUES = "HEADGATE_RESP", "HEADGATE_BMQ"
"""Variables that say the same as the option: for channels, and for queues."""


def address_option(command: F) -> F:
    """Add ``--address`` to a command that is for channels and for queues."""
    return click.option(
        "--address",
        metavar="HOST:PORT",
        help=f"Where the router listens. Without it {CHANNELS} says so for channels and {QUEUES}"
        " for queues, or else [listen.resp] and [listen.bmq] of the configuration.",
    )(command)


def host_and_port(address: str | None, variable: str, default: tuple[str, int]) -> tuple[str, int]:
    """Of the option, the variable or the configuration."""
    text = address or os.environ.get(variable)
    if text is None:
        return default
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"{text!r} is no address; write it as 127.0.0.1:{default[1]}")
    return host.strip("[]"), int(port)
