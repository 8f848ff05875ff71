"""The outcome of an action, as the router tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.cli.output import emit
from headgate.cli.units import counted


def print_action(done: Mapping[str, Any], as_json: bool) -> None:
    """Print the outcome of an action."""
    emit([done], _line, as_json)


COUNTED = {
    "session/close": "unconfirmed message",
    "session/trim": "message",
    "queue/purge": "message",
    "queue/delete": "message",
    "app/look-again": "message",
    "drain": "session",
    "undrain": "session",
}
"""The subject that an action counts."""
ABOUT_THE_ROUTER = ("drain", "undrain", "reload", "log-level")
"""Actions that have no target but the router."""


def _line(done: Mapping[str, Any]) -> str:
    action = done["action"]
    target = "" if action in ABOUT_THE_ROUTER else f"{done['target']}: "
    count = ""
    if done.get("count") is not None and action in COUNTED:
        count = f", {counted(done['count'], COUNTED[action])}"
    more = [f"{target}{done['outcome']}{count}"]
    if done.get("changed"):
        more.append(f"changed: {', '.join(done['changed'])}")
    if done.get("after_restart"):
        more.append(f"after a restart: {', '.join(done['after_restart'])}")
    return "\n".join(more)
