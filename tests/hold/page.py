"""docs/hold.md, and a line for the terminal."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from tests.hold.case import HOLD_SECONDS, UNIT_SECONDS, Result
from tests.support.repository import DOCS

PAGE = DOCS / "hold.md"
MB = 1_000_000

HEAD = """\
# Who can hold the router

What `make hold` found when it was last run, Python {python}. The page is generated.

A router at its default limits, on SQLite, is sent the worst that each command, event and path
allows. **Hold** is for how long it served nobody else: the CPU of the event loop's thread from one
look at its sockets to the next. With a crowd of clients it is the longest callback instead, as all
of them have their turns in between. *Leaving* is the same while the clients of the case vanish
together. **CPU** is that of the loop in all, **memory** the most that the process grew by. Times
are those of a machine that does the fixed work of `tests/hold/instrument.py` in {unit:.1f} ms.

Nothing should hold the loop for more than {hold:.0f} ms.
{over} of {count} cases are over that.
"""
TABLE = """\
| case | sent | came of it | hold, ms | leaving | CPU, ms | leaving | memory, MB |
|---|---|---|---|---|---|---|---|
"""
TITLES = {
    "resp": "Redis clients",
    "smp": "SimpleX clients",
    "bmq": "BlazingMQ clients",
    "admin": "The admin port",
    "workers": "Redis clients of a worker without the shard",
    "all": "Signals, connections and crowds",
}


def page(results: Sequence[Result]) -> str:
    over = sum(result.is_over for result in results)
    text = HEAD.format(
        python=platform.python_version(),
        unit=UNIT_SECONDS * 1000,
        hold=HOLD_SECONDS * 1000,
        over=over,
        count=len(results),
    )
    text += growth(results)
    for wire, title in TITLES.items():
        rows = [row(result) for result in results if result.case.wire == wire]
        if rows:
            text += f"\n## {title}\n\n{TABLE}" + "".join(rows)
    return text


def growth(results: Sequence[Result]) -> str:
    """What a crowd costs, beside one of another size: twice as many should cost twice as much."""
    crowds = sorted(
        (result for result in results if result.case.crowd), key=lambda result: result.case.crowd
    )
    if len(crowds) < 2:
        return ""
    least, most = crowds[0], crowds[-1]
    times = most.case.crowd / least.case.crowd
    came = most.normal(most.sent.total) / least.normal(least.sent.total)
    left = most.normal(most.left.total) / least.normal(least.left.total)
    return (
        f"\n{most.case.crowd:,} subscribers of one channel are {times:.0f} times as many as"
        f" {least.case.crowd:,}, and take {came:.0f} times the CPU when they come and {left:.0f}"
        " times the CPU when they vanish.\n"
    )


def row(result: Result) -> str:
    cells = [
        _escaped(result.case.name),
        _escaped(result.case.sent),
        _escaped(result.outcome),
        _marked(result, result.sent.hold),
        _marked(result, result.left.hold),
        f"{result.normal(result.sent.total) * 1000:,.0f}",
        f"{result.normal(result.left.total) * 1000:,.0f}",
        f"{result.grown / MB:,.0f}",
    ]
    return "| " + " | ".join(cells) + " |\n"


def _marked(result: Result, hold: float) -> str:
    seconds = result.normal(hold)
    text = f"{seconds * 1000:,.0f}"
    return f"**{text}**" if seconds > HOLD_SECONDS else text


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


def line(result: Result) -> str:
    worst = max(result.sent, result.left, key=lambda part: part.hold)
    gc = f" (gc {worst.gc * 1000:.0f})" if worst.gc > 0.005 else ""
    passed = max(result.sent.passed, result.left.passed)
    crowd = f" (of all {passed * 1000:.0f})" if result.case.is_crowd else ""
    left = f", leaving {result.left.hold * 1000:.0f}" if result.left.hold > 0.005 else ""
    return (
        f"{'OVER ' if result.is_over else ''}{result.case.title} [{result.case.sent}]:"
        f" hold {result.hold * 1000:.0f} ms{crowd}{gc}{left}, CPU {result.sent.total * 1000:.0f} ms"
        f" (others {result.sent.others * 1000:.0f}),"
        f" +{result.grown / MB:.0f} MB, kept {result.kept / MB:.0f}; {result.outcome};"
        f" {worst.name}: {worst.where}"
    )
