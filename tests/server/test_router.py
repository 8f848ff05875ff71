"""Sessions of the router, and what it says about itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.commands import Confirm, Create, Interest, Open, Send
from headgate.core.effects import Effect, GoOn
from headgate.core.facts import Expired, Fact, SessionClosed
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.turn.store_requests import Batch
from headgate.errors import LimitReached, StoreError
from headgate.server import router as router_module
from headgate.server import store_health as pulse_module
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore

LINE = Domain("line", Mode.EXCLUSIVE)
WORK = Domain("work", Mode.PRIORITY, message_ttl=10.0)
QUEUE, JOBS = QueueId(b"queue"), QueueId(b"bmq://work/jobs")


def make(limits: Limits | None = None, **options: object) -> Router:
    domains = {"line": LINE, "work": WORK}
    return Router(store=MemoryStore(), domains=domains, limits=limits or Limits(), **options)  # type: ignore[arg-type]


async def test_a_router_that_was_not_started_is_not_ready() -> None:
    router = make()
    assert router.problems() == ["not started"]
    await router.stop()


async def test_sessions_have_a_limit() -> None:
    """The limit sessions, at and one above."""
    router = make(Limits(sessions=2))
    facts: list[Fact] = []
    router.watch(facts.extend)
    await router.start()
    InProcessSession(router, "a")
    second = InProcessSession(router, "b")
    with pytest.raises(LimitReached, match="sessions"):
        InProcessSession(router, "c")
    assert [(f.name, f.limit) for f in facts if isinstance(f, LimitReachedFact)] == [
        ("sessions", 2)
    ]
    second.close()
    InProcessSession(router, "c")
    await router.stop()


async def test_the_tick_finds_who_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that somebody raised and told nobody of: nothing left a mailbox."""
    monkeypatch.setattr(router_module, "TICK_SECONDS", 0.01)
    router = make(Limits(mailbox_bytes_soft=10, mailbox_bytes_hard=20))
    await router.start()
    told: asyncio.Queue[Sequence[Effect]] = asyncio.Queue()
    slow = router.connect("resp", "slow", lambda effects: None)
    publisher = router.connect("resp", "publisher", told.put_nowait)
    broker = router.broker
    session = broker.sessions.get(slow)
    assert session is not None
    session.mailbox.offer("m", 21, 0.0)
    broker.waiting.wait(publisher, slow, broker.budget)
    broker.budget.mailbox_hard = 30
    async with asyncio.timeout(20):
        assert await told.get() == [GoOn(publisher)]
    await router.stop()


async def test_the_reason_of_a_close_stays_visible() -> None:
    router = make()
    facts: list[Fact] = []
    router.watch(facts.extend)
    await router.start()
    session = InProcessSession(router, "phone")
    session.close(lost=True)
    session.close()
    await router.stop()
    [closed] = [fact for fact in facts if isinstance(fact, SessionClosed)]
    assert (closed.name, closed.reason) == ("phone", "lost")
    shown = router.status()["closed"]
    assert isinstance(shown, list)
    assert shown[0]["reason"] == "lost"


async def test_status_and_gauges_are_plain_data_that_add_up() -> None:
    router = make()
    await router.start()
    session = InProcessSession(router, "phone")
    await session.ask(Create, QUEUE, "line", subscribe=True)
    await session.ask(Send, QUEUE, Message(MessageId(b"1"), b"hi", 0.0))
    await session.ask(Open, JOBS, "work", write=True, interests=(Interest("x == 1"),))
    for number in (1, 2):
        body = Message(MessageId(b"j%d" % number), b"job", router.clock(), {"x": number})
        await session.ask(Send, JOBS, body)
    gauges = router.gauges()
    assert gauges["sessions"] == 1
    assert gauges["queues_subscribed"] == 1
    assert gauges["deliveries_unconfirmed"] == 2
    assert gauges["backlog_messages"] == 2
    status = json.loads(json.dumps(router.status()))
    assert status["sessions"][0]["name"] == "phone"
    [queue] = status["queues"]
    assert queue["queue"] == "bmq://work/jobs"
    assert queue["counts"] == {"accepted": 2, "delivered": 1, "put_aside": 1}
    [app] = queue["apps"]
    assert app["put_aside"] == 1
    assert (app["looked_at"], app["expressions"]) == (2, 1)
    [group] = app["groups"]
    assert (group["expression"], group["matched"], group["missed"]) == ("x == 1", 1, 1)
    assert (group["in_flight"], group["undecided"]["sampled"]) == (1, 0)
    assert {domain["domain"] for domain in status["domains"]} == {"line", "work"}
    await router.stop()


async def test_time_passes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "TICK_SECONDS", 0.001)
    now = 1000.0
    router = make(clock=lambda: now)
    expired = asyncio.Event()

    def watch(facts: list[Fact]) -> None:
        if any(isinstance(fact, Expired) for fact in facts):
            expired.set()

    router.watch(watch)  # type: ignore[arg-type]
    await router.start()
    session = InProcessSession(router, "s")
    await session.ask(Open, JOBS, "work", read=False, write=True)
    await session.ask(Send, JOBS, Message(MessageId(b"1"), b"", now))
    now += 11
    async with asyncio.timeout(20):
        await expired.wait()
    await router.stop()


