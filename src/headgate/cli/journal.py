"""``headgate journal``: what happened, from the segments on disk."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from headgate.cli.config import config_option
from headgate.cli.output import emit, json_option, readable
from headgate.errors import ConfigError
from headgate.server.config import load_config
from headgate.server.serve import journal_settings
from headgate.store import reading
from headgate.store.segments import last_number, segments

POLL_SECONDS = 0.5


@click.group()
def journal() -> None:
    """Look at the facts that the router wrote down."""


@journal.command()
@config_option
@json_option
@click.option("--from", "start", type=int, metavar="NUMBER", help="Begin with this number.")
@click.option("--count", type=int, help="Exit after this many facts.")
@click.option("--follow", is_flag=True, help="Go on with what comes.")
def tail(
    config: Path | None, as_json: bool, start: int | None, count: int | None, follow: bool
) -> None:
    """Print facts, oldest first: the last 20, or from a number on."""
    directory = _directory(config)
    after = start - 1 if start is not None else max(0, last_number(directory) - 20)
    emit(_facts(directory, after, count, follow), _line, as_json)


@journal.command()
@config_option
@json_option
def stats(config: Path | None, as_json: bool) -> None:
    """Count the facts by kind, and say how much the journal takes."""
    directory = _directory(config)
    kinds = Counter(fact["kind"] for fact in reading.facts(directory))
    found = segments(directory)
    emit(
        ({"kind": kind, "facts": count} for kind, count in kinds.most_common()),
        lambda row: f"{row['facts']:>12}  {row['kind']}",
        as_json,
    )
    size = sum(segment.bytes for segment in found)
    click.echo(
        f"{kinds.total()} facts in {len(found)} segments, {size} bytes, up to number"
        f" {found[-1].last if found else 0}",
        err=True,
    )


@journal.command()
@config_option
@json_option
@click.pass_context
def verify(ctx: click.Context, config: Path | None, as_json: bool) -> None:
    """Read every segment and see whether it is what its name says. Exits with 1 if one is not."""
    wrong = 0

    def rows() -> Iterator[Mapping[str, object]]:
        nonlocal wrong
        for finding in reading.verify(_directory(config)):
            wrong += finding.problem is not None
            yield {
                "segment": finding.segment.path.name,
                "facts": finding.facts,
                "ok": finding.problem is None,
                "problem": finding.problem,
            }

    emit(
        rows(),
        lambda row: (
            f"{'ok  ' if row['ok'] else 'FAIL'}  {row['segment']}  {row['facts']} facts"
            + ("" if row["ok"] else f"  {row['problem']}; move it away, the others go on")
        ),
        as_json,
    )
    ctx.exit(1 if wrong else 0)


def _directory(config: Path | None) -> Path:
    settings = journal_settings(load_config(config, os.environ))
    if settings is None:
        raise ConfigError("this configuration keeps no journal; see [journal] and [store]")
    return settings.directory


def _facts(
    directory: Path, after: int, count: int | None, follow: bool
) -> Iterator[dict[str, Any]]:
    told = 0
    while True:
        for fact in reading.facts(directory, after):
            if count is not None and told >= count:
                return
            after, told = fact["number"], told + 1
            yield {name: _plain(item) for name, item in fact.items()}
        if not follow or (count is not None and told >= count):
            return
        time.sleep(POLL_SECONDS)


def _plain(item: object) -> object:
    """Bytes as text if they are printable, else as hex; properties as they were sent."""
    if isinstance(item, bytes):
        return readable(item)
    if isinstance(item, list):
        return {name: next(v for v in kinds.values() if v is not None) for name, kinds in item}
    return item


def _line(fact: Mapping[str, object]) -> str:
    rest = " ".join(
        f"{name}={item}" for name, item in fact.items() if name not in ("number", "kind", "at")
    )
    return f"{fact['number']:>10}  {fact['at']:.3f}  {fact['kind']:<18} {rest}"
