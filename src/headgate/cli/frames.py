"""A DataFrame as commands print it: a table for people, JSON lines, or Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.output import json_option, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

C = TypeVar("C", bound=Callable[..., Any])

ROWS_MAX = 1_000
"""Of a table for people; JSON and Parquet have all of them."""

CELL_MAX = 60


def frame_options(command: C) -> C:
    """Add ``--json`` and ``--to``, as the argument `output`."""

    @wraps(command)
    def wrapper(*args: Any, as_json: bool, target: str | None, **kwargs: Any) -> Any:  # noqa: ANN401
        return command(*args, output={"as_json": as_json, "target": target}, **kwargs)

    target = click.option("--to", "target", metavar="PATH", help="Write the result as Parquet.")
    return json_option(target(wrapper))  # type: ignore[return-value]


def show(frame: DataFrame, as_json: bool = False, target: str | None = None) -> None:
    if target is not None:
        frame.write.mode("errorifexists").parquet(target)
        click.echo(f"written to {target}", err=True)
    elif as_json:
        for row in frame.toLocalIterator():
            click.echo(json.dumps(plain(row.asDict(recursive=True)), ensure_ascii=False))
    else:
        rows = frame.limit(ROWS_MAX + 1).collect()
        shown = [[plain(value) for value in row] for row in rows[:ROWS_MAX]]
        click.echo(table(frame.columns, shown))
        if len(rows) > ROWS_MAX:
            click.echo(f"only the first {ROWS_MAX} rows; --json prints all", err=True)


def plain(value: Any) -> Any:  # noqa: ANN401
    """A value that JSON can express. Bytes are text if they are printable, else hex."""
    match value:
        case bytes() | bytearray():
            return readable(bytes(value))
        case datetime():
            return value.isoformat(sep=" ")
        case date():
            return value.isoformat()
        case Mapping():
            if set(value) == {"i", "s", "b"}:  # a property: its one value
                return next((plain(v) for v in value.values() if v is not None), None)
            return {str(name): plain(item) for name, item in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return plain(value.asDict(recursive=True))
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of equal width; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    is_number = [
        all(isinstance(row[place], int | float) or row[place] is None for row in rows)
        for place in range(len(names))
    ]
    lines = [list(names), *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    text = str(value)
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"
