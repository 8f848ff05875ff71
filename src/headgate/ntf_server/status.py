"""Status of a running notification server on ``/status.json``. The store is not asked."""

from __future__ import annotations

from collections.abc import Callable

from headgate.agent.engine.engine import SlotStatus
from headgate.ntf_server.server import NtfServer
from headgate.server.admin.pages import Table


def tables(server: NtfServer) -> dict[str, object]:
    """Lists make their rows when they are read."""
    journal = server.journal
    return {
        "address": server.address.text,
        "apps": len(server.apps),
        "pushes_waiting": len(server.pusher),
        "store": {"name": server.records.name, "commits": server.records.commits},
        "routers": router_table(server),
        "journal": None
        if journal is None
        else {
            "directory": str(journal.sealer.directory),
            "sealed": journal.sealer.last,
            "lag": journal.sealer.lag,
            "outbox_bytes": server.records.box.bytes,
            "sealer_starts": journal.sealer.starts,
        },
    }


def router_table(server: NtfServer) -> Table[SlotStatus]:
    """The state of the session with each router. Subscriptions of a service are in its tally."""
    columns: dict[str, Callable[[SlotStatus], object]] = {
        "router": lambda slot: server.notifiers.address_of(slot.slot.router).text,
        "session": lambda slot: slot.phase.value,
        "service": lambda slot: slot.service.value,
        "service_subscriptions": lambda slot: slot.tally.count,
        "pending": lambda slot: slot.pending,
        "active": lambda slot: slot.active,
    }
    return Table(server.notifiers.status(), columns)
