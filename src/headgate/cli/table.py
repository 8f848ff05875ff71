"""Lists: the same options, columns and order for every command that prints one.

For people they are columns; with ``--json`` each row is an object on a line of its own, with all
its fields, and that does not depend on the terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import click

from headgate.cli import terminal
from headgate.cli.output import json_option

F = TypeVar("F", bound=Callable[..., Any])

Row = Mapping[str, Any]
WATCH_SECONDS = 2.0
CELL_MAX = 60
"""Of a cell without ``--wide``."""
CLEAR = "\x1b[H\x1b[2J"


class Column(NamedTuple):
    """A column: the field of a row that it shows, and how."""

    name: str
    title: str = ""
    show: Callable[[Any], str] | None = None
    """None of a field is shown as nothing, anything else by this."""
    is_number: bool = False
    is_wide: bool = False
    """Shown with ``--wide``, or if it is asked for."""

    @property
    def head(self) -> str:
        return (self.title or self.name.replace("_", " ")).upper()

    def cell(self, row: Row) -> str:
        value = row.get(self.name)
        if value is None:
            return ""
        return terminal.clean(str(value) if self.show is None else self.show(value))


@dataclass(frozen=True, slots=True)
class Listing:
    """The options of a list, as they were given."""

    columns: Sequence[Column]
    as_json: bool = False
    watch: float | None = None
    names: Sequence[str] = ()
    sort: str | None = None
    limit: int | None = None
    has_header: bool = True
    is_wide: bool = False

    def of(self, columns: Sequence[Column]) -> Listing:
        """The table with other columns, of which the selected ones are shown."""
        names = {column.name for column in columns}
        return replace(self, columns=columns, names=[n for n in self.names if n in names])

    def show(self, fetch: Callable[[], Iterable[Row]]) -> int:
        """Print what is fetched, again and again if so asked. How many rows there were."""
        while True:
            rows = self.ordered(fetch())
            if self.watch is not None and not self.as_json and terminal.has_cursor():
                click.echo(CLEAR, nl=False)
            self.write(rows)
            if self.watch is None:
                return len(rows)
            sys.stdout.flush()
            time.sleep(self.watch)

    def ordered(self, rows: Iterable[Row]) -> list[Row]:
        """In the order that is wanted, and no more than are wanted."""
        found = list(rows)
        if self.sort is not None:
            name = self.sort.removeprefix("-")
            found.sort(key=lambda row: _order(row.get(name)), reverse=self.sort.startswith("-"))
        return found if self.limit is None else found[: self.limit]

    def write(self, rows: Sequence[Row]) -> None:
        """Print rows as they are."""
        if self.as_json:
            for row in rows:
                shown = {name: row.get(name) for name in self.names} if self.names else row
                click.echo(json.dumps(shown, ensure_ascii=False))
            return
        for line in self.lines(rows):
            click.echo(line)

    def lines(self, rows: Sequence[Row]) -> list[str]:
        """The rows as columns of equal width, the header first."""
        columns = self._shown()
        table = [[column.cell(row) for column in columns] for row in rows]
        if not self.is_wide:
            table = [[terminal.cut(cell, CELL_MAX) for cell in cells] for cells in table]
        heads = [[column.head for column in columns]] if self.has_header else []
        widths = [max(map(terminal.cells, each)) for each in zip(*heads, *table, strict=True)]
        most = terminal.width() if terminal.is_terminal() and not self.is_wide else None
        lines = []
        for number, cells in enumerate([*heads, *table]):
            line = "  ".join(
                terminal.padded(cell, width, right=column.is_number)
                for cell, width, column in zip(cells, widths, columns, strict=True)
            ).rstrip()
            line = line if most is None else terminal.cut(line, most)
            lines.append(terminal.styled(line, bold=True) if number < len(heads) else line)
        return lines

    def _shown(self) -> Sequence[Column]:
        known = {column.name: column for column in self.columns}
        if self.names:
            return [known[name] for name in self.names]
        return [column for column in self.columns if self.is_wide or not column.is_wide]


def _order(value: object) -> tuple[int, Any]:
    """Numbers before texts, nothing before both."""
    match value:
        case None:
            return 0, 0
        case bool() | int() | float():
            return 1, value
        case _:
            return 2, str(value)


def list_options(*columns: Column) -> Callable[[F], F]:
    """Add the options of a list to a command, as the argument `listing`."""
    known = [column.name for column in columns]

    def names_of(ctx: click.Context, param: click.Parameter, text: str | None) -> Sequence[str]:
        names = [name.strip() for name in text.split(",") if name.strip()] if text else []
        for name in names:
            _check(name, known)
        return names

    def order_of(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
        if text is not None:
            _check(text.removeprefix("-"), known)
        return text

    def decorate(command: F) -> F:
        @wraps(command)
        def wrapped(
            *args: Any,  # noqa: ANN401
            as_json: bool,
            watch: float | None,
            names: Sequence[str],
            sort: str | None,
            limit: int | None,
            has_no_header: bool,
            wide: bool,
            **others: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            listing = Listing(columns, as_json, watch, names, sort, limit, not has_no_header, wide)
            return command(*args, listing=listing, **others)

        for option in (
            click.option("--wide", is_flag=True, help="All columns, and nothing is cut."),
            click.option("--no-header", "has_no_header", is_flag=True, help="No line of titles."),
            click.option("--limit", type=click.IntRange(1), help="At most so many rows."),
            click.option(
                "--sort",
                metavar="COLUMN",
                callback=order_of,
                help="In the order of a column; -COLUMN is the largest first.",
            ),
            click.option(
                "--columns",
                "names",
                metavar="A,B",
                callback=names_of,
                help=f"Only these, of: {', '.join(known)}.",
            ),
            click.option(
                "--watch",
                type=click.FloatRange(0.2, 3600),
                is_flag=False,
                flag_value=WATCH_SECONDS,
                metavar="[SECONDS]",
                help=f"Again every so many seconds ({WATCH_SECONDS:.0f}), until Ctrl-C.",
            ),
            json_option,
        ):
            wrapped = option(wrapped)
        return cast("F", wrapped)

    return decorate


def _check(name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise click.BadParameter(f"{name!a} is no column; known are {', '.join(known)}")
