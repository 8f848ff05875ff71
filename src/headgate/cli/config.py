"""``headgate config``: what can be configured, and what is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from headgate.cli.output import emit, json_option
from headgate.client.admin import TOKEN_FILE
from headgate.server.config import FILE_NAME, default_text, load_config
from headgate.server.config.sections import ServerConfig

F = TypeVar("F", bound=Callable[..., Any])


def _default_file() -> Path | None:
    path = Path(FILE_NAME)
    return path if path.exists() else None


def config_option(command: F) -> F:
    """Add ``--config`` to a command."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="HEADGATE_CONFIG",
        default=_default_file,
        show_default=f"{FILE_NAME} in the current directory, if there is one",
        metavar="FILE",
        help="The configuration.",
    )(command)


def token_file_option(command: F) -> F:
    """Add ``--token-file`` to a command that asks the admin port."""
    return click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        envvar=TOKEN_FILE,
        metavar="FILE",
        help="The file with the token of the router's admin port. Without it the token is"
        " admin.token of the configuration, or in the file admin.token of its state directory.",
    )(command)


@click.group()
def config() -> None:
    """Look at the configuration."""


@config.command()
def default() -> None:
    """Print a configuration file with every key, its default and what it means."""
    click.echo(default_text(), nl=False)


@config.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Print the effective values, and where each came from.

    Secrets are not shown. Warnings go to standard error.
    """
    print_effective(load_config(config, os.environ), as_json)


def print_effective(loaded: ServerConfig, as_json: bool) -> None:
    """The values of a configuration, and where each came from."""
    rows = [asdict(entry) for entry in loaded.entries]
    width = min(40, max(len(_assignment(row)) for row in rows))
    emit(rows, lambda row: f"{_assignment(row):<{width}}  # {row['origin']}", as_json)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)


def _assignment(row: Mapping[str, object]) -> str:
    if row["value"] is None:
        return f"# {row['key']} is not set"
    return f"{row['key']} = {row['value']}"
