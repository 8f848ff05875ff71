"""Sessions: the list, and one of them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from headgate.core.delivery.sessions import Session
from headgate.core.model.ids import SessionId
from headgate.core.turn.slices import GLANCE_UNITS, Slices, parts
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import (
    SessionAnswer,
    SessionsAnswer,
)
from headgate.server.desk.asking import (
    Asked,
)

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

CLOSED_SHOWN = 20
SESSION_UNITS = 2 * GLANCE_UNITS
"""What it counts for to look at some sessions: their order takes several values of each."""


async def sessions(desk: Desk, request: Request) -> Slices[SessionsAnswer]:
    """Sessions, those in trouble first unless another order is asked for."""
    return _sessions(desk, Asked(request, "sort", "wire", "q", "slow", "limit", "offset"))


def _sessions(desk: Desk, asked: Asked) -> Slices[SessionsAnswer]:
    """One or two values of each session are looked at, some sessions at a time; then the rows of
    the page are made."""
    limit, offset = asked.page()
    broker, rows = desk.router.broker, desk.sampler.rows
    channels = broker.channels
    sorts: dict[str, Callable[[Session], Any]] = {
        "trouble": rows.trouble,
        "mailbox": lambda s: s.mailbox.bytes,
        "newest": lambda s: s.id,
        "oldest": lambda s: -s.id,
        "subscriptions": lambda s: len(channels.of(s.id)),
        "in": lambda s: s.traffic.bytes_in,
        "out": lambda s: s.traffic.bytes_out,
        "idle": lambda s: -s.traffic.heard,
    }
    key = sorts[asked.choice("sort", *sorts)]
    wire, text, slow = asked.text("wire"), asked.text("q").lower(), asked.flag("slow")
    total = 0
    best: list[Session] = []
    for part in parts(list(broker.sessions)):
        found = [
            each
            for each in part
            if (not wire or each.wire == wire)
            and (not text or text in each.name.lower() or text in each.user.lower())
            and (not slow or any(rows.trouble(each)[:3]))
        ]
        total += len(found)
        best = nlargest(offset + limit, [*best, *found], key=key)
        yield SESSION_UNITS
    chosen = [each for each in best if each.id in broker.sessions][offset:]
    return SessionsAnswer(
        rows=[rows.session(each) for each in chosen],
        total=total,
        wires={wire: count for wire, count in broker.sessions.counts.items() if count},
        closed=rows.closed(CLOSED_SHOWN),
    )


async def session(desk: Desk, request: Request) -> SessionAnswer:
    """One session, with what it holds."""
    return desk.sampler.rows.session_page(find_session(desk, request), desk.sampler.facts)


def find_session(desk: Desk, request: Request) -> Session:
    """The session of a path."""
    text = request.path_params["session"]
    number = int(text) if text.isdigit() and len(text) < 18 else 0
    found = desk.router.broker.sessions.get(SessionId(number))
    if found is None:
        raise Refusal(
            404, "there is no such session", "no_such_session", "it may have ended; see sessions"
        )
    return found