class DeafStore(MemoryStore):
    """Does not answer while it is told not to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: StoreError | None = None

    async def apply(self, batch: Batch) -> None:
        await self.gate.wait()
        await super().apply(batch)

    async def probe(self) -> None:
        if self.failure is not None:
            raise self.failure


async def test_a_turn_that_does_not_end_is_a_problem() -> None:
    now, store = [1000.0], DeafStore()
    router = Router(store=store, domains={"line": LINE}, limits=Limits(), clock=lambda: now[0])
    await router.start()
    session = InProcessSession(router, "s")
    store.gate.clear()
    asked = session.ask(Create, QUEUE, "line")
    await asyncio.sleep(0.01)
    assert router.problems() == []
    now[0] += router_module.TURN_SECONDS
    assert router.problems() == ["turns: one has been under way for 5 s"]
    store.gate.set()
    await asked
    assert router.problems() == []
    await router.stop()


async def test_a_router_without_turns_knows_that_its_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulse_module, "PROBE_SECONDS", 0.01)
    store = DeafStore()
    router = Router(store=store, domains={"line": LINE}, limits=Limits())
    await router.start()
    store.failure = StoreError("it is gone")
    async with asyncio.timeout(20):
        while router.problems() != ["store: it is gone"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        store.failure = None
        while router.problems():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await router.stop()


async def test_new_settings_of_a_domain_hold_without_a_restart() -> None:
    router = make()
    await router.start()
    session = InProcessSession(router, "s")
    await session.ask(Open, JOBS, "work", read=False, write=True)
    router.reconfigure({"work": Domain("work", Mode.PRIORITY, max_messages=1)})
    await session.ask(Send, JOBS, Message(MessageId(b"1"), b"", router.clock()))
    with pytest.raises(Exception, match="limit of 1 messages"):
        await session.ask(Send, JOBS, Message(MessageId(b"2"), b"", router.clock()))
    await router.stop()


async def test_answers_to_a_session_that_gave_up_waiting_go_nowhere() -> None:
    router = make()
    await router.start()
    session = InProcessSession(router, "s")
    answer = session.ask(Create, QUEUE, "line")
    answer.cancel()
    await session.ask(Create, QueueId(b"other"), "line")
    with pytest.raises(Exception, match="no message"):
        await session.ask(Confirm, QUEUE, (MessageId(b"x"),))
    session.close()
    await router.stop()


async def test_the_inbox_tells_its_limit_as_a_fact() -> None:
    router = make(Limits(inbox_commands=1))
    facts: list[Fact] = []
    router.watch(facts.extend)
    await router.start()
    session = InProcessSession(router, "s")
    first = session.ask(Create, QUEUE, "line")
    with pytest.raises(LimitReached):
        session.ask(Create, QueueId(b"other"), "line")
    await first
    reached = [fact for fact in facts if isinstance(fact, LimitReachedFact)]
    assert [(fact.name, fact.session) for fact in reached] == [
        ("inbox_commands", session.id),
    ]
    await router.stop()


async def test_a_full_disk_fails_the_senders_until_there_is_room(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "q.db")
    router = Router(store=store, domains={"line": LINE}, limits=Limits())
    await router.start()
    session = InProcessSession(router, "s")
    await session.ask(Create, QUEUE, "line", subscribe=True)

    async def pages(most: int) -> None:
        await store._run(lambda: store._file.all(f"PRAGMA max_page_count = {most}"))

    await pages(1)
    refused = [
        session.ask(Send, QUEUE, Message(MessageId(b"%d" % n), bytes(10_000), 0.0))
        for n in range(3)
    ]
    results = await asyncio.gather(*refused, return_exceptions=True)
    assert [type(result) for result in results] == [StoreError] * 3
    assert "full" in router.problems()[0]
    await pages(10**6)
    await session.ask(Send, QUEUE, Message(MessageId(b"last"), bytes(10_000), 0.0))
    assert (await session.delivery()).message.id == b"last"
    assert router.problems() == []
    await router.stop()


async def test_what_grew_old_in_a_queue_that_nobody_opens_makes_room_after_a_restart(
    tmp_path: Path,
) -> None:
    """BMQ-83, BMQ-87, S003-17: nobody has to open the queue for it."""
    domains = {"work": replace(WORK, domain_max_messages=1)}
    now = [1000.0]

    def start() -> Router:
        return Router(
            store=SqliteStore(tmp_path / "q.db"),
            domains=domains,
            limits=Limits(),
            clock=lambda: now[0],
        )

    async def post(router: Router, queue: QueueId) -> None:
        session = InProcessSession(router, "writer")
        await session.ask(Open, queue, "work", read=False, write=True)
        message = Message(MessageId(queue), b"body", router.clock())
        await asyncio.wait_for(session.ask(Send, queue, message), 20)

    router = start()
    await router.start()
    await post(router, JOBS)
    await router.stop()
    now[0] += 11
    router = start()
    expired = asyncio.Event()

    def look(facts: Sequence[Fact]) -> None:
        if any(isinstance(fact, Expired) for fact in facts):
            expired.set()

    router.watch(look)
    await router.start()
    await asyncio.wait_for(expired.wait(), 20)
    await post(router, QueueId(b"bmq://work/other"))
    await router.stop()


async def test_what_is_stored_is_counted_before_anybody_uses_it(tmp_path: Path) -> None:
    """An operator who looks after a restart sees the backlog, not an empty router."""

    async def started() -> Router:
        router = Router(
            store=SqliteStore(tmp_path / "q.db"), domains={"work": WORK}, limits=Limits()
        )
        await router.start()
        return router

    router = await started()
    session = InProcessSession(router, "writer")
    await session.ask(Open, JOBS, "work", read=False, write=True)
    message = Message(MessageId(b"1"), b"body", router.clock())
    await asyncio.wait_for(session.ask(Send, JOBS, message), 20)
    await router.stop()
    router = await started()
    async with asyncio.timeout(20):
        while not router.gauges()["backlog_messages"]:  # noqa: ASYNC110  there is no event
            await asyncio.sleep(0.005)
    await router.stop()
