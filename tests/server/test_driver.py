"""The loop that drives a shard: batches, bounds, failures."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headgate.core.commands import Command, Confirm, Create, Disconnect, Send, Subscribe
from headgate.core.effects import Deliver, Effect, Receipt
from headgate.core.facts import Accepted, Fact, TurnFailed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.turn.inbox import NEAR_COMMANDS
from headgate.core.turn.store_requests import Batch, Load, Loaded, Step
from headgate.core.turn.turn import BREATH_WORK, COMMAND_WORK
from headgate.errors import HeadgateError, LimitReached, StoreError
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore
from headgate.store.ownership import FREE, Ownership, Taken

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
        session = InProcessSession(router, "s")
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
        session = InProcessSession(router, "s")
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
            session = InProcessSession(router, "s")
            await session.ask(Create, QUEUE, "line")
            await asyncio.gather(*(session.ask(Send, QUEUE, message(n)) for n in range(7)))
            assert [len(batch.append) for batch in store.applied[1:]] == [3, 3, 1]


@pytest.mark.parametrize(("is_distant", "largest"), [(False, NEAR_COMMANDS), (True, 2000)])
async def test_a_turn_is_small_where_the_store_is_near(is_distant: bool, largest: int) -> None:
    store = SlowStore()
    store.is_distant = is_distant
    async with running(store, Limits()) as router:
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        await asyncio.gather(*(session.ask(Send, QUEUE, message(n)) for n in range(2000)))
        assert max(len(batch.append) for batch in store.applied) == largest


async def test_a_turn_checks_a_bounded_number_of_proofs() -> None:
    """The limit turn_proofs: what has nothing to prove is not counted."""
    store = SlowStore()
    async with running(store, Limits(turn_proofs=2)) as router:
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        proofs = [None, lambda record: None] * 4
        asked = [session.ask(Send, QUEUE, message(n), proof=p) for n, p in enumerate(proofs)]
        await asyncio.gather(*asked)
        assert [len(batch.append) for batch in store.applied[1:]] == [5, 3]


async def test_a_turn_takes_a_bounded_number_of_confirmations() -> None:
    """The limit turn_confirms: many may be in one command, which is not cut."""
    store = SlowStore()
    async with running(store, Limits(turn_confirms=10)) as router:
        session = InProcessSession(router, "s")
        sizes: list[int] = []
        turn = router.broker.shard.turn

        def counted(commands: Sequence[Command], *times: float) -> Step:
            sizes.append(sum(isinstance(command, Confirm) for command in commands))
            return turn(commands, *times)

        router.broker.shard.turn = counted  # type: ignore[method-assign,assignment]
        ids = [tuple(MessageId(b"%d" % n) for n in range(size)) for size in (4, 6, 1, 30, 2, 2)]
        asked = [session.ask(Confirm, QUEUE, messages) for messages in ids]
        await asyncio.gather(*asked, return_exceptions=True)  # there is no such queue
        assert [size for size in sizes if size] == [2, 1, 1, 2]


async def test_a_message_larger_than_a_turn_is_a_turn_of_its_own() -> None:
    store = SlowStore()
    async with running(store, Limits(turn_bytes=30)) as router:
        session = InProcessSession(router, "s")
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
            session = InProcessSession(router, "s")
            await session.ask(Create, QUEUE, "line")
            await until(lambda: not len(router.turns))
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
        session = InProcessSession(router, "s")
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


async def test_a_failure_is_a_problem_until_a_turn_succeeds() -> None:
    """A turn that is under way has not shown that the store is back."""
    store = SlowStore()
    async with running(store) as router:
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        store.failing = True
        with pytest.raises(StoreError):
            await session.ask(Send, QUEUE, message(0))
        store.failing = False
        store.gate.clear()
        sent = session.ask(Send, QUEUE, message(1))
        await until(lambda: router.turns.under_way > 0)
        assert router.problems() == ["store: disk full"]
        store.gate.set()
        await sent
        await until(lambda: router.problems() == [])


async def test_turns_move_unless_one_hangs() -> None:
    """What systemd's watchdog is fed with."""
    store = SlowStore()
    async with running(store) as router:
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        assert router.turns.has_moved()
        await until(lambda: not router.turns and router.turns.under_way == 0)
        router.turns.has_moved()
        assert router.turns.has_moved(), "nobody waits for a turn"
        store.gate.clear()
        sent = session.ask(Send, QUEUE, message(0))
        await until(lambda: router.turns.under_way > 0)
        router.turns.has_moved()
        assert not router.turns.has_moved()
        store.gate.set()
        await sent
        assert router.turns.has_moved()


