"""An explanation in lines for people, for the command line and for Redis clients.

The lines hold names, expressions and texts of clients: the caller has to make sure that they
contain no terminal control sequences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

WHO_MAX = 5
"""Sessions named in a line."""


def head_line(row: Mapping[str, Any]) -> str:
    """The line that names the message."""
    mode = f" ({row['mode']})" if "mode" in row else ""
    shown = ", ".join(f"{name}={_literal(item)}" for name, item in row["properties"].items())
    return f"{row['queue']}{mode}, a message with {shown or 'no properties'}"


def outcome_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """The lines that say what would happen to it, app by app."""
    if row["refused"]:
        yield f"It would be refused: {row['refused']}. With room for it:"
    if not row["is_open"]:
        yield "Nobody has opened the queue since the router started."
    for app in row["apps"]:
        yield ""
        yield from _app_lines(app)


def _app_lines(app: Mapping[str, Any]) -> Iterator[str]:
    name = f"{app['app']}: " if app["app"] else ""
    yield f"{name}{_verdict(app)}"
    yield from columns(("filter", _expression(f), f["reason"]) for f in app["filters"])
    heads = (
        (f"priority {group['priority']}", _expression(group["answer"]), group["answer"]["reason"])
        for group in app["groups"]
    )
    rows = (_member_row(member, group) for group in app["groups"] for member in group["members"])
    members = columns(rows, indent=4)
    for head, group in zip(columns(heads), app["groups"], strict=True):
        yield head
        yield from (next(members) for _ in group["members"])
        if group["left_out"]:
            yield f"    and {group['left_out']} more"
    if app["left_out"]:
        yield f"  and {app['left_out']:,} more expression{'' if app['left_out'] == 1 else 's'}"


def _verdict(app: Mapping[str, Any]) -> str:
    verb, sessions = app["outcome"], app["waits_for"]
    if app["receivers"]:
        verb, sessions = "goes to", app["receivers"]
    elif sessions:
        verb = "waits for"
    more = max(app["receivers_all"], len(sessions)) - len(sessions[:WHO_MAX])
    who = ", ".join(map(_who, sessions[:WHO_MAX]))
    if more:
        who += f" and {more} more"
    return f"{verb} {who}".rstrip() + f"; {app['reason']}"


def _member_row(member: Mapping[str, Any], group: Mapping[str, Any]) -> Sequence[str]:
    """The row of a subscription. Why its expression is not true stands in the group's row."""
    why = "gets it" if member["gets"] else member["reason"]
    if group["answer"]["result"] is not True:
        why = "does not match"
    who, held = _who(member), f"{member['unconfirmed']}"
    if member["session"] < 0:
        return who, member["state"], f"{held} unconfirmed", why, ""
    held = f"{held} of {member['window']['messages']} unconfirmed"
    return who, member["state"], held, why, member["name"]


def _who(row: Mapping[str, Any]) -> str:
    """A consumer by its session, or by its name if it has one of its own and no window."""
    session = row["session"]
    return f"session {session}" if session >= 0 else f"consumer {row['name']}"


def _expression(answer: Mapping[str, Any]) -> str:
    return answer["expression"] or "(no expression)"


def _literal(item: object) -> str:
    """A value as it is written in expressions."""
    if isinstance(item, dict):
        return f"0x{item['hex']}"
    return json.dumps(item, ensure_ascii=False)


def columns(rows: Iterable[Sequence[str]], indent: int = 2) -> Iterator[str]:
    """Rows with aligned cells."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield (" " * indent + "  ".join(cells)).rstrip()
