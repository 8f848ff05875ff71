"""``headgate check --nagios``: one line for a monitoring system, with its own exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.cli.output import emit
from headgate.cli.terminal import clean
from headgate.cli.which_router import Asked
from headgate.errors import HeadgateError, NoRouter

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
"""By their exit codes."""
NUMBERS = ("sessions", "sessions_slow", "backlog_messages", "journal_lag", "published", "accepted")
"""Series that are reported as performance data."""


def print_state(asked: Asked, as_json: bool) -> int:
    """Print how the router is; return the exit code of a plugin."""
    row = _state(asked)
    emit([row], _line, as_json)
    return STATES.index(row["state"])


def _state(asked: Asked) -> dict[str, Any]:
    try:
        admin = asked.admin()
        rows = admin.get("/attention")["rows"]
        series = admin.get("/series", names=",".join(NUMBERS), span=5)
    except NoRouter as error:
        return {"state": "CRITICAL", "text": str(error), "numbers": {}}
    except HeadgateError as error:
        return {"state": "UNKNOWN", "text": str(error), "numbers": {}}
    sentences = [row for row in rows if row["ended"] is None]  # what was is no alarm
    levels = {each["level"] for each in sentences}
    state = "CRITICAL" if "error" in levels else "WARNING" if levels else "OK"
    return {
        "state": state,
        "text": "; ".join(each["title"] for each in sentences) or "nothing needs attention",
        "numbers": {name: series[name][-1] for name in NUMBERS if series.get(name)},
    }


def _line(row: Mapping[str, Any]) -> str:
    numbers = " ".join(f"{name}={number:g}" for name, number in row["numbers"].items())
    text = clean(row["text"]).replace("|", "/")
    return f"{row['state']} {text}" + (f" | {numbers}" if numbers else "")
