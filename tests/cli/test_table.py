"""Lists: columns, order, limits, JSON, and what a terminal must not be given."""

from __future__ import annotations

import json
import time
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from headgate.cli import terminal
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.units import count, duration, rate, size

ROWS: list[dict[str, Any]] = [
    {"name": "b", "bytes": 2048, "note": "second", "extra": 1},
    {"name": "a", "bytes": None, "note": "first\x1b[2J", "extra": 2},
    {"name": "鯨", "bytes": 1, "note": None, "extra": 3},
]
COLUMNS = (
    Column("name"),
    Column("bytes", "size", size, is_number=True),
    Column("note"),
    Column("extra", is_wide=True),
)


@click.command()
@list_options(*COLUMNS)
def things(listing: Listing) -> None:
    listing.show(lambda: ROWS)


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(things, arguments, env=environ)


def test_columns_are_aligned_and_numbers_are_to_the_right() -> None:
    assert run().stdout.splitlines() == [
        "NAME     SIZE  NOTE",
        "b     2.0 KiB  second",
        "a              first�[2J",
        "鯨        1 B",
    ]


def test_wide_shows_all_columns() -> None:
    assert run("--wide").stdout.splitlines()[0].split() == ["NAME", "SIZE", "NOTE", "EXTRA"]


def test_columns_are_those_that_are_asked_for() -> None:
    assert run("--columns", "extra,name", "--no-header").stdout.split() == [
        *("1", "b"),
        *("2", "a"),
        *("3", "鯨"),
    ]
    wrong = run("--columns", "nme")
    assert wrong.exit_code == 2
    assert "'nme' is no column; known are name, bytes, note, extra" in wrong.stderr


@pytest.mark.parametrize(
    ("order", "expected"),
    [("name", "ab鯨"), ("-name", "鯨ba"), ("bytes", "a鯨b"), ("-bytes", "b鯨a")],
)
def test_the_order_is_that_of_a_column(order: str, expected: str) -> None:
    shown = run("--sort", order, "--columns", "name", "--no-header").stdout
    assert "".join(shown.split()) == expected


def test_a_limit_is_of_the_ordered_rows() -> None:
    assert run("--sort=-extra", "--limit", "1", "--columns=name", "--no-header").stdout == "鯨\n"
    assert run("--sort", "nothing").exit_code == 2


def test_json_has_all_fields_whatever_is_shown() -> None:
    rows = [json.loads(line) for line in run("--json").stdout.splitlines()]
    assert rows == ROWS
    some = [json.loads(line) for line in run("--json", "--columns", "name").stdout.splitlines()]
    assert some == [{"name": row["name"]} for row in ROWS]


def test_a_list_is_watched_until_somebody_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) % 2 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    done = run("--watch", "--no-header", "--columns", "name")
    assert done.stdout.split() == ["b", "a", "鯨"] * 2
    assert pauses == [2.0, 2.0]
    run("--watch", "7")
    assert pauses[2:] == [7.0, 7.0]


def test_a_terminal_is_given_lines_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setattr(terminal, "width", lambda: 12)
    lines = Listing(COLUMNS).lines(ROWS)
    assert [terminal.cells(click.unstyle(line)) for line in lines] == [12, 12, 12, 12]
    assert lines[0].startswith("\x1b[1m")


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch, variable: dict[str, str]) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in terminal.styled("x", bold=True)
    for name, text in variable.items():
        monkeypatch.setenv(name, text)
    assert terminal.styled("x", bold=True) == "x"


def test_texts_are_cut_by_the_columns_they_take() -> None:
    assert terminal.cut("鯨鯨鯨", 5) == "鯨鯨…"
    assert terminal.cut("e\u0301tude", 5) == "e\u0301tude"
    assert terminal.cut("abc", 0) == ""


def test_numbers_are_for_people() -> None:
    assert [size(n) for n in (0, 1023, 1024, 5 * 2**30)] == ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]
    assert [count(n) for n in (0, 1234567)] == ["0", "1,234,567"]
    assert [rate(n) for n in (0, 0.5, 1234.5)] == ["0/s", "0.5/s", "1,234/s"]
    assert [duration(n) for n in (0, 2e-5, 0.5, 90, 600, 7200, 200_000)] == [
        *("0 s", "20 µs", "500 ms", "90 s"),
        *("10 min", "2 h", "2 d"),
    ]
