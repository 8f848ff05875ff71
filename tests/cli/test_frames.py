"""How DataFrames are printed."""

from __future__ import annotations

from datetime import UTC, date, datetime

from headgate.cli.frames import plain, table


def test_bytes_are_text_if_they_can_be_read() -> None:
    assert plain(b"abc") == "abc"
    assert plain(b"\x00\xff") == "00ff"
    assert plain(b"\xff") == "ff"
    assert plain(bytearray(b"abc")) == "abc"


def test_times_are_said_in_iso_and_properties_by_their_value() -> None:
    assert plain(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02 03:04:05+00:00"
    assert plain(date(2026, 1, 2)) == "2026-01-02"
    properties = {
        "x": {"i": 0, "s": None, "b": None},
        "y": {"i": None, "s": None, "b": False},
    }
    assert plain(properties) == {"x": 0, "y": False}
    assert plain([b"a", (1, None)]) == ["a", [1, None]]


def test_a_table_has_numbers_to_the_right_and_no_blanks_at_the_end() -> None:
    assert table(["name", "n"], [["a", 5], ["bc", 123], ["d", None]]).splitlines() == [
        "name    n",
        "a       5",
        "bc    123",
        "d",
    ]


def test_a_long_cell_is_cut() -> None:
    line = table(["x"], [["y" * 100]]).splitlines()[1]
    assert len(line) == 60
    assert line.endswith("…")


def test_a_table_without_rows_has_its_head() -> None:
    assert table(["a", "b"], []) == "a  b"
