from __future__ import annotations

import pytest

from headgate.core.names import Seq
from headgate.core.steps import Batch, Load
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from tests.conformance.store import (
    Q1,
    OpenStore,
    StoreConformance,
    appending,
    creating,
    record,
    seqs,
    stored,
)


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        async def open_store() -> Store:
            store = MemoryStore()
            assert await store.open() == 0
            return store

        return open_store


async def test_closing_forgets_everything() -> None:
    store = MemoryStore()
    await store.apply(creating(record(Q1)))
    await store.apply(appending(stored(5, Q1)))
    assert await store.open() == 5
    await store.close()
    assert await store.open() == 0
    assert not (await store.load(Load(heads={Q1: 1}))).heads


async def test_its_methods_never_wait() -> None:
    store = MemoryStore()
    for step in (store.open(), store.load(Load(heads={Q1: 1})), store.apply(Batch())):
        with pytest.raises(StopIteration):
            step.send(None)


async def test_a_long_queue_is_emptied_from_its_front() -> None:
    """Asking for the first after each confirm must not walk over what was deleted."""
    store = MemoryStore()
    await store.apply(creating(record(Q1)))
    await store.apply(appending(*(stored(n, Q1) for n in range(1, 30_001))))
    for n in range(1, 30_000):
        await store.apply(Batch(delete={Seq(n)}))
        loaded = await store.load(Load(heads={Q1: 1}))
        assert loaded.heads[Q1].first[0].seq == n + 1
    assert await seqs(store, Q1) == [30_000]
