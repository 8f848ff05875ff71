"""Questions to a store that answers, fails, or does not say anything."""

from __future__ import annotations

import asyncio

from headgate.errors import StoreError
from headgate.server import store_health as module
from headgate.server.store_health import StoreHealth


class Store:
    """Answers when it is let to, and counts the questions."""

    def __init__(self) -> None:
        self.questions = 0
        self.failure: StoreError | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.now = 100.0

    async def probe(self) -> None:
        self.questions += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure

    def clock(self) -> float:
        return self.now


async def test_a_store_that_answers_is_no_problem() -> None:
    store = Store()
    pulse = StoreHealth(store.probe, store.clock)
    await pulse.ask()
    assert pulse.problem is None


async def test_a_store_that_fails_is_a_problem_until_it_answers() -> None:
    store = Store()
    pulse = StoreHealth(store.probe, store.clock)
    store.failure = StoreError("it is gone")
    await pulse.ask()
    assert pulse.problem == "it is gone"
    store.failure = None
    await pulse.ask()
    assert pulse.problem is None


async def test_a_store_that_says_nothing_is_asked_once_and_its_silence_is_told() -> None:
    store = Store()
    pulse = StoreHealth(store.probe, store.clock)
    module_seconds, module.PROBE_SECONDS = module.PROBE_SECONDS, 0.0
    store.gate.clear()
    running = asyncio.create_task(pulse.run())
    try:
        for _ in range(50):
            await asyncio.sleep(0)
        assert store.questions == 1
        assert pulse.problem is None
        store.now += module.SILENCE_SECONDS
        assert pulse.problem == "it has not answered for 5 s"
        store.gate.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert pulse.problem is None
        assert store.questions > 1
    finally:
        module.PROBE_SECONDS = module_seconds
        running.cancel()
