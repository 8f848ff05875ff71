"""What the router says it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.cli.output import emit


def print_action(done: Mapping[str, Any], as_json: bool) -> None:
    """Print the outcome of an action."""
    emit([done], _line, as_json)


def _line(done: Mapping[str, Any]) -> str:
    target = f"{done['target']}: " if done["target"] else ""
    count = f" ({done['count']})" if done.get("count") is not None else ""
    more = [f"{target}{done['outcome']}{count}"]
    if done.get("changed"):
        more.append(f"changed: {', '.join(done['changed'])}")
    if done.get("after_restart"):
        more.append(f"after a restart: {', '.join(done['after_restart'])}")
    return "\n".join(more)
