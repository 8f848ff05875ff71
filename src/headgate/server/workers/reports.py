"""Reports of all workers to worker 0: gauges, sessions in trouble, and lists of sessions.

Each worker reports once a second the numbers for gauges and alarms, whose size does not grow with
its sessions. Lists are requested when somebody looks. Worker 0 has the SMP and BlazingMQ sessions
itself; reports are about those of Redis clients.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from typing import Any

import msgspec

from headgate.core.model.ids import SessionId
from headgate.server.admin.pages import Page, Table, in_slices
from headgate.server.desk.answers import SessionAnswer, SessionRow
from headgate.server.desk.asking import shown
from headgate.server.desk.elsewhere import Elsewhere, FoundSessions, SessionQuestion
from headgate.server.desk.kept import KeptFacts
from headgate.server.desk.routes.sessions import found_sessions
from headgate.server.desk.rows import Rows
from headgate.server.desk.sampler import resident_bytes
from headgate.server.net.connection import Connection
from headgate.server.router import Router
from headgate.server.status import channel_gauges, closed_table, session_table
from headgate.wire.resp.workers.link_session import LinkSession
from headgate.wire.resp.workers.relay import Relay

REDIS = "resp"
"""The wire whose sessions worker 0 does not know."""
IN_TROUBLE = 8
HELD_UP = 100
"""Sessions in a report that block a worker's sessions, those that block most first."""
ANSWER_SECONDS = 1.0
"""Seconds after which a worker that has not answered is left out of a list."""
SUMMED = (
    "sessions",
    "sessions_slow",
    "publishers_waiting",
    "mailbox_bytes",
    "channel_messages",
    "channel_deliveries",
)
"""Gauges of the router that are sums over its workers."""
COUNTED = ("channel_messages", "channel_deliveries")
"""Figures among them that only grow, also across restarts of a worker."""

REPORT, SESSIONS, SESSION, ROWS, CLOSE = b"report", b"sessions", b"session", b"rows", b"close"
TABLES: Mapping[str, Callable[[Router], Table[Any]]] = {
    "sessions": lambda router: session_table(router.broker, REDIS),
    "closed": lambda router: closed_table(router.broker),
}
"""Lists of the status."""

encode = msgspec.msgpack.encode
decode = msgspec.msgpack.decode


class WorkerReport(msgspec.Struct, array_like=True):
    """The report of one worker."""

    worker: int
    start: int
    gauges: dict[str, float]
    """Gauges of the worker, by the names that `metrics.py` describes."""
    added: dict[str, float]
    """Parts of the router's gauges that worker 0 does not know."""
    in_trouble: list[SessionRow]
    held_up: list[tuple[int, int]]
    """Sessions that block others here, and how many."""


def worker_gauges(router: Router) -> dict[str, float]:
    """The gauges of the worker that this process is."""
    sessions, budget = router.broker.sessions, router.broker.budget
    return {
        "clients": len(sessions) - sessions.elsewhere,
        "sessions_slow": len(budget.slow),
        "publishers_waiting": len(router.broker.waiting),
        "mailbox_bytes": budget.bytes,
        "resident_bytes": resident_bytes(),
        "cpu_seconds": time.process_time(),
    }


def added_gauges(router: Router) -> dict[str, float]:
    """The parts of worker 0's gauges for sessions that it does not have."""
    broker = router.broker
    channels = channel_gauges(broker)
    return {
        "sessions": broker.sessions.counts[REDIS],
        "sessions_slow": len(broker.channel_budget.slow),
        "publishers_waiting": len(broker.waiting),
        "mailbox_bytes": broker.channel_budget.bytes,
        **{name: channels[name] for name in COUNTED},
    }


