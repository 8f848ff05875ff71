"""Domains, their queues, and the messages that apps put aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId
from headgate.core.model.queue_uri import parse_uri
from headgate.core.shared.app import App
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.slices import Slices
from headgate.core.turn.slices import best as best_of
from headgate.errors import HeadgateError
from headgate.expr.predicate import Failure
from headgate.expr.undecided import missing_of, undecided_reason
from headgate.server.admin.responses import Refusal
from headgate.server.desk.advice import ADVICE_UNITS, advice_of
from headgate.server.desk.answers import (
    AsideAnswer,
    AsideReason,
    DomainAnswer,
    DomainsAnswer,
    SharedQueueAnswer,
    StoredQueuesAnswer,
)
from headgate.server.desk.asking import ROWS_DEFAULT, ROWS_MAX, Asked, shown
from headgate.server.desk.kept import is_shared, message_row
from headgate.server.desk.queue_lookup import listed
from headgate.server.desk.routes.path import PAGE

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

ADDRESS_CHARS_MAX = 1000
"""Of a queue."""
APPS_SHOWN = 50
ASIDE_GROUPS = 100
EVALUATION_UNITS = 100
"""The cost of evaluating an expression in full for the first time."""
MISSING_UNITS = 10
"""The cost of finding out which property is missing."""


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


async def stored_queues(desk: Desk, request: Request) -> StoredQueuesAnswer:
    """Shared queues of a domain in the order of their names, open or not, with one question to the
    store."""
    found = find_domain(desk, request)
    if not is_shared(found):
        raise _not_shared()
    asked = Asked(request, "after", "limit")
    after = asked.text("after", most=ADDRESS_CHARS_MAX)
    return await listed(desk, found.name, after, asked.number("limit", ROWS_DEFAULT, 1, ROWS_MAX))


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
        raise _not_shared()
    try:
        uri = parse_uri(f"bmq://{found.name}/{request.path_params['queue']}").canonical
    except HeadgateError as error:
        raise Refusal(400, str(error), "bad_name") from None
    return found, uri, desk.router.broker.shard.shared.queues.get(QueueId(uri.encode()))


def _not_shared() -> Refusal:
    return Refusal(
        404, "the domain has no shared queues", "no_such_queue", "see queues/{name} instead"
    )


async def aside(desk: Desk, request: Request) -> Slices[AsideAnswer]:
    """Messages that an app put aside, the oldest first, and why no group matches them."""
    asked = Asked(request, "app", *PAGE)
    _, _, found = find_queue(desk, request)
    app = found.apps.get(asked.text("app")) if found is not None else None
    if found is None or app is None:
        raise Refusal(404, "there is no such app", "no_such_app", "see domains")
    return _aside(found, app, *asked.page())


def _aside(queue: SharedQueue, app: App, limit: int, offset: int) -> Slices[AsideAnswer]:
    entries = [queue.entries[seq] for seq in islice(app.aside, offset, offset + limit)]
    why = []
    for group in list(islice(app.groups, ASIDE_GROUPS)):
        counts: Counter[object] = Counter()
        reasons: Counter[str] = Counter()
        for entry in entries if group.predicate is not None else ():
            assert group.predicate is not None, "looked at above"
            result = group.predicate.evaluate(entry.properties)
            counts[result] += 1
            if isinstance(result, Failure):
                missing = missing_of(group.predicate, entry.properties, result)
                reasons[undecided_reason(result, missing)] += 1
        reason = max(reasons, key=reasons.__getitem__, default="")
        yield EVALUATION_UNITS + len(entries) + MISSING_UNITS * reasons.total()
        advice = advice_of(group.text) if reason and group.text is not None else ""
        yield ADVICE_UNITS if advice else 1
        why.append(
            AsideReason(
                expression=None if group.text is None else shown(group.text),
                priority=group.priority,
                false=counts[False],
                name=counts[Failure.NAME],
                type=counts[Failure.TYPE],
                arithmetic=counts[Failure.ARITHMETIC],
                reason=shown(reason),
                advice=advice,
            )
        )
    return AsideAnswer(
        rows=[message_row(e.arrived, e.id, e.size, e.properties) for e in entries],
        total=len(app.aside),
        why=why,
    )
