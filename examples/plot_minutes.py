"""Traffic and times by minute as a page with plots, out of the table of minutes.

    headgate pipeline sql --json "$(cat examples/minutes.sql)" |
        python examples/plot_minutes.py > minutes.html

Nothing but Python is needed, and the page loads nothing. Unusual minutes of each queue are what
`anomalies.sql` and `plot_anomalies.py` are for.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT, EDGE = 900, 220, 40
COLORS = ("#1f77b4", "#2ca02c", "#d62728")
PLOTS = {
    "messages by minute": ("accepted", "confirmed"),
    "seconds to confirm": ("p50", "p95", "p99"),
}

Row = Mapping[str, Any]


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
