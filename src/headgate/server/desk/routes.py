"""The paths of the API, version 1, and what is answered there.

A path is a function of a request to an answer of `answers.py`. All of them are listed in `ROUTES`
with what they take, from which ``docs/reference/openapi.json`` is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headgate.core.delivery.sessions import Session
from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId, SessionId
from headgate.core.model.queue_uri import parse_uri
from headgate.core.shared.explain import Explanation
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.slices import GLANCE_UNITS, Slices, parts
from headgate.core.turn.slices import best as best_of
from headgate.errors import HeadgateError
from headgate.server.admin.guard import OPERATOR
from headgate.server.admin.pages import in_slices
from headgate.server.admin.responses import Refusal, answer
from headgate.server.desk.answers import (
    AttentionAnswer,
    DomainAnswer,
    DomainsAnswer,
    ExpressionAnswer,
    FactsAnswer,
    JournalAnswer,
    MeAnswer,
    PipelineAnswer,
    RecentAnswer,
    SessionAnswer,
    SessionsAnswer,
    SettingsAnswer,
    SharedQueueAnswer,
)
from headgate.server.desk.asking import (
    Asked,
    ExplainQuestion,
    ExpressionQuestion,
    properties_of,
    question,
)
from headgate.server.desk.kept import is_shared
from headgate.server.desk.playground import tried
from headgate.server.desk.series import FINE_POINTS, NAMES, SPAN_MAX
from headgate.server.desk.settings import settings_page

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

PREFIX = "/api/v1"
EVENTS = "text/event-stream"
CLOSED_SHOWN = 20
FACTS_MAX = 500
RECENT_SHOWN = 100
RECENT_SEEN = 1000
"""Messages that are compared with the subscriptions of an app."""
SESSION_UNITS = 2 * GLANCE_UNITS
"""What it counts for to look at some sessions: their order takes several values of each."""
APPS_SHOWN = 50

Handler = Callable[["Desk", Request], Awaitable[object]]


class Path:
    """A path of the API: its name, its method, what it takes and who answers."""

    def __init__(
        self,
        path: str,
        handler: Handler,
        *parameters: str,
        body: type[Any] | None = None,
        events: bool = False,
    ) -> None:
        self.path = path
        self.handler = handler
        self.parameters = parameters
        self.body = body
        self.events = events

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"


def routes(desk: Desk, paths: list[Path]) -> list[Route]:
    """The routes of some paths."""
    return [Route(PREFIX + p.path, _endpoint(desk, p), methods=[p.method]) for p in paths]


def _endpoint(desk: Desk, path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        desk.check_ready()
        Asked(request, *path.parameters)
        found = await path.handler(desk, request)
        if isinstance(found, Response):
            return found
        if isinstance(found, Generator):
            async with desk.at_work:
                found = await in_slices(found)
        return answer(found, headers={"cache-control": "no-store"})

    return endpoint


# The stream and its history.


async def live(desk: Desk, request: Request) -> Response:
    """One ``tick`` a second, and with `facts` a ``fact`` for each that is worth a line."""
    wants_facts = Asked(request, "facts").flag("facts")
    viewers = desk.sampler.viewers
    viewers.check_room()
    stream = viewers.stream(wants_facts=wants_facts)
    return StreamingResponse(stream, media_type=EVENTS, headers={"cache-control": "no-store"})


async def series(desk: Desk, request: Request) -> dict[str, list[float]]:
    """Columns of the history: `at`, and one for each name."""
    asked = Asked(request, "names", "span")
    names = [name for name in request.query_params.get("names", "").split(",") if name]
    wrong = [name for name in names if name not in NAMES]
    if wrong:
        raise Refusal(400, "there is no such series", "bad_parameter", f"use {', '.join(NAMES)}")
    span = asked.number("span", FINE_POINTS, 1, SPAN_MAX)
    return desk.sampler.history.columns(list(dict.fromkeys(names)) or list(NAMES), span)


async def attention(desk: Desk, request: Request) -> AttentionAnswer:
    """What needs attention, as of the last sample."""
    return AttentionAnswer(at=desk.sampler.at, rows=desk.sampler.sentences)


# Sessions.


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


# Domains and shared queues.


async def domains(desk: Desk, request: Request) -> DomainsAnswer:
    """Domains, and the apps with most that is undelivered."""
    asked = Asked(request, "q", "sort", "limit", "offset")
    limit, offset = asked.page()
    text = asked.text("q").lower()
    states = desk.router.broker.shard.shared.states
    sorts: dict[str, Callable[[Domain], Any]] = {
        "name": lambda domain: domain.name,
        "messages": lambda domain: -_messages(states.get(domain.name)),
    }
    found = [d for d in desk.router.broker.shard.domains.values() if text in d.name.lower()]
    found.sort(key=sorts[asked.choice("sort", *sorts)])
    rows = desk.sampler.rows
    return DomainsAnswer(
        rows=[rows.domain(each) for each in found[offset : offset + limit]],
        total=len(found),
        apps=rows.behind(APPS_SHOWN),
    )


def _messages(state: Any) -> int:  # noqa: ANN401
    return 0 if state is None else state.meter.messages


async def domain(desk: Desk, request: Request) -> Slices[DomainAnswer]:
    """One domain, with its queues in memory."""
    found = find_domain(desk, request)
    return _domain(desk, found, Asked(request, "q", "sort", "limit", "offset"))


def _domain(desk: Desk, found: Domain, asked: Asked) -> Slices[DomainAnswer]:
    limit, offset = asked.page()
    state = desk.router.broker.shard.shared.states.get(found.name)
    text = asked.text("q").lower().encode()
    members = [] if state is None else list(state.members.values())
    queues = [queue for queue in members if text in queue.id.lower()] if text else members
    sorts: dict[str, Callable[[SharedQueue], Any]] = {
        "messages": lambda queue: queue.meter.messages,
        "bytes": lambda queue: queue.meter.bytes,
    }
    key = sorts[asked.choice("sort", *sorts)]
    rows = desk.sampler.rows
    chosen = yield from best_of(queues, offset + limit, partial(nlargest, key=key))
    return DomainAnswer(
        row=rows.domain(found),
        rows=[rows.queue(queue) for queue in chosen[offset:]],
        total=len(queues),
    )


async def shared_queue(desk: Desk, request: Request) -> Slices[SharedQueueAnswer]:
    """A shared queue with its apps, their expressions and how these do."""
    found, uri, queue = find_queue(desk, request)
    return desk.sampler.rows.queue_page(found, uri, queue)


def find_domain(desk: Desk, request: Request) -> Domain:
    """The domain of a path."""
    found = desk.router.broker.shard.domains.get(request.path_params["domain"])
    if found is None:
        raise Refusal(404, "there is no such domain", "no_such_domain", "see domains")
    return found


def find_queue(desk: Desk, request: Request) -> tuple[Domain, str, SharedQueue | None]:
    """The shared queue of a path, if it is in memory."""
    found = find_domain(desk, request)
    if not is_shared(found):
        raise Refusal(
            404, "the domain has no shared queues", "no_such_queue", "see queues/{name} instead"
        )
    try:
        uri = parse_uri(f"bmq://{found.name}/{request.path_params['queue']}").canonical
    except HeadgateError as error:
        raise Refusal(400, str(error), "bad_name") from None
    return found, uri, desk.router.broker.shard.shared.queues.get(QueueId(uri.encode()))


# The playground.


async def expression(desk: Desk, request: Request) -> Slices[ExpressionAnswer]:
    """What an expression means, on a message that somebody thinks of and on recent ones."""
    desk.check_pace()
    return tried(desk.router, desk.sampler.recent, await question(request, ExpressionQuestion))


async def explain(desk: Desk, request: Request) -> Slices[Explanation]:
    """Who would get a message, and why not the others."""
    desk.check_pace()
    asked = await question(request, ExplainQuestion)
    try:
        return desk.router.explaining(asked.queue, properties_of(asked.properties))
    except HeadgateError as error:
        raise Refusal(400, str(error), "bad_question") from None


async def recent(desk: Desk, request: Request) -> RecentAnswer:
    """Messages that came lately, without bodies; with `aside`, those that no group of that app
    matches now."""
    asked = Asked(request, "queue", "domain", "aside", "limit")
    name = asked.text("queue")
    limit = asked.number("limit", 8, 1, RECENT_SHOWN)
    wanted = asked.text("domain") or name.removeprefix("bmq://").partition("/")[0]
    kept = desk.sampler.recent
    newest = islice(kept.newest(wanted), RECENT_SEEN)
    found = [each for each in newest if not name or each.queue == name.encode()]
    if "aside" in request.query_params:
        queue = desk.router.broker.shard.shared.queues.get(QueueId(name.encode()))
        app = queue.apps.get(asked.text("aside")) if queue is not None else None
        if app is None:
            raise Refusal(404, "there is no such app", "no_such_app", "see domains")
        groups = app.groups
        found = [m for m in found if next(iter(groups.matching(m.properties)), None) is None]
    return RecentAnswer(rows=[each.row() for each in found[:limit]], kept=len(kept.of(wanted)))


# What happened, and what is set.


async def facts(desk: Desk, request: Request) -> FactsAnswer:
    """Facts that are worth a line, the newest first."""
    asked = Asked(request, "level", "kind", "after", "limit")
    kept = desk.sampler.facts
    return FactsAnswer(
        rows=kept.newest(
            level=asked.choice("level", "debug", "info", "warning", "error"),
            kind=asked.text("kind"),
            after=asked.number("after", 0, 0, 10**15 - 1),
            most=asked.number("limit", 200, 1, FACTS_MAX),
        ),
        last=kept.last,
        skipped=kept.skipped,
    )


async def settings(desk: Desk, request: Request) -> SettingsAnswer:
    """The configuration in effect."""
    # To read what every key means takes a while, the first time.
    return await asyncio.to_thread(settings_page, desk.started(), desk.latest(), desk.version)


async def journal(desk: Desk, request: Request) -> JournalAnswer:
    """The journal on disk."""
    return await desk.journal.answer(desk.latest().journal)


async def pipeline(desk: Desk, request: Request) -> PipelineAnswer:
    """How far the tables of the pipeline are."""
    config, found = desk.started(), desk.router.journal
    tables = None if config.desk.tables is None else config.directory / config.desk.tables
    return await desk.pipeline.answer(tables, None if found is None else found.directory)


async def me(desk: Desk, request: Request) -> MeAnswer:
    """Who asks, and what it may do."""
    return MeAnswer(
        operator=bool(request.scope.get(OPERATOR)),
        actions=desk.has_actions,
        bodies=desk.latest().desk.bodies,
        version=desk.version,
    )


PAGE = ("limit", "offset")
PATHS = [
    Path("/live", live, "facts", events=True),
    Path("/series", series, "names", "span"),
    Path("/attention", attention),
    Path("/sessions", sessions, "sort", "wire", "q", "slow", *PAGE),
    Path("/sessions/{session}", session),
    Path("/domains", domains, "q", "sort", *PAGE),
    Path("/domains/{domain}", domain, "q", "sort", *PAGE),
    Path("/domains/{domain}/queues/{queue}", shared_queue),
    Path("/expression", expression, body=ExpressionQuestion),
    Path("/explain", explain, body=ExplainQuestion),
    Path("/recent", recent, "queue", "domain", "aside", "limit"),
    Path("/facts", facts, "level", "kind", "after", "limit"),
    Path("/settings", settings),
    Path("/journal", journal),
    Path("/pipeline", pipeline),
    Path("/me", me),
]
"""Everything that may be asked by whoever knows the token."""
