"""The screen of ``headgate top``: the overview of a router, as lines of a terminal.

A line is made of parts, each a text and a style, so that it can be cut before it is coloured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.cli.live.session import state
from headgate.cli.terminal import cells, clean, cut, padded, styled
from headgate.cli.units import count, counted, duration, rate, share, size

BLOCKS = " ▁▂▃▄▅▆▇█"
SPARK = 16
"""Columns of a small chart."""
ROWS = 5
"""Of each table."""
CHARTED: Mapping[str, float] = {
    "published": 10,
    "accepted": 10,
    "fanned_out": 10,
    "backlog_messages": 10,
    "confirm_p99": 0.01,
    "busy": 0.05,
}
"""Series with a small chart, and what is its full height even if all numbers are lower."""

Part = tuple[str, Mapping[str, Any]]
Line = Sequence[Part]
PLAIN: Mapping[str, Any] = {}
BOLD: Mapping[str, Any] = {"bold": True}
DIM: Mapping[str, Any] = {"dim": True}
MARKS: Mapping[str, Part] = {
    "error": (" ✕ ", {"bold": True, "fg": "red"}),
    "warning": (" ▲ ", {"fg": "yellow"}),
}


@dataclass
class History:
    """The last numbers of each series that has a chart."""

    numbers: dict[str, list[float]] = field(default_factory=dict)

    def fill(self, series: Mapping[str, Sequence[float]]) -> None:
        """Begin with what the router remembers."""
        for name in CHARTED:
            self.numbers[name] = list(series.get(name, ()))[-SPARK:]

    def add(self, point: Mapping[str, float]) -> None:
        for name in CHARTED:
            numbers = self.numbers.setdefault(name, [])
            numbers.append(point[name])
            del numbers[:-SPARK]

    def spark(self, name: str) -> str:
        """A small chart, of which the largest number is the full height."""
        numbers = self.numbers.get(name, [])
        top = max([*numbers, CHARTED[name]])
        return "".join(BLOCKS[round(max(0.0, number) / top * 8)] for number in numbers)


def overview(tick: Mapping[str, Any], url: str, history: History) -> Iterator[Line]:
    """The whole screen: a head, numbers, sentences and tables."""
    yield from _head(tick, url)
    yield []
    yield from _numbers(tick["point"], history)
    yield []
    yield from _sentences(tick["attention"])
    for table in (_sessions(tick["slow"]), _apps(tick["apps"]), _channels(tick["top"])):
        lines = list(table)
        if len(lines) > 1:
            yield []
            yield from lines


def _head(tick: Mapping[str, Any], url: str) -> Iterator[Line]:
    point = tick["point"]
    facts = [
        url,
        f"up {duration(tick['uptime'])}",
        tick["store"],
        counted(int(point["sessions"]), "session"),
        f"CPU {share(point['cpu'])}",
        size(point["memory"]),
    ]
    stage: list[Part] = []
    if tick["stage"]:
        stage = [(f"  {tick['stage']}", {"bold": True, "fg": "yellow"})]
    yield [(f"headgate {tick['version']}", BOLD), ("  " + "  ".join(facts), PLAIN), *stage]


def _numbers(point: Mapping[str, float], history: History) -> Iterator[Line]:
    rows = (
        ("published", rate(point["published"]), "published"),
        ("queued", rate(point["accepted"]), "accepted"),
        ("to subscribers", rate(point["fanned_out"]), "fanned_out"),
        ("backlog", count(point["backlog_messages"]), "backlog_messages"),
        (
            "confirm p99",
            duration(point["confirm_p99"]) if point["confirmed"] else "–",
            "confirm_p99",
        ),
        ("turns busy", share(point["busy"]), "busy"),
    )
    for left, right in zip(rows[::2], rows[1::2], strict=True):
        yield [
            part
            for title, number, series in (left, right)
            for part in (
                (padded(title, 15), DIM),
                (padded(number, 12, right=True), BOLD),
                ("  " + padded(history.spark(series), SPARK) + "  ", {"fg": "cyan"}),
            )
        ]
    late, lag = duration(point["loop_lag"]), count(point["journal_lag"])
    waiting = counted(int(point["publishers_waiting"]), "publisher") + " waiting"
    held = size(point["mailbox_bytes"])
    yield [(f"mailboxes {held}, {waiting}, loop late {late}, journal {lag}", DIM)]


def _sentences(sentences: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    if all(each["ended"] is not None for each in sentences):
        yield [(" ✓ ", {"fg": "green"}), ("nothing needs attention", PLAIN)]
    for each in sentences[:ROWS]:
        text = f"  {each['text']}"
        if each["ended"] is not None:
            yield [("   ", PLAIN), (f"{each['title']}{text}", DIM)]
            continue
        yield [MARKS[each["level"]], (each["title"], BOLD), (text, PLAIN)]
        yield [(f"   {each['command']}", DIM)]
    if len(sentences) > ROWS:
        yield [(f"   and {len(sentences) - ROWS} more: headgate top --json", DIM)]


def _sessions(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    titles, to_the_right = ["session", "wire", "mailbox", "state"], [False, False, True, False]
    shown = [
        [f"{r['session']} {r['name']}", r["wire"], size(r["mailbox_bytes"]), state(r)] for r in rows
    ]
    if any(row["worker"] for row in rows):
        titles.insert(2, "worker")
        to_the_right.insert(2, True)
        for cells, row in zip(shown, rows, strict=True):
            cells.insert(2, str(row["worker"]))
    return _table(titles, to_the_right, shown)


def _apps(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    return _table(
        ("queue · app", "in line", "aside", "unconfirmed", "trend"),
        (False, True, True, True, True),
        [
            (
                r["queue"].removeprefix("bmq://") + (f" · {r['app']}" if r["app"] else ""),
                count(r["in_line"] + r["waiting"]),
                count(r["aside"]),
                count(r["unconfirmed"]),
                f"{r['growth_per_s']:+.1f}/s",
            )
            for r in rows
        ],
    )


def _channels(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    return _table(
        ("channel", "in", "size", "receivers", "out"),
        (False, True, True, True, True),
        [
            (
                r["channel"],
                rate(r["rate"]),
                f"{size(r['bytes_per_s'])}/s",
                count(r["receivers"]),
                rate(r["deliveries_per_s"]),
            )
            for r in rows
        ],
    )


def _table(
    titles: Sequence[str], to_the_right: Sequence[bool], rows: Sequence[Sequence[str]]
) -> Iterator[Line]:
    shown = [[cut(clean(cell), 44) for cell in row] for row in rows[:ROWS]]
    widths = [max(map(cells, column)) for column in zip(titles, *shown, strict=True)]
    for number, row in enumerate([titles, *shown]):
        line = "  ".join(
            padded(cell, width, right=right)
            for cell, width, right in zip(row, widths, to_the_right, strict=True)
        )
        yield [("  " + line.rstrip(), PLAIN if number else DIM)]


def drawn(line: Line, width: int | None = None) -> str:
    """The line as it is written, cut to a width if there is one."""
    texts = []
    for text, style in line:
        shown = clean(text)
        if width is not None:
            shown = cut(shown, width)
            width -= cells(shown)
        texts.append(styled(shown, **style) if style else shown)
    return "".join(texts).rstrip()
