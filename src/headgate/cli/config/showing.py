"""``headgate config default``, ``show`` and ``validate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.config_file import config_option, load
from headgate.cli.output import emit, json_option
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.server.config.sections import ServerConfig


@click.command()
def default() -> None:
    """Print a configuration file with every key.

    Beside each is its default, and above it what it means.
    """
    from headgate.server.config import default_text

    click.echo(default_text(), nl=False)


@click.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Print the effective values, and where each came from.

    Secrets are not shown. Warnings go to standard error.
    """
    print_effective(load(config), as_json)


@click.command()
@config_option
@json_option
@click.pass_context
def validate(ctx: click.Context, config: Path | None, as_json: bool) -> None:
    """Say whether a configuration can be used.

    Only the file and the environment are read: "headgate check" also looks at ports, certificates
    and the store. Exits with 3 if the configuration is wrong.
    """
    row: dict[str, object] = {"config": None if config is None else str(config)}
    try:
        loaded = load(config)
        row |= {"ok": True, "error": None, "warnings": list(loaded.warnings)}
    except ConfigError as error:
        row |= {"ok": False, "error": str(error), "warnings": []}
    emit([row], _verdict, as_json)
    ctx.exit(0 if row["ok"] else 3)


def _verdict(row: Mapping[str, object]) -> str:
    if not row["ok"]:
        return f"FAIL  {row['error']}"
    warnings = row["warnings"]
    assert isinstance(warnings, list), "warnings are a list"
    return "\n".join(
        [
            f"ok    {row['config'] or 'defaults and environment'}",
            *(f"warning: {w}" for w in warnings),
        ]
    )


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
