from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headgate.core.commands import Interest, Open, Send
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.expr.predicate import Failure
from headgate.server.admin.metrics import SECONDS, Metrics
from headgate.server.desk import rows, sampler
from headgate.server.desk.sampler import Sampler, quantile
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    domains = {"orders": Domain("orders", Mode.PRIORITY, max_queues=0)}
    made = Router(store=MemoryStore(), domains=domains, limits=Limits())
    await made.start()
    yield made
    await made.stop()


def sampler_of(router: Router) -> Sampler:
    metrics = Metrics()
    router.watch(metrics.observe)
    return Sampler(router, metrics, version="1", stage=str, recent=10)


async def ticks(sampling: Sampler) -> AsyncIterator[Any]:
    async for tick in sampling.viewers.stream():
        for line in tick.split(b"\n"):
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


async def test_a_sample_has_the_numbers_of_the_second(router: Router) -> None:
    sampling = sampler_of(router)
    looking = ticks(sampling)
    first = asyncio.ensure_future(anext(looking))
    await asyncio.sleep(0)
    sampling.sample()
    session = InProcessSession(router, "shop")
    queue = QueueId(b"bmq://orders/q")
    await session.ask(Open, queue, "orders", write=True)
    await session.ask(
        Send, queue, Message(MessageId(b"m" * 16), b"x", router.clock(), {"kind": "a"})
    )
    sampling.sample(late=0.25)
    tick = await first
    point = tick["point"]
    assert point["sessions"] == 1
    assert point["accepted"] > 0
    assert point["turns"] > 0
    assert point["loop_lag"] == 0.25
    assert point["memory"] > 1e6
    assert point["backlog_messages"] == 1
    [app] = tick["apps"]
    assert (app["queue"], app["consumers"]) == ("bmq://orders/q", 1)
    assert [each.properties for each in sampling.recent.of("orders")] == [{"kind": "a"}]
    await looking.aclose()  # type: ignore[attr-defined]


async def test_without_viewers_only_the_history_is_fed(router: Router) -> None:
    sampling = sampler_of(router)
    for _ in range(3):
        sampling.sample()
    assert sampling.viewers.last == b""
    assert len(sampling.history.columns(["sessions"], 60)["at"]) == 2


async def test_the_first_sample_has_what_came_since_the_start(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "SAMPLE_SECONDS", 0.01)
    sampling = sampler_of(router)
    async with sampling.running():
        looking = ticks(sampling)
        first = asyncio.ensure_future(anext(looking))
        await asyncio.sleep(0)
        InProcessSession(router, "shop")
        assert (await first)["point"]["opened"] > 0
        await looking.aclose()  # type: ignore[attr-defined]


async def test_who_does_not_keep_up_is_shown_by_name(router: Router) -> None:
    sampling = sampler_of(router)
    for name in ("one", "report-builder", "three"):
        InProcessSession(router, name)
    [slow] = [s for s in router.broker.sessions if s.name == "report-builder"]
    slow.mailbox.offer(b"", router.limits.mailbox_bytes_hard + 1, router.clock())
    [other] = [s for s in router.broker.sessions if s.name == "three"]
    router.broker.waiting.wait(other.id, slow.id, router.broker.budget)
    first, second = sampling.rows.in_trouble(8)
    assert (first.name, first.pressure, first.held_up) == ("report-builder", "hard", 1)
    assert second.waits_for is not None
    assert (second.name, second.waits_for.name) == ("three", "report-builder")


async def test_of_very_many_apps_that_are_behind_the_largest_are_found(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "BEHIND_SEEN", 10)
    sampling = sampler_of(router)
    session = InProcessSession(router, "shop")
    for number in range(50):
        queue = QueueId(b"bmq://orders/%d" % number)
        await session.ask(Open, queue, "orders", read=False, write=True)
        for each in range(1 + number % 7):
            message = Message(MessageId(b"%16d" % (100 * number + each)), b"x", router.clock())
            await session.ask(Send, queue, message)
    for _ in range(10):
        found = sampling.rows.behind(8)
    assert [row.in_line for row in found] == [7] * 7 + [6]


async def test_a_sample_that_fails_is_not_the_last(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "SAMPLE_SECONDS", 0.001)
    sampling = sampler_of(router)
    taken = asyncio.Event()
    calls = 0

    def sample(late: float) -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise RuntimeError("a mistake")
        taken.set()

    monkeypatch.setattr(sampling, "sample", sample)
    async with sampling.running(), asyncio.timeout(30):
        await taken.wait()
    assert sampling.viewers.is_over


def test_a_part_of_the_confirms_took_so_long() -> None:
    counts = [0] * (len(SECONDS) + 1)
    assert quantile(counts, 0.5) == 0.0
    counts[0] = 100
    assert quantile(counts, 0.5) == pytest.approx(0.0005)
    counts[-1] = 100
    assert quantile(counts, 0.99) > SECONDS[-1]


async def test_an_expression_that_cannot_be_decided_is_found(router: Router) -> None:
    sampling = sampler_of(router)
    session = InProcessSession(router, "shop")
    queue = QueueId(b"bmq://orders/q")
    wanted = Interest("kind == EXPRESS")
    await session.ask(Open, queue, "orders", write=True, interests=(wanted,))
    message = Message(MessageId(b"m" * 16), b"x", router.clock(), {"kind": "EXPRESS"})
    await session.ask(Send, queue, message)
    [group] = router.broker.shard.shared.queues[queue].apps[""].groups
    group.stats.sampled, group.stats.failures[Failure.NAME] = 20, 19
    group.stats.missing["EXPRESS"] = 19
    sampling.rows.behind(8)
    [found] = sampling.rows.undecided()
    assert (found.expression, found.share) == ("kind == EXPRESS", 0.95)
    assert found.reason == "NAME: the message lacks EXPRESS"
    group.stats.matched = 1
    assert sampling.rows.undecided() == []