async def test_turns_that_fail_move() -> None:
    """A store that answers with an error has not hung; a restart would mend nothing."""
    store = SlowStore()
    async with running(store) as router:
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        router.turns.has_moved()
        store.failing = True
        with pytest.raises(StoreError):
            await session.ask(Send, QUEUE, message(0))
        assert router.turns.has_moved()
        store.failing = False


async def test_a_session_that_left_while_the_store_failed_is_cleaned_up_later() -> None:
    store = SlowStore()
    async with running(store) as router:
        gone, newer = InProcessSession(router, "gone"), InProcessSession(router, "newer")
        await gone.ask(Create, QUEUE, "line", subscribe=True)
        store.failing = True
        failed = newer.ask(Send, QueueId(b"other"), message(1))
        gone.close(lost=True)
        with pytest.raises(StoreError):
            await failed
        store.failing = False
        await newer.ask(Send, QUEUE, message(2))
        assert len(router.broker.shard.exclusive.holders.subscribers) == 0
        granted = newer.ask(Subscribe, QUEUE)
        await granted
        assert (await newer.delivery()).message.id == b"2"


async def test_a_mistake_of_ours_costs_only_the_command_it_is_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = SlowStore()
    async with running(store) as router:
        session = InProcessSession(router, "s")
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
    session = InProcessSession(router, "s")
    await session.ask(Create, QUEUE, "line")
    answer = session.ask(Send, QUEUE, message(1))
    await router.stop()
    assert isinstance(await answer, Receipt)


async def test_a_confirm_is_answered_with_the_next_message() -> None:
    """S000-34."""
    async with running(MemoryStore()) as router:
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line", subscribe=True)
        for number in range(2):
            await session.ask(Send, QUEUE, message(number))
        first = await session.delivery()
        answer = await session.ask(Confirm, QUEUE, (first.message.id,))
        assert isinstance(answer, Deliver)
        assert answer.message.id == b"1"


async def test_a_clean_up_that_meets_a_mistake_of_ours_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a session holds would stay held for ever."""
    monkeypatch.setattr("headgate.server.driver.MISTAKE_SECONDS", 0.01)
    async with running(MemoryStore()) as router:
        gone, other = InProcessSession(router, "gone"), InProcessSession(router, "other")
        await gone.ask(Create, QUEUE, "line", subscribe=True)
        handlers = router.broker.shard._handlers
        original = handlers[Disconnect]
        tries = 0

        def broken(command: Disconnect, turn: object) -> Any:  # noqa: ANN401
            nonlocal tries
            tries += 1
            if tries < 3:
                raise ZeroDivisionError("a bug")
            return original(command, turn)  # type: ignore[arg-type]

        handlers[Disconnect] = broken
        gone.close(lost=True)
        await until(lambda: not router.broker.shard.exclusive.holders.subscribers)
        assert tries == 3
        assert "a Disconnect command failed" in caplog.text
        assert isinstance(await other.ask(Send, QUEUE, message(1)), Receipt)


async def test_who_watches_and_fails_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Neither other watchers nor the turns."""

    def broken(facts: object) -> None:
        raise ZeroDivisionError("a bug")

    seen: list[Fact] = []
    async with running(MemoryStore()) as router:
        router.watch(broken)
        router.watch(seen.extend)
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        assert isinstance(await session.ask(Send, QUEUE, message(1)), Receipt)
        assert any(isinstance(fact, Accepted) for fact in seen)
    assert "facts were not taken" in caplog.text


async def test_a_session_that_fails_to_take_its_effects_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(effects: object) -> None:
        raise ZeroDivisionError("a bug")

    async with running(MemoryStore()) as router:
        bad = router.connect("test", "bad", broken)
        router.submit(bad, [Create(bad, 1, QUEUE, "line", subscribe=True)])
        session = InProcessSession(router, "s")
        assert isinstance(await session.ask(Send, QUEUE, message(1)), Receipt)
    assert "was not taken" in caplog.text


async def test_what_fails_after_the_commit_is_not_carried_out_twice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = SlowStore()
    async with running(store) as router:
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        shard = router.broker.shard
        original = shard.statistics.observe

        def broken(facts: object) -> None:
            monkeypatch.setattr(shard.statistics, "observe", original)
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(shard.statistics, "observe", broken)
        assert isinstance(await session.ask(Send, QUEUE, message(1)), Receipt)
        assert [len(batch.append) for batch in store.applied] == [0, 1]
    assert "committed and then failed" in caplog.text


