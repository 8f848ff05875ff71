"""The loop that drives a shard: batches, bounds, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headgate.core.commands import Confirm, Create, Send, Subscribe
from headgate.core.domain import Domain, Mode
from headgate.core.effects import Deliver, Receipt
from headgate.core.facts import Fact, TurnFailed
from headgate.core.limits import Limits
from headgate.core.message import Message
from headgate.core.names import MessageId, QueueId
from headgate.core.steps import Batch, Load, Loaded
from headgate.errors import HeadgateError, LimitReached, StoreError
from headgate.server.local import LocalSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

LINE = Domain("line", Mode.EXCLUSIVE, max_messages=None)
QUEUE = QueueId(b"queue")


class SlowStore(MemoryStore):
    """Waits at every apply until it is let go, and fails while told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = False
        self.applied: list[Batch] = []

    async def load(self, load: Load) -> Loaded:
        if self.failing:
            raise StoreError("disk full")
        return await super().load(load)

    async def apply(self, batch: Batch) -> None:
        await self.gate.wait()
        if self.failing:
            raise StoreError("disk full")
        self.applied.append(batch)
        await super().apply(batch)


def message(number: int, size: int = 10) -> Message:
    return Message(MessageId(b"%d" % number), bytes(size), 0.0)


@asynccontextmanager
async def running(store: MemoryStore, limits: Limits | None = None) -> AsyncIterator[Router]:
    router = Router(store=store, domains={"line": LINE}, limits=limits or Limits())
    await router.start()
    try:
        yield router
    finally:
        await router.stop()


