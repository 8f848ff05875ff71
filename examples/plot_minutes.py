"""Traffic and times by minute as a page with plots, out of the table of minutes.

    headgate pipeline sql --json "$(cat examples/minutes.sql)" |
        python examples/plot_minutes.py > minutes.html

A minute that is far from the usual is marked: its distance from the median is more than six times
what such distances usually are. Nothing but Python is needed, and the page loads nothing.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

WIDTH, HEIGHT, EDGE = 900, 220, 40
COLORS = ("#1f77b4", "#2ca02c", "#d62728")
PLOTS = {
    "messages by minute": ("accepted", "confirmed"),
    "seconds to confirm": ("p50", "p95", "p99"),
}
FAR = 6.0
"""Times the usual distance from the median."""
USUAL = 1.4826
"""The usual distance of normally distributed numbers is so many times the median of distances."""

Row = Mapping[str, Any]


def strange(values: Sequence[float | None]) -> list[int]:
    """The places of the numbers that are far from the others."""
    known = [value for value in values if value is not None]
    if len(known) < 10:
        return []
    middle = median(known)
    usual = USUAL * median(abs(value - middle) for value in known) or 1e-9
    return [
        place
        for place, value in enumerate(values)
        if value is not None and abs(value - middle) / usual > FAR
    ]


def plot(title: str, rows: Sequence[Row], columns: Sequence[str]) -> str:
    """One plot, as SVG."""
    values = {name: [row.get(name) for row in rows] for name in columns}
    top = max((v for each in values.values() for v in each if v is not None), default=0) or 1

    def at(place: int, value: float) -> tuple[float, float]:
        x = EDGE + place * (WIDTH - 2 * EDGE) / max(1, len(rows) - 1)
        return round(x, 1), round(HEIGHT - EDGE - value * (HEIGHT - 2 * EDGE) / top, 1)

    parts = [f'<text x="{EDGE}" y="16">{html.escape(title)}, up to {top:.6g}</text>']
    for color, (name, held) in zip(COLORS, values.items(), strict=False):
        points = [at(place, value) for place, value in enumerate(held) if value is not None]
        line = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}"/>')
        label = EDGE + 90 * columns.index(name)
        parts.append(f'<text x="{label}" y="{HEIGHT - 8}" fill="{color}">{name}</text>')
        for place in strange(held):
            x, y = at(place, held[place] or 0)
            minute = html.escape(str(rows[place]["minute"]))
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="none" stroke="black">')
            parts.append(f"<title>{minute}: {name} {held[place]:.6g}</title></circle>")
    return f'<svg width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">{"".join(parts)}</svg>'


def main() -> None:
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    if not rows:
        sys.exit("there are no minutes; run `headgate pipeline run --once` first")
    plots = "\n".join(plot(title, rows, columns) for title, columns in PLOTS.items())
    span = html.escape(f"{rows[0]['minute']} to {rows[-1]['minute']}")
    print(f"<!doctype html><meta charset=utf-8><title>{span}</title><h1>{span}</h1>\n{plots}")


if __name__ == "__main__":
    main()
