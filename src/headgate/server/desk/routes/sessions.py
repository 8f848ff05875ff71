"""Sessions: the list, and one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request

from headgate.core.broker import Broker
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
from headgate.server.desk.elsewhere import FoundSessions, Rank, RankedRow, SessionQuestion
from headgate.server.desk.rows import FACTS_OF_SESSION, Rows

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk
    from headgate.server.router import Router

CLOSED_SHOWN = 20
SESSION_UNITS = 2 * GLANCE_UNITS
"""The cost of looking at some sessions: their order takes several values of each."""
SORTS: Mapping[str, Callable[[Rows, Broker, Session], Rank]] = {
    "trouble": lambda rows, broker, s: rows.trouble(s),
    "mailbox": lambda rows, broker, s: (s.mailbox.bytes,),
    "newest": lambda rows, broker, s: (s.opened, s.id),
    "oldest": lambda rows, broker, s: (-s.opened, -s.id),
    "subscriptions": lambda rows, broker, s: (len(broker.channels.of(s.id)),),
    "in": lambda rows, broker, s: (s.traffic.bytes_in,),
    "out": lambda rows, broker, s: (s.traffic.bytes_out,),
    "idle": lambda rows, broker, s: (-s.traffic.heard,),
}
"""The orders of sessions, the same on every worker; the first is the default."""


async def sessions(desk: Desk, request: Request) -> Slices[SessionsAnswer]:
    """Sessions, those in trouble first unless another order is asked for."""
    asked = Asked(request, "sort", "wire", "q", "slow", "limit", "offset")
    limit, offset = asked.page()
    question = SessionQuestion(
        asked.choice("sort", *SORTS),
        asked.text("wire"),
        asked.text("q").lower(),
        asked.flag("slow"),
        offset + limit,
    )
    return _page(desk, question, offset, await desk.elsewhere.sessions(question))


def _page(
    desk: Desk, asked: SessionQuestion, offset: int, elsewhere: Sequence[FoundSessions]
) -> Slices[SessionsAnswer]:
    left_out = 0 if elsewhere else offset
    here = yield from found_sessions(desk.router, desk.sampler.rows, asked, left_out)
    all_found = [here, *elsewhere]
    ranked = [row for found in all_found for row in found.rows]
    chosen = nlargest(asked.most, ranked, key=attrgetter("rank"))[offset - left_out :]
    wires: Counter[str] = Counter()
    for found in all_found:
        wires.update(found.wires)
    closed = [row for found in all_found for row in found.closed]
    return SessionsAnswer(
        rows=[each.row for each in chosen],
        total=sum(found.total for found in all_found),
        wires=dict(wires),
        closed=nlargest(CLOSED_SHOWN, closed, key=attrgetter("at")) if elsewhere else closed,
    )


def found_sessions(
    router: Router, rows: Rows, asked: SessionQuestion, left_out: int = 0, known: str = ""
) -> Slices[FoundSessions]:
    """The sessions of this process, or those of one wire. One or two values of each are looked at,
    some sessions at a time; then the rows that may be shown are made, which the first so many are
    not."""
    broker, text = router.broker, asked.text
    wire, rank = known or asked.wire, SORTS[asked.sort]
    total = 0
    best: list[Session] = []

    def key(session: Session) -> Rank:
        return rank(rows, broker, session)

    for part in parts(broker.sessions.listed()):
        found = [
            each
            for each in part
            if (not wire or each.wire == wire)
            and (not asked.wire or each.wire == asked.wire)
            and (not text or text in each.name.lower() or text in each.user.lower())
            and (not asked.slow or any(rows.trouble(each)[:3]))
        ]
        total += len(found)
        best = nlargest(asked.most, [*best, *found], key=key)
        yield SESSION_UNITS
    ranked = []
    for each in [each for each in best if each.id in broker.sessions][left_out:]:
        ranked.append(RankedRow(tuple(map(float, key(each))), rows.session(each)))
        yield 1
    counts = broker.sessions.counts.items()
    return FoundSessions(
        ranked,
        total,
        {wire: count for wire, count in counts if count and (not known or wire == known)},
        rows.closed(CLOSED_SHOWN),
    )


async def session(desk: Desk, request: Request) -> SessionAnswer:
    """One session, with what it holds."""
    number = session_number(request)
    here = desk.router.broker.sessions.get(number)
    if here is None or here.is_listed_elsewhere:
        elsewhere = await desk.elsewhere.session(number)
        if elsewhere is not None:
            return msgspec.structs.replace(
                elsewhere, facts=desk.sampler.facts.about(number, FACTS_OF_SESSION)
            )
    return desk.sampler.rows.session_page(find_session(desk, request), desk.sampler.facts)


def session_number(request: Request) -> SessionId:
    """The session that a path names."""
    text = request.path_params["session"]
    return SessionId(int(text) if text.isdigit() and len(text) < 18 else 0)


def find_session(desk: Desk, request: Request) -> Session:
    """The session of a path."""
    found = desk.router.broker.sessions.get(session_number(request))
    if found is None or found.is_listed_elsewhere:
        raise Refusal(
            404, "there is no such session", "no_such_session", "it may have ended; see sessions"
        )
    return found
