"""The output of commands: for people by default, one JSON object per line with ``--json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import click

from headgate.cli.terminal import clean

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add ``--json`` to a command, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")(
        command
    )


def emit(
    rows: Iterable[Mapping[str, object]],
    plain: Callable[[Mapping[str, object]], str],
    as_json: bool,
) -> None:
    """Print rows as they come, each on a line of its own."""
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False) if as_json else plain(row))


def readable(data: bytes) -> str:
    """Bytes as text if they are text that can be printed, else as hex."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return text if text.isprintable() else data.hex()


def print_fields(row: Mapping[str, object], as_json: bool) -> None:
    """Print one thing: a field a line, or one JSON object."""
    if as_json:
        click.echo(json.dumps(row, ensure_ascii=False))
        return
    width = max(map(len, row), default=0)
    for name, value in row.items():
        if value is not None:
            click.echo(f"{name:<{width}}  {clean(_text(value))}")


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return ", ".join(map(_text, value))
        case dict():
            return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
        case _:
            return str(value)


def print_page(
    fields: Mapping[str, object],
    lists: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    as_json: bool = False,
) -> None:
    """Print one thing with the lists that belong to it; those that are empty are left out."""
    print_fields(fields, as_json)
    for title, lines in lists.items():
        if lines:
            click.echo(f"\n{title}")
            for line in lines:
                click.echo(f"  {clean(line)}")
