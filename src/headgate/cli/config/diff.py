"""``headgate config diff``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.admin import Admin
from headgate.cli.config_file import load
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.which_router import Asked, router_options

if TYPE_CHECKING:
    from headgate.server.config import Config
    from headgate.server.config.tree import Entry


@click.command()
@click.argument(
    "other", required=False, metavar="[FILE]", type=click.Path(path_type=Path, dir_okay=False)
)
@click.option(
    "--running",
    is_flag=True,
    help="Hold the configuration against the router that runs: what would a reload change?",
)
@list_options(Column("key"), Column("before"), Column("after"), Column("takes", "takes effect"))
@router_options
@click.pass_context
def diff(
    ctx: click.Context, other: Path | None, running: bool, listing: Listing, asked: Asked
) -> None:
    """Say what differs from another file, or the default.

    The configuration is held against FILE, as if FILE were to take its place; without FILE, against
    the defaults. Secrets are compared and not shown. Exits with 3 if something differs.

    \b
    Example:
      headgate config diff new.toml
      headgate config diff --running
    """
    if running:
        if other is not None:
            raise click.UsageError("--running holds the configuration against the router, not FILE")
        found = listing.show(lambda: waiting(asked.admin(), asked.config))
    elif other is not None:
        found = listing.show(lambda: changes(asked.config, other))
    else:
        found = listing.show(lambda: changes(None, asked.config))
    ctx.exit(3 if found else 0)


def waiting(admin: Admin, path: Path | None) -> list[dict[str, Any]]:
    """The keys of a file whose values are not those that a router has."""
    has = {row["key"]: row for row in admin.get("/settings")["rows"]}
    wanted = {entry.key: entry.value for entry in load(path).entries}
    return [
        {
            "key": key,
            "before": has[key]["value"] if key in has else None,
            "after": wanted.get(key),
            "takes": "at a reload" if _is_reloadable(key, has) else "at a restart",
        }
        for key in [*wanted, *(key for key in has if key not in wanted)]
        if wanted.get(key) != (has[key]["value"] if key in has else None)
    ]


def _is_reloadable(key: str, has: Mapping[str, Mapping[str, Any]]) -> bool:
    return bool(has[key]["reloadable"]) if key in has else key.startswith("domains.")


def changes(before: Path | None, after: Path | None) -> list[dict[str, Any]]:
    """The keys whose values differ, and what a running router makes of it."""
    from headgate.server.reloading import secrets, waits_for_restart

    old, new = load(before), load(after)
    values = [{e.key: e.value for e in config.entries} for config in (old, new)]
    hidden = [dict(secrets(config)) for config in (old, new)]
    restart = set(waits_for_restart(old, new))
    added = _spelled_out(new, values[0]) | _spelled_out(old, values[1])
    keys = [*values[0], *(key for key in values[1] if key not in values[0])]
    return [
        {
            "key": key,
            "before": values[0].get(key),
            "after": values[1].get(key),
            "takes": "at a restart" if key in restart else "at a reload",
        }
        for key in keys
        if (_differs(key, *values) or _differs(key, *hidden))
        and (key in added or all(key in each for each in values))
    ]


def _spelled_out(config: Config, other: Mapping[str, object]) -> set[str]:
    """Keys that the other has not, but for those with their defaults: of a section that has no
    others, its first."""
    sections: dict[str, list[Entry]] = {}
    for entry in config.entries:
        if entry.key not in other:
            sections.setdefault(entry.key.rpartition(".")[0], []).append(entry)
    return {
        entry.key
        for entries in sections.values()
        for entry in [e for e in entries if e.origin != "default"] or entries[:1]
    }


def _differs(key: str, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    return old.get(key) != new.get(key)
