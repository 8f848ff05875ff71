"""Minutes in which queues did something unusual, as a page with a plot for each, out of the table
of minutes.

    headgate pipeline sql --json "$(cat examples/anomalies.sql)" |
        python examples/plot_anomalies.py > anomalies.html

The band is what is usual at that time, and circles are around what is not. Nothing but Python is
needed, and the page loads nothing.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

WIDTH, HEIGHT, EDGE = 900, 220, 40

Row = Mapping[str, Any]


def plot(title: str, rows: Sequence[Row]) -> str:
    """One measure of one queue, as SVG."""
    top = max(max(row["value"], row["usual"] + row["far"]) for row in rows) or 1.0
    # Minutes without a value have no row; the places are those of the minutes that have one.
    step = (WIDTH - 2 * EDGE) / max(1, len(rows) - 1)

    def at(place: int, value: float) -> str:
        y = HEIGHT - EDGE - max(0.0, value) * (HEIGHT - 2 * EDGE) / top
        return f"{EDGE + place * step:.1f},{y:.1f}"

    line = [at(place, row["value"]) for place, row in enumerate(rows)]
    above = [at(place, row["usual"] + row["far"]) for place, row in enumerate(rows)]
    below = [at(place, row["usual"] - row["far"]) for place, row in enumerate(rows)]
    parts = [
        f'<text x="{EDGE}" y="16">{html.escape(title)}, up to {top:.6g}</text>',
        f'<polygon points="{" ".join([*above, *reversed(below)])}" fill="#dddddd"/>',
        f'<polyline points="{" ".join(line)}" fill="none" stroke="#1f77b4"/>',
    ]
    for row, point in zip(rows, line, strict=True):
        if row["is_strange"]:
            x, _, y = point.partition(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="none" stroke="#d62728">')
            text = f"{row['minute']}: {row['value']:.6g}, usually {row['usual']:.6g}"
            parts.append(f"<title>{html.escape(text)}</title></circle>")
    return f'<svg width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">{"".join(parts)}</svg>'


def main() -> None:
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    of_one = groupby(rows, lambda row: f"{row['measure']} of {row['address']}")
    plots = [plot(title, list(found)) for title, found in of_one]
    strange = sum(row["is_strange"] for row in rows)
    title = f"{strange} unusual minutes" if strange else "no unusual minutes"
    print(f"<!doctype html><meta charset=utf-8><title>{title}</title><h1>{title}</h1>")
    print("\n".join(plots))


if __name__ == "__main__":
    main()
