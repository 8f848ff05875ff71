from __future__ import annotations

import pytest

from headgate.core.model.ids import Seq
from headgate.core.turn.store_requests import Aged, Batch, Load, Loaded, ServiceRecord
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from tests.conformance.store import (
    F1,
    FOREVER,
    Q1,
    S1,
    OpenStore,
    StoreConformance,
    appending,
    creating,
    of_sender,
    parties,
    record,
    seqs,
    shared,
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
    known = ServiceRecord(S1, "r")
    await store.apply(Batch(create={Q1: shared(Q1, parties(b"s"))}, identities={F1: known}))
    await store.apply(appending(stored(5, Q1)))
    assert await store.open() == 5
    await store.close()
    assert await store.open() == 0
    loaded = await store.load(
        Load(
            heads={Q1: 1},
            addresses={of_sender(b"s"): 1},
            identities={F1},
            aged=Aged(Seq(0), FOREVER, 1),
        )
    )
    assert loaded == Loaded()


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
