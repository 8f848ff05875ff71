"""One queue by its name, that nobody has opened since the router started."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.core.commands import Open
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.server.admin.responses import Refusal
from headgate.server.desk.queue_lookup import listed, look_up
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

WORK = {"work": Domain("work", Mode.PRIORITY)}
OTHERS = 150
"""Queues whose names come between two others."""


async def started(store: MemoryStore) -> Router:
    router = Router(store=store, domains=WORK, limits=Limits())
    await router.start()
    return router


async def test_queues_are_found_and_listed_among_names_that_begin_alike() -> None:
    store = MemoryStore()
    before = await started(store)
    session = InProcessSession(before, "maker")
    for name in ("q4", "q5", *(f"q4-{n}" for n in range(OTHERS))):
        await session.ask(Open, QueueId(b"bmq://work/%s" % name.encode()), "work", write=True)
    router = await started(store)
    desk: Any = SimpleNamespace(
        router=router, sampler=SimpleNamespace(busy=0.0), at_work=asyncio.Lock()
    )
    for name in ("q4", "q5", "q4-77"):
        found = await look_up(desk, f"work/{name}")
        assert (found.queue, found.in_memory) == (f"bmq://work/{name}", False)
    with pytest.raises(Refusal, match="work has no queue q6"):
        await look_up(desk, "work/q6")
    names: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await listed(desk, "work", after, 100)
        names += [row.queue.rpartition("/")[2] for row in page.rows]
        after = page.next
    assert names == sorted(["q4", "q5", *(f"q4-{n}" for n in range(OTHERS))])
    desk.sampler.busy = 0.9
    with pytest.raises(Refusal, match="the store has no time"):
        await look_up(desk, "work/q5")
    await router.stop()
    await before.stop()