class Reporting:
    """A worker's end: it reports, and answers requests of worker 0. Owned by the service."""

    def __init__(self, router: Router, relay: Relay) -> None:
        self._router = router
        self._relay = relay
        self._rows = Rows(router)
        self._tasks: set[asyncio.Task[None]] = set()
        relay.questions.handlers.update(
            {
                SESSIONS: self._sessions,
                SESSION: self._session,
                ROWS: self._table_rows,
                CLOSE: self._close,
            }
        )

    def report(self) -> None:
        """Report to worker 0, if it is there. Called once a second."""
        waiting = self._router.broker.waiting
        held_up = [(id, waiting.held_up(id)) for id in waiting.blockers()]
        rows = self._rows.in_trouble(IN_TROUBLE)
        report = WorkerReport(
            self._relay.number,
            self._relay.start,
            worker_gauges(self._router),
            added_gauges(self._router),
            [row for row in rows if row.wire == REDIS],
            nlargest(HELD_UP, held_up, key=lambda each: each[1]),
        )
        self._relay.questions.ask(
            self._relay.home_links(), (REPORT, encode(report)), lambda answers: None
        )

    def _sessions(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        asked = decode(words[0], type=SessionQuestion)
        finding = found_sessions(self._router, self._rows, asked, known=REDIS)
        self._answer(in_slices(finding), reply)

    def _table_rows(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        name, most, sort = decode(words[0], type=tuple[str, int, str | None])
        self._answer(TABLES[name](self._router).paged(0, most, sort), reply)

    def _answer(self, work: Any, reply: Callable[[bytes], None]) -> None:  # noqa: ANN401
        """Reply with the result of the work, in slices."""

        async def done() -> None:
            reply(encode(await work))

        task = asyncio.create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _session(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        session = self._router.broker.sessions.get(SessionId(int(words[0])))
        reply(b"" if session is None else encode(self._rows.session_page(session, KeptFacts())))

    def _close(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        session = self._router.broker.sessions.get(SessionId(int(words[0])))
        connection = None if session is None else session.traffic
        if isinstance(connection, Connection):
            connection.close(words[1].decode(), at_once=True)
        reply(b"1" if isinstance(connection, Connection) else b"")


class Reports(Elsewhere):
    """The end of worker 0: the last reports of the others, and requests to them. Owned by its
    service; empty before the worker is linked."""

    def __init__(self) -> None:
        self._relay: Relay | None = None
        self._reports: dict[int, WorkerReport] = {}
        self._before: Counter[str] = Counter()
        """Counts of workers that were started again since."""

    def attach(self, relay: Relay) -> None:
        self._relay = relay
        relay.questions.handlers[REPORT] = self._take

    def _take(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        report = decode(words[0], type=WorkerReport)
        known = self._reports.get(report.worker)
        if known is not None and known.start != report.start:
            self._before.update({name: int(known.added[name]) for name in COUNTED})
        self._reports[report.worker] = report
        reply(b"")

    def _links(self) -> dict[int, LinkSession]:
        return {} if self._relay is None else self._relay.links

    def _alive(self) -> Iterable[WorkerReport]:
        links = self._links()
        return (report for worker, report in self._reports.items() if worker in links)

    # Numbers.

    def summed(self, gauges: dict[str, float]) -> dict[str, float]:
        """The gauges of the router: those of worker 0 plus the parts of the others."""
        found = dict(gauges)
        for name in SUMMED:
            # The counts of a worker that is gone stay included.
            reports = self._reports.values() if name in COUNTED else self._alive()
            found[name] += self._before[name] + sum(each.added[name] for each in reports)
        return found

    def gauges(self) -> dict[int, dict[str, float]]:
        """The gauges of each of the others, by number."""
        return {each.worker: each.gauges for each in self._alive()}

    # Requests of the desk.

    def in_trouble(self) -> Sequence[SessionRow]:
        return [row for each in self._alive() for row in each.in_trouble]

    def held_up(self, session: SessionId) -> int:
        return sum(n for each in self._alive() for id, n in each.held_up if id == session)

    def name_of(self, session: SessionId) -> str:
        return next((row.name for row in self.in_trouble() if row.session == session), "")

    async def sessions(self, asked: SessionQuestion) -> list[FoundSessions]:
        answers = await self._ask((SESSIONS, encode(asked)))
        return [decode(each, type=FoundSessions) for each in answers]

    async def session(self, session: SessionId) -> SessionAnswer | None:
        answers = await self._ask((SESSION, b"%d" % session), session)
        return decode(answers[0], type=SessionAnswer) if any(answers) else None

    async def close(self, session: SessionId, reason: str) -> bool:
        return any(await self._ask((CLOSE, b"%d" % session, shown(reason).encode()), session))

    async def rows(self, name: str, most: int, sort: str | None) -> list[Page]:
        """The first rows of a list of the status, of each of the others."""
        answers = await self._ask((ROWS, encode((name, most, sort))))
        return [Page(*decode(each, type=tuple[list[dict[str, object]], int])) for each in answers]

    async def _ask(self, words: Sequence[bytes], session: SessionId | None = None) -> list[bytes]:
        """The answers that come in time: of all workers, or of the one with a session."""
        relay = self._relay
        if relay is None:
            return []
        # A worker that is being started does not answer yet.
        asked = [link for link in self._links().values() if link.is_synced]
        if session is not None:
            worker = relay.hub.broker.sessions.worker_of(session)
            asked = [link for link in asked if link.worker == worker]
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[dict[int, bytes]]] = []
        for link in asked:
            answered = loop.create_future()
            relay.questions.ask([link], words, partial(_settle, answered))
            waiting.append(answered)
        if waiting:
            await asyncio.wait(waiting, timeout=ANSWER_SECONDS)
        return [content for each in waiting if each.done() for content in each.result().values()]


def _settle(answered: asyncio.Future[dict[int, bytes]], answers: dict[int, bytes]) -> None:
    if not answered.done():
        answered.set_result(answers)
