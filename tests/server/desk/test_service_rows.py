from __future__ import annotations

from headgate.core import facts as f
from headgate.core.commands import Create, SubscribeService
from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId, ServiceId, SessionId
from headgate.core.model.limits import Limits
from headgate.server.desk.observing import Observers
from headgate.server.desk.service_rows import KEPT, KINDS, ServiceRows
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

SERVICE = ServiceId(b"service-id-of-24-bytes..")


async def test_a_service_is_shown_with_its_queues_and_its_sweep() -> None:
    domains = {"smp": Domain.exclusive("smp")}
    router = Router(store=MemoryStore(), domains=domains, limits=Limits())
    await router.start()
    rows, observers = ServiceRows(router), Observers()
    observers.add(KINDS, rows.take)
    router.watch(observers.observe)
    session = InProcessSession(router, "service")
    await session.ask(Create, QueueId(b"q" * 24), "smp", False, SERVICE)
    await session.ask(SubscribeService, SERVICE)
    await session.ask(Create, QueueId(b"r" * 24), "smp")
    found = rows.answer("queues", 25, 0)
    [row] = found.rows
    assert (row.service, row.session) == (SERVICE[:8].hex(), session.id)
    assert (row.queues_counted, row.drift, row.queues_expected) == (1, "unknown", None)
    assert row.sweep_started is not None
    assert row.sweep_ended is not None
    assert row.swept == row.sweep_total == 1
    assert found.total == 1
    assert found.queues_in_memory == 2
    rows.take(f.ServiceSubscribed(1.0, SERVICE, session.id, 7, "none"))
    rows.take(f.ServiceIdentified(1.0, SERVICE, "messaging"))
    [row] = rows.answer("any", 25, 0).rows
    assert (row.queues_expected, row.sweep_ended, row.role) == (7, None, "messaging")
    await router.stop()


def test_only_so_many_services_are_remembered() -> None:
    rows = ServiceRows(Router(store=MemoryStore(), domains={}, limits=Limits()))
    for number in range(2 * KEPT):
        service = ServiceId(b"%24d" % number)
        rows.take(f.ServiceSubscribed(1.0, service, SessionId(1), 7, "none"))
    assert len(rows._known) == KEPT
