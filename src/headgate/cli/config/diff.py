"""``headgate config diff``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from headgate.cli.config_file import config_option, load
from headgate.cli.table import Column, Listing, list_options


@click.command()
@click.argument(
    "other", required=False, metavar="[FILE]", type=click.Path(path_type=Path, dir_okay=False)
)
@list_options(Column("key"), Column("before"), Column("after"), Column("takes", "takes effect"))
@config_option
@click.pass_context
def diff(ctx: click.Context, other: Path | None, listing: Listing, config: Path | None) -> None:
    """Say what differs from another file, or the default.

    The configuration is held against FILE, as if FILE were to take its place; without FILE, against
    the defaults. Secrets are compared and not shown. Exits with 3 if something differs.

    \b
    Example:
      headgate config diff new.toml
    """
    rows = changes(config, other) if other is not None else changes(None, config)
    ctx.exit(3 if listing.show(lambda: rows) else 0)


def changes(before: Path | None, after: Path | None) -> list[dict[str, Any]]:
    """The keys whose values differ, and what a running router makes of it."""
    from headgate.server.reloading import secrets, waits_for_restart

    old, new = load(before), load(after)
    values = [{e.key: e.value for e in config.entries} for config in (old, new)]
    hidden = [dict(secrets(config)) for config in (old, new)]
    restart = set(waits_for_restart(old, new))
    keys = [*values[0], *(key for key in values[1] if key not in values[0])]
    return [
        {
            "key": key,
            "before": values[0].get(key),
            "after": values[1].get(key),
            "takes": "at a restart" if key in restart else "at a reload",
        }
        for key in keys
        if _differs(key, *values) or _differs(key, *hidden)
    ]


def _differs(key: str, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    return old.get(key) != new.get(key)
