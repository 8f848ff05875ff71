"""Effects of the engine that change the records."""

from __future__ import annotations

from headgate.agent.engine import effects as e
from headgate.agent.model import RouterId, UserId
from headgate.agent.record_line import RecordLine
from headgate.agent.records import Database, receive_queues, services
from headgate.core.model.ids import ServiceId


def store(line: RecordLine[Database], effect: e.Effect) -> bool:
    """Store the change of an effect, in its place; return whether it has one."""
    match effect:
        case e.SetAssociated(user, router, queues, associated):
            line.write(services.associate, user, router, queues, on=associated)
        case e.ClearAssociations(user, router):
            line.write(services.clear, user, router)
        case e.StoreServiceId(user, router, service, clear):
            line.write(store_service_id, user, router, service, clear)
        case e.DeleteService(user, router):
            # S001-79, S001-84: record and flags in one transaction.
            line.write(services.remove, user, router)
        case e.RemoveQueue(router, queue):
            line.write(receive_queues.delete, (router, queue))
        case e.StoreNewQueue(user, router, queue, _, associated):
            # Its maker has stored it, with its keys.
            if associated:
                line.write(services.associate, user, router, (queue,))
        case e.StoreNotice(router, queue, text):
            line.write(receive_queues.put_notice, (router, queue), text.encode())
        case _:
            return False
    return True


def store_service_id(
    tables: Database, user: UserId, router: RouterId, service: ServiceId, clear: bool
) -> None:
    """Store the id that a router gave."""
    services.put_service_id(tables, user, router, service)
    if clear:
        # S001-78: the flags of the old one are cleared in the same transaction.
        services.clear(tables, user, router)