async def test_what_arrives_during_a_turn_is_one_batch() -> None:
    store = SlowStore()
    async with running(store) as router:
        session = LocalSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        store.gate.clear()
        first = session.ask(Send, QUEUE, message(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        others = [session.ask(Send, QUEUE, message(n)) for n in range(1, 100)]
        store.gate.set()
        await asyncio.gather(first, *others)
        assert [len(batch.append) for batch in store.applied] == [0, 1, 99]


async def test_a_receipt_is_given_only_after_the_commit() -> None:
    store = SlowStore()
    async with running(store) as router:
        session = LocalSession(router, "s")
        await session.ask(Create, QUEUE, "line", subscribe=True)
        store.gate.clear()
        answer = session.ask(Send, QUEUE, message(1))
        await asyncio.sleep(0.01)
        assert not answer.done()
        assert session.events.empty()
        store.gate.set()
        assert isinstance(await answer, Receipt)
        assert (await session.delivery()).message.id == b"1"


async def test_a_turn_is_capped_by_commands_and_by_bytes() -> None:
    """The limits turn_commands and turn_bytes, at and one above."""
    for limits in (Limits(turn_commands=3), Limits(turn_bytes=30)):
        store = SlowStore()
        async with running(store, limits) as router:
            session = LocalSession(router, "s")
            await session.ask(Create, QUEUE, "line")
            await asyncio.gather(*(session.ask(Send, QUEUE, message(n)) for n in range(7)))
            assert [len(batch.append) for batch in store.applied[1:]] == [3, 3, 1]


async def test_a_turn_checks_a_bounded_number_of_proofs() -> None:
    """The limit turn_proofs: what has nothing to prove is not counted."""
    store = SlowStore()
    async with running(store, Limits(turn_proofs=2)) as router:
        session = LocalSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        proofs = [None, lambda record: None] * 4
        asked = [session.ask(Send, QUEUE, message(n), proof=p) for n, p in enumerate(proofs)]
        await asyncio.gather(*asked)
        assert [len(batch.append) for batch in store.applied[1:]] == [5, 3]


async def test_a_message_larger_than_a_turn_is_a_turn_of_its_own() -> None:
    store = SlowStore()
    async with running(store, Limits(turn_bytes=30)) as router:
        session = LocalSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        sizes = [10, 100, 10]
        sends = (session.ask(Send, QUEUE, message(n, size)) for n, size in enumerate(sizes))
        await asyncio.gather(*sends)
        assert [len(batch.append) for batch in store.applied[1:]] == [1, 1, 1]


async def test_the_inbox_has_a_limit_of_commands_and_of_bytes() -> None:
    """The limits inbox_commands and inbox_bytes, at and one above."""
    for name, limits in (
        ("inbox_commands", Limits(inbox_commands=3)),
        ("inbox_bytes", Limits(inbox_bytes=30)),
    ):
        store = SlowStore()
        async with running(store, limits) as router:
            session = LocalSession(router, "s")
            await session.ask(Create, QUEUE, "line")
            sends = [session.ask(Send, QUEUE, message(n)) for n in range(3)]
            with pytest.raises(LimitReached, match=name):
                session.ask(Send, QUEUE, message(3))
            await asyncio.gather(*sends)


async def test_a_failing_store_fails_the_senders_and_serving_goes_on_when_it_recovers() -> None:
    """S004-36: each request of the batch gets the error."""
    store = SlowStore()
    facts: list[Fact] = []
    async with running(store) as router:
        router.watch(facts.extend)
        session = LocalSession(router, "s")
        await session.ask(Create, QUEUE, "line", subscribe=True)
        store.failing = True
        answers = [session.ask(Send, QUEUE, message(n)) for n in range(3)]
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert all(isinstance(result, StoreError) for result in results)
        assert router.problems() == ["store: disk full"]
        assert any(isinstance(fact, TurnFailed) for fact in facts)
        store.failing = False
        await session.ask(Send, QUEUE, message(7))
        assert (await session.delivery()).message.id == b"7"
        assert router.problems() == []


async def test_a_session_that_left_while_the_store_failed_is_cleaned_up_later() -> None:
    store = SlowStore()
    async with running(store) as router:
        gone, newer = LocalSession(router, "gone"), LocalSession(router, "newer")
        await gone.ask(Create, QUEUE, "line", subscribe=True)
        store.failing = True
        failed = newer.ask(Send, QueueId(b"other"), message(1))
        gone.close(lost=True)
        with pytest.raises(StoreError):
            await failed
        store.failing = False
        await newer.ask(Send, QUEUE, message(2))
        assert len(router.broker.shard.queues.subscribers) == 0
        granted = newer.ask(Subscribe, QUEUE)
        await granted
        assert (await newer.delivery()).message.id == b"2"


async def test_a_mistake_of_ours_costs_only_the_command_it_is_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = SlowStore()
    async with running(store) as router:
        session = LocalSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        handlers = router.broker.shard._handlers
        original = handlers[Send]

        def broken(command: Send, turn: object) -> None:
            if command.message.id == b"1":
                raise ZeroDivisionError("a bug")
            original(command, turn)  # type: ignore[arg-type]

        handlers[Send] = broken
        answers = [session.ask(Send, QUEUE, message(n)) for n in range(3)]
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(result) for result in results] == [Receipt, HeadgateError, Receipt]
        assert "a Send command failed" in caplog.text


async def test_stopping_finishes_what_was_asked_for() -> None:
    store = SlowStore()
    router = Router(store=store, domains={"line": LINE}, limits=Limits())
    await router.start()
    session = LocalSession(router, "s")
    await session.ask(Create, QUEUE, "line")
    answer = session.ask(Send, QUEUE, message(1))
    await router.stop()
    assert isinstance(await answer, Receipt)


async def test_a_confirm_is_answered_with_the_next_message() -> None:
    """S000-34."""
    async with running(MemoryStore()) as router:
        session = LocalSession(router, "s")
        await session.ask(Create, QUEUE, "line", subscribe=True)
        for number in range(2):
            await session.ask(Send, QUEUE, message(number))
        first = await session.delivery()
        answer = await session.ask(Confirm, QUEUE, (first.message.id,))
        assert isinstance(answer, Deliver)
        assert answer.message.id == b"1"
