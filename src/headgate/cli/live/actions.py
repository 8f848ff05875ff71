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
    lines = [f"{_target(done)}{_outcome(done)}"]
    if done.get("changed"):
        lines.append(f"changed: {', '.join(done['changed'])}")
    if done.get("after_restart"):
        lines.append(f"after a restart: {', '.join(done['after_restart'])}")
    return "\n".join(lines)


def _target(done: Mapping[str, Any]) -> str:
    if done["action"] in ABOUT_THE_ROUTER:
        return ""
    kind = "session " if done["action"].startswith("session/") else ""
    return f"{kind}{done['target']}: "


def _outcome(done: Mapping[str, Any]) -> str:
    """What was done, and to how many: ``2 messages removed``, or ``draining, 2 sessions``."""
    outcome: str = done["outcome"]
    if done.get("count") is None or done["action"] not in COUNTED:
        return outcome
    number = counted(done["count"], COUNTED[done["action"]])
    noun, _, verb = outcome.partition(" ")
    return f"{number} {verb}" if noun == "messages" else f"{outcome}, {number}"
