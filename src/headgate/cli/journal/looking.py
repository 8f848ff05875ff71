"""``headgate journal tail``, ``stats`` and ``verify``."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from headgate.cli.config_file import config_option
from headgate.cli.output import emit, json_option, readable
from headgate.cli.units import counted, size
from headgate.errors import ConfigError, HeadgateError
from headgate.journal import reader
from headgate.journal.segments import last_number, segments
from headgate.server.config import load_config
from headgate.server.state_directory import journal_settings

POLL_SECONDS = 0.5
LAST = 20
"""Facts that are printed unless somebody says how many."""


F = TypeVar("F", bound=Callable[..., Any])


def folder_option(command: F) -> F:
    """Add ``--journal`` to a command, as the argument `folder`."""
    return click.option(
        "--journal",
        "folder",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        metavar="DIR",
        help="The folder of a journal that is not this router's, such as ntf/journal.",
    )(command)


@click.command()
@config_option
@folder_option
@json_option
@click.option("--from", "start", type=int, metavar="NUMBER", help="Begin with this number.")
@click.option(
    "--count",
    type=click.IntRange(0),
    help="How many: of the last facts, or at most, from a number on.  [default: the last 20]",
)
@click.option("--follow", is_flag=True, help="Go on with what comes.")
def tail(
    config: Path | None,
    folder: Path | None,
    as_json: bool,
    start: int | None,
    count: int | None,
    follow: bool,
) -> None:
    """Print facts, oldest first: the last 20, or from a number on."""
    directory = _directory(config, folder)
    _expect(directory, follow)
    if start is not None:
        emit(_facts(directory, start - 1, count, follow), _line, as_json)
        return
    after = _before_last(directory, LAST if count is None else count)
    emit(_facts(directory, after, None, follow), _line, as_json)


@click.command()
@config_option
@folder_option
@json_option
def stats(config: Path | None, folder: Path | None, as_json: bool) -> None:
    """Count the facts by kind, and say how much the journal takes."""
    directory = _directory(config, folder)
    _expect(directory)
    kinds = Counter(fact["kind"] for fact in reader.facts(directory))
    found = segments(directory)
    emit(
        ({"kind": kind, "facts": count} for kind, count in kinds.most_common()),
        lambda row: f"{row['facts']:>12}  {row['kind']}",
        as_json,
    )
    taken = sum(segment.bytes for segment in found)
    facts, files = counted(kinds.total(), "fact"), counted(len(found), "segment")
    click.echo(f"{facts} in {files}, {size(taken)}, up to number {found[-1].last}", err=True)


@click.command()
@config_option
@folder_option
@json_option
@click.pass_context
def verify(ctx: click.Context, config: Path | None, folder: Path | None, as_json: bool) -> None:
    """Read every segment and see whether it is what its name says. Exits with 3 if one is not."""
    wrong = 0
    directory = _directory(config, folder)
    _expect(directory)

    def rows() -> Iterator[Mapping[str, object]]:
        nonlocal wrong
        for finding in reader.verify(directory):
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
            f"{'ok  ' if row['ok'] else 'FAIL'}  {row['segment']}  {_facts_text(row['facts'])}"
            + ("" if row["ok"] else f"  {row['problem']}; move it away, the others go on")
        ),
        as_json,
    )
    ctx.exit(3 if wrong else 0)


def _directory(config: Path | None, folder: Path | None) -> Path:
    if folder is not None:
        return folder
    settings = journal_settings(load_config(config, os.environ))
    if settings is None:
        raise ConfigError("this configuration keeps no journal; see [journal] and [store]")
    return settings.directory


def _expect(directory: Path, follow: bool = False) -> None:
    """Say that there is no journal, instead of printing nothing; who follows waits for it."""
    if segments(directory):
        return
    if follow:
        click.echo(f"there is nothing in {directory} yet; waiting for it", err=True)
        return
    why = "has no segment yet" if directory.is_dir() else "is not there"
    raise HeadgateError(
        f"there is no journal: {directory} {why}. A router writes it a second after something"
        " happened; --config or --journal names another, and tail --follow waits for it"
    )


def _facts_text(facts: object) -> str:
    assert isinstance(facts, int), "what verify counts"
    return counted(facts, "fact")


def _before_last(directory: Path, count: int) -> int:
    """The number before the last so many facts. Numbers have gaps, so it takes looking."""
    last, span = last_number(directory), count
    while 0 < span < last:
        found = deque((fact["number"] for fact in reader.facts(directory, last - span)), count)
        if len(found) == count:
            return int(found[0]) - 1
        span *= 2
    found = deque((fact["number"] for fact in reader.facts(directory)), count)
    return int(found[0]) - 1 if found else last


def _facts(
    directory: Path, after: int, count: int | None, follow: bool
) -> Iterator[dict[str, Any]]:
    shown = 0
    while True:
        for fact in reader.facts(directory, after):
            if count is not None and shown >= count:
                return
            after, shown = fact["number"], shown + 1
            yield {name: _plain(item) for name, item in fact.items()}
        if not follow or (count is not None and shown >= count):
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
        f"{name}={item}"
        for name, item in fact.items()
        if name not in ("number", "kind", "at") and item != ""
    )
    at = fact["at"]
    assert isinstance(at, float)
    shown = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return f"{fact['number']:>10}  {shown}  {fact['kind']:<18} {rest}"
