"""Actions that an operator may have the router do. Each action is confirmed by the name of what it
is done to, and a fact in the journal before it is done.

The paths are there only if the configuration has an operator's token.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request

from headgate.core.commands import LookAgain, Purge, Tick
from headgate.core.delivery.sessions import Session
from headgate.core.effects import PurgeDone
from headgate.core.facts import AdminActed, MessagesDiscarded
from headgate.core.model.ids import QueueId, SessionId
from headgate.core.model.queue_uri import parse_uri
from headgate.core.shared.queue import SharedQueue
from headgate.errors import HeadgateError, Refused
from headgate.server.admin.guard import OPERATOR
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import ActionAnswer, SessionRow
from headgate.server.desk.asking import (
    ActionQuestion,
    AuditQuestion,
    LogLevelQuestion,
    QueueActionQuestion,
    question,
    shown,
)
from headgate.server.desk.kept import is_shared
from headgate.server.desk.names import short_name
from headgate.server.desk.pace import Pace
from headgate.server.desk.routes.path import Path
from headgate.server.desk.routes.sessions import find_session, session_number
from headgate.server.desk.words import some_do
from headgate.server.in_process import InProcessSession
from headgate.server.net.connection import Connection

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk
    from headgate.server.desk.operating import Operating

Asked_ = TypeVar("Asked_", bound=ActionQuestion)

ACTIONS_PER_SECOND = 10
REASON_CHARS = 200
JOURNAL_SECONDS = 2.0
"""How long an action waits until its fact is in the store. If the store fails, it is done without:
closing a session may be what helps."""
LOOK_SECONDS = 0.005
MINUTES_MAX = 24 * 60
COUNT_CHANGED = 0.01
BEGUN = "begun"

logger = logging.getLogger("headgate")


class Actions:
    """The actions of a desk: paced, announced as facts, and done one after another."""

    def __init__(self, desk: Desk, operating: Operating) -> None:
        self._desk = desk
        self.operating = operating
        self._pace = Pace(ACTIONS_PER_SECOND, time.monotonic)
        self._one = asyncio.Lock()
        self._level_until: asyncio.TimerHandle | None = None

    async def asked(self, request: Request, kind: type[Asked_]) -> Asked_:
        """A request of an operator; refused to everybody else."""
        if not request.scope.get(OPERATOR):
            raise Refusal(
                403, "this needs the operator's token", "not_operator", "admin.operator_token"
            )
        if not self._pace.take():
            raise Refusal(
                429,
                f"{ACTIONS_PER_SECOND} actions a second are taken",
                "too_many",
                "ask again in a second",
                after=1,
            )
        return await question(request, kind)

    async def act(
        self,
        request: Request,
        asked: ActionQuestion,
        action: str,
        target: str,
        work: Callable[[], Awaitable[ActionAnswer]],
    ) -> ActionAnswer:
        """Check the name, write the fact, do it, and write what came of it."""
        if asked.confirm != target:
            raise Refusal(
                409, "this is not confirmed", "not_confirmed", f"say confirm: {shown(target)}"
            )
        announce = self.announcing(request, asked, action, target)
        async with self._one:
            announce(BEGUN)
            await self._journaled()
            try:
                done = await work()
            except HeadgateError as error:
                announce(f"failed: {error}")
                raise Refusal(409, str(error), "failed") from None
            except Refusal as error:
                announce(f"refused: {error.detail}")
                raise
            announce(done.outcome)
            return done

    def announcing(
        self, request: Request, asked: ActionQuestion, action: str, target: str
    ) -> Callable[[str], None]:
        """A function that makes a fact of each outcome of an action."""
        actor = request.client.host if request.client is not None else ""
        reason = shown(asked.reason, REASON_CHARS)

        def announce(outcome: str) -> None:
            now = self._desk.router.clock()
            fact = AdminActed(now, actor, action, shown(target), reason, outcome)
            self._desk.router.announce([fact])

        return announce

    async def _journaled(self) -> None:
        """Wait until what was announced is in the store."""
        router = self._desk.router
        if router.journal is None:
            return
        outbox = router.broker.shard.outbox
        number = outbox.recorded
        router.turns.insist([Tick()])
        for _ in range(int(JOURNAL_SECONDS / LOOK_SECONDS)):
            if outbox.stored >= number:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def set_level(self, level: str, minutes: float) -> None:
        """Write so much to the log for some time; then what the configuration says."""
        if self._level_until is not None:
            self._level_until.cancel()
        logger.setLevel(level.upper())
        loop = asyncio.get_running_loop()
        self._level_until = loop.call_later(minutes * 60, self._back)

    def _back(self) -> None:
        logger.setLevel(self._desk.latest().log.level.upper())


# Sessions.


async def close_session(desk: Desk, request: Request) -> ActionAnswer:
    """Close a session. Its unconfirmed messages go to others."""
    asked = await desk.actions.asked(request, ActionQuestion)
    number, sessions = session_number(request), desk.router.broker.sessions
    here = sessions.get(number)
    if (here is None or here.is_listed_elsewhere) and (
        found := await desk.elsewhere.session(number)
    ):
        return await _close_elsewhere(desk, request, asked, found.row)
    session = find_session(desk, request)
    if sessions.worker_of(number):
        return await _close_elsewhere(desk, request, asked, desk.sampler.rows.session(session))
    connection = session.traffic
    if not isinstance(connection, Connection):
        raise Refusal(409, "the session is the router's own", "own_session")
    held = desk.sampler.rows.session(session).unconfirmed
    target = _name_of(session, asked)
    if asked.dry_run:
        return _planned("session/close", target, held)

    async def work() -> ActionAnswer:
        reason = shown(asked.reason, REASON_CHARS) or "no reason given"
        connection.close(f"closed by an operator: {reason}", at_once=True)
        return ActionAnswer(action="session/close", target=target, outcome="closed", count=held)

    return await desk.actions.act(request, asked, "session/close", target, work)


async def _close_elsewhere(
    desk: Desk, request: Request, asked: ActionQuestion, row: SessionRow
) -> ActionAnswer:
    """Close a session whose socket another worker has."""
    number = str(row.session)
    target = number if asked.confirm == number else row.name
    if asked.dry_run:
        return _planned("session/close", target, row.unconfirmed)

    async def work() -> ActionAnswer:
        reason = shown(asked.reason, REASON_CHARS) or "no reason given"
        closing = f"closed by an operator: {reason}"
        is_closed = await desk.elsewhere.close(SessionId(row.session), closing)
        outcome = "closed" if is_closed else "not there any more"
        return ActionAnswer(
            action="session/close", target=target, outcome=outcome, count=row.unconfirmed
        )

    return await desk.actions.act(request, asked, "session/close", target, work)


async def trim_session(desk: Desk, request: Request) -> ActionAnswer:
    """Drop the oldest messages of channels that wait for a session, down to its soft limit."""
    asked = await desk.actions.asked(request, ActionQuestion)
    session = find_session(desk, request)
    if session.wire != "resp":
        raise Refusal(
            409, "only messages of channels may be dropped", "not_a_channel", "close it instead"
        )
    target, box = _name_of(session, asked), session.mailbox
    if asked.dry_run:
        return _planned("session/trim", target, max(0, box.bytes - box.budget.mailbox_soft))

    async def work() -> ActionAnswer:
        dropped = box.drop_oldest(box.budget.mailbox_soft)
        if dropped:
            now = desk.router.clock()
            desk.router.announce([MessagesDiscarded(now, session.id, session.name, dropped)])
            desk.router.relieve(session.id)
        return ActionAnswer(
            action="session/trim", target=target, outcome="messages dropped", count=dropped
        )

    return await desk.actions.act(request, asked, "session/trim", target, work)


def _name_of(session: Session, asked: ActionQuestion) -> str:
    """The text that confirms a session: its name, or its number."""
    number = str(session.id)
    return number if asked.confirm == number else short_name(session)


def _planned(
    action: str, target: str, count: int | None, oldest_at: float | None = None
) -> ActionAnswer:
    return ActionAnswer(
        action=action, target=target, outcome="would be done", count=count, oldest_at=oldest_at
    )


# Queues.


async def purge_queue(desk: Desk, request: Request) -> ActionAnswer:
    """Remove the messages of a shared queue."""
    return await _removed(desk, request, "queue/purge", removes=False)


async def delete_queue(desk: Desk, request: Request) -> ActionAnswer:
    """Remove a shared queue with its messages."""
    return await _removed(desk, request, "queue/delete", removes=True)


async def _removed(desk: Desk, request: Request, action: str, *, removes: bool) -> ActionAnswer:
    asked = await desk.actions.asked(request, QueueActionQuestion)
    uri = _uri(asked.queue)
    here = desk.router.broker.shard.shared.queues.get(QueueId(uri.encode()))
    count = None if here is None else here.meter.messages
    if asked.dry_run:
        return _planned(action, uri, count, _oldest(here))
    before = asked.count
    if before is not None and abs((count or 0) - before) > COUNT_CHANGED * max(1, before):
        raise Refusal(
            409,
            f"{some_do(count or 0, 'message', 'is', 'are')} there now",
            "changed",
            "look again, say that count",
        )

    async def work() -> ActionAnswer:
        went = await _purged(desk, uri, removes=removes, forced=asked.forced)
        outcome = "removed" if removes else "messages removed"
        return ActionAnswer(action=action, target=uri, outcome=outcome, count=went)

    return await desk.actions.act(request, asked, action, uri, work)


async def _purged(desk: Desk, uri: str, *, removes: bool, forced: bool) -> int:
    """Empty a queue, or remove it; how many messages went."""
    domain = desk.router.broker.shard.domains.get(name := parse_uri(uri).domain)
    if domain is None or not is_shared(domain):
        raise Refused(f"no domain {name} has shared queues")
    session = InProcessSession(desk.router, "operator")
    try:
        done = await session.ask(Purge, QueueId(uri.encode()), name, removes, forced)
    finally:
        session.close()
    assert isinstance(done, PurgeDone), "a purge that did not fail was done"
    return done.messages


async def look_again(desk: Desk, request: Request) -> ActionAnswer:
    """Have what an app put aside looked at again."""
    asked = await desk.actions.asked(request, QueueActionQuestion)
    uri = _uri(asked.queue)
    queue = desk.router.broker.shard.shared.queues.get(QueueId(uri.encode()))
    app = None if queue is None else queue.apps.get(asked.app or "")
    if app is None:
        raise Refusal(404, "there is no such app in memory", "no_such_app", "see domains")
    count = app.put_aside()
    if asked.dry_run:
        return _planned("app/look-again", uri, count)

    async def work() -> ActionAnswer:
        session = InProcessSession(desk.router, "operator")
        try:
            await session.ask(LookAgain, QueueId(uri.encode()), asked.app or "")
        finally:
            session.close()
        return ActionAnswer(
            action="app/look-again", target=uri, outcome="looked at again", count=count
        )

    return await desk.actions.act(request, asked, "app/look-again", uri, work)


def _uri(queue: str) -> str:
    try:
        return parse_uri(queue).canonical
    except HeadgateError as error:
        raise Refusal(400, str(error), "bad_name", "write bmq://DOMAIN/NAME") from None


def _oldest(queue: SharedQueue | None) -> float | None:
    first = None if queue is None else next(iter(queue.entries.values()), None)
    return None if first is None else first.arrived


# The router.


async def reload(desk: Desk, request: Request) -> ActionAnswer:
    """Read the configuration again, as SIGHUP does."""
    asked = await desk.actions.asked(request, ActionQuestion)
    operating = desk.actions.operating
    if asked.dry_run:
        try:
            changed, later = await operating.compare()
        except HeadgateError as error:
            raise Refusal(409, str(error), "bad_configuration") from None
        return ActionAnswer(
            action="reload",
            target="reload",
            outcome="would be done",
            changed=changed,
            after_restart=later,
        )

    async def work() -> ActionAnswer:
        changed, later = await operating.reload_now()
        return ActionAnswer(
            action="reload",
            target="reload",
            outcome="reloaded",
            changed=changed,
            after_restart=later,
        )

    return await desk.actions.act(request, asked, "reload", "reload", work)


async def drain(desk: Desk, request: Request) -> ActionAnswer:
    """Take no new sessions, and be not ready; those that are here may go on."""
    return await _drained(desk, request, "drain", is_draining=True)


async def undrain(desk: Desk, request: Request) -> ActionAnswer:
    """Take new sessions again."""
    return await _drained(desk, request, "undrain", is_draining=False)


async def _drained(desk: Desk, request: Request, action: str, *, is_draining: bool) -> ActionAnswer:
    asked = await desk.actions.asked(request, ActionQuestion)
    sessions = len(desk.router.broker.sessions)
    if asked.dry_run:
        return _planned(action, action, sessions)

    async def work() -> ActionAnswer:
        desk.actions.operating.drain(is_draining)
        outcome = "draining" if is_draining else "serving"
        return ActionAnswer(action=action, target=action, outcome=outcome, count=sessions)

    return await desk.actions.act(request, asked, action, action, work)


async def log_level(desk: Desk, request: Request) -> ActionAnswer:
    """Write another level to the log for some minutes."""
    asked = await desk.actions.asked(request, LogLevelQuestion)
    if asked.level not in ("debug", "info", "warning", "error"):
        raise Refusal(
            400, "there is no such level", "bad_level", "use debug, info, warning or error"
        )
    if not 0 < asked.minutes <= MINUTES_MAX:
        raise Refusal(400, "minutes are not right", "bad_minutes", f"at most {MINUTES_MAX}")
    if asked.dry_run:
        return _planned("log-level", asked.level, None)

    async def work() -> ActionAnswer:
        desk.actions.set_level(asked.level, asked.minutes)
        outcome = f"{asked.level} for {asked.minutes:g} min"
        return ActionAnswer(action="log-level", target=asked.level, outcome=outcome)

    return await desk.actions.act(request, asked, "log-level", asked.level, work)


async def audit_now(desk: Desk, request: Request) -> ActionAnswer:
    """Count the queues of every service again, beside the router, and hold the tallies against
    that. The result is under audit, and a fact."""
    asked = await desk.actions.asked(request, AuditQuestion)
    services = len(desk.router.broker.shard.exclusive.services.subscribers)
    if asked.dry_run:
        return _planned("audit", "audit", services)
    desk.audits.check_idle()

    async def work() -> ActionAnswer:
        desk.audits.begin(desk.actions.announcing(request, asked, "audit", "audit"))
        return ActionAnswer(action="audit", target="audit", outcome="started", count=services)

    return await desk.actions.act(request, asked, "audit", "audit", work)


ACTIONS = [
    Path("/sessions/{session}/close", close_session, body=ActionQuestion),
    Path("/sessions/{session}/trim", trim_session, body=ActionQuestion),
    Path("/queues/purge", purge_queue, body=QueueActionQuestion),
    Path("/queues/delete", delete_queue, body=QueueActionQuestion),
    Path("/apps/look-again", look_again, body=QueueActionQuestion),
    Path("/reload", reload, body=ActionQuestion),
    Path("/drain", drain, body=ActionQuestion),
    Path("/undrain", undrain, body=ActionQuestion),
    Path("/log-level", log_level, body=LogLevelQuestion),
    Path("/audit", audit_now, body=AuditQuestion),
]
"""The actions of operators."""