async def test_others_are_served_while_a_turn_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commands of a turn, and while its results are handed out."""
    monkeypatch.setattr("headgate.server.driver.SLICE_SECONDS", 0.0)
    store = SlowStore()
    store.is_distant = True
    async with running(store) as router:
        sessions = [InProcessSession(router, str(number)) for number in range(50)]
        await sessions[0].ask(Create, QUEUE, "line")
        asked = [session.ask(Send, QUEUE, message(n)) for n, session in enumerate(sessions * 20, 1)]
        served = 0

        async def innocent() -> None:
            nonlocal served
            while not asked[-1].done():
                served += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(innocent())
        await asyncio.gather(*asked)
        await task
        assert [len(batch.append) for batch in store.applied[1:]] == [1000]
        assert served >= 1000 * COMMAND_WORK // BREATH_WORK + len(sessions) - 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class ContestedStore(SlowStore):
    """One that another router may have taken; it hears us while nothing else is said."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.ours, self.theirs = socket.socketpair()
        self.ownership = Ownership(3.0, lambda: self.now)
        self.ownership.taken = Taken("me", 1, FREE, "", 0.0, mark=0, expected=0, sealed=0)
        self.ownership.heard = self.now
        self.ownership.socket = self.ours.fileno()
        self.is_taken = False

    async def current_term(self) -> int | None:
        return None

    async def probe(self) -> None:
        if self.is_taken:
            self.ownership.lost = "taken"
            raise StoreError("taken")
        self.ownership.heard = self.now


@asynccontextmanager
async def contested() -> AsyncIterator[tuple[ContestedStore, Router, list[str]]]:
    store, lost = ContestedStore(), list[str]()
    router = Router(store=store, domains={"line": LINE}, limits=Limits(), lost=lost.append)
    await router.start()
    try:
        yield store, router, lost
    finally:
        store.ours.close()
        store.theirs.close()
        router.abandon()
        await asyncio.sleep(0)


async def test_what_a_turn_has_read_from_memory_is_told_to_nobody_if_the_store_is_another_s() -> (
    None
):
    """A process that was stopped, and goes on."""
    async with contested() as (store, router, lost):
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line", subscribe=True)
        applied = len(store.applied)
        store.is_taken = True
        store.now += 3.0
        answer = session.ask(Subscribe, QUEUE)
        while not lost:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert len(store.applied) == applied, "it wrote nothing"
        assert not answer.done()
        answer.cancel()


async def test_what_waited_for_the_store_to_answer_is_told_if_it_is_still_ours() -> None:
    async with contested() as (store, router, lost):
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line", subscribe=True)
        store.now += 3.0
        await session.ask(Subscribe, QUEUE)
        assert store.ownership.heard == store.now
        assert lost == []


async def test_a_turn_that_failed_is_told_at_once_unless_the_store_is_another_s() -> None:
    async with contested() as (store, router, lost):
        session = InProcessSession(router, "s")
        await session.ask(Create, QUEUE, "line")
        store.failing = True
        store.now += 3.0
        with pytest.raises(StoreError, match="disk full"):
            await session.ask(Send, QUEUE, message(1))
        store.ownership.lost = "taken"
        answer = session.ask(Send, QUEUE, message(1))
        while not lost:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not answer.done()
        answer.cancel()


async def test_what_is_left_of_a_turn_is_told_to_nobody_if_the_process_was_stopped_in_between() -> (
    None
):
    async with contested() as (store, router, lost):
        sessions = [InProcessSession(router, "s") for _ in range(3)]
        queues = [QueueId(b"%d" % n) for n in range(3)]
        for session, queue in zip(sessions, queues, strict=True):
            await session.ask(Create, queue, "line")
        first = sessions[0].id
        outlet = router._outlets[first]

        def stopped(effects: Sequence[Effect]) -> None:
            """The process stops while the first of them is answered."""
            outlet(effects)
            store.is_taken = True
            store.now += 3.0

        router._outlets[first] = stopped
        answers = [s.ask(Send, q, message(1)) for s, q in zip(sessions, queues, strict=True)]
        while not lost:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert [answer.done() for answer in answers] == [True, False, False]
        for answer in answers[1:]:
            answer.cancel()
