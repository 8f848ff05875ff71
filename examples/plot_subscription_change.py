"""Who would get what after a change of subscriptions, as a page with bars.

    headgate pipeline route --from messages --subscriptions now.jsonl --to routed
    headgate pipeline route --from messages --subscriptions changed.jsonl --to rerouted
    headgate pipeline sql --json "$(cat examples/subscription_change.sql)" |
        python examples/plot_subscription_change.py > change.html

There is a bar for each subscription of an app, and for what is auto-confirmed or put aside. Where
several subscriptions have the same priority, each of them may get a message, and it is in the bars
of all. Nothing but Python is needed, and the page loads nothing.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

WIDTH, LINE, NAMES = 900, 26, 220
COLORS = {"loses": "#d62728", "keeps": "#bbbbbb", "gains": "#2ca02c"}

Row = Mapping[str, Any]


def bar(row: Row, line: int, scale: float) -> str:
    """What one receiver loses, keeps and gains, side by side."""
    x, y, parts = float(NAMES), LINE * line, []
    for name, color in COLORS.items():
        width = round(row[name] * scale, 1)
        if width:
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 4}" width="{width}" height="{LINE - 8}" fill="{color}">'
                f"<title>{name} {row[name]}</title></rect>"
            )
        x += width
    legend = ", ".join(f"{name} {row[name]}" for name in COLORS if row[name])
    text = f'<text x="0" y="{y + 18}">{html.escape(row["receiver"])}</text>'
    return f'{text}{"".join(parts)}<text x="{x + 6:.1f}" y="{y + 18}" fill="#555">{legend}</text>'


def plot(rows: Sequence[Row], most: int) -> str:
    """The receivers of one app, as SVG."""
    scale = (WIDTH - 2 * NAMES) / (most or 1)
    bars = "".join(bar(row, line, scale) for line, row in enumerate(rows))
    size = f'width="{WIDTH}" height="{LINE * len(rows) + 4}"'
    return f'<svg {size} font-family="sans-serif" font-size="14">{bars}</svg>'


def main() -> None:
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    if not rows:
        sys.exit("nothing was routed; run `headgate pipeline route` with --to first")
    most = max(sum(row[name] for name in COLORS) for row in rows)
    key = ", ".join(f'<span style="color:{color}">{name}</span>' for name, color in COLORS.items())
    print("<!doctype html><meta charset=utf-8><title>After the change</title>")
    print(f"<h1>After the change</h1><p>Messages that a receiver {key}.</p>")
    for app, receivers in groupby(rows, lambda row: row["app"]):
        print(f"<h2>{html.escape(app) or 'without an app'}</h2>\n{plot([*receivers], most)}")


if __name__ == "__main__":
    main()
