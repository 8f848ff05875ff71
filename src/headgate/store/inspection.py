"""Inspection of a store: its files are whole, its rows refer to each other, and its counts are
right.

The inspecting process has the store to itself, as in a copy. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from headgate.core.model.drift import Drift
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.model.value import value
from headgate.core.turn.store_requests import Batch
from headgate.errors import StoreError
from headgate.store.base import Extent
from headgate.store.sql_store import SqlStore

REPORT = "put back a copy: headgate docs back-up-and-restore"
"""Advice about errors that should be reported."""

LOOSE_ENDS = {
    "messages of queues that are not there": (
        "SELECT count(*) FROM messages AS m"
        " WHERE NOT EXISTS (SELECT 1 FROM queues WHERE number = m.queue)"
    ),
    "notes of apps about messages that are not there": (
        "SELECT count(*) FROM holds AS h"
        " WHERE NOT EXISTS (SELECT 1 FROM messages WHERE seq = h.seq)"
    ),
    "remembered ids of queues that are not there": (
        "SELECT count(*) FROM remembered AS r"
        " WHERE NOT EXISTS (SELECT 1 FROM queues WHERE number = r.queue)"
    ),
    "groups of queues that are not there": (
        "SELECT count(*) FROM open_groups AS g"
        " WHERE NOT EXISTS (SELECT 1 FROM queues WHERE number = g.queue)"
    ),
    "rows of the outbox that overlap": (
        "SELECT count(*) FROM outbox AS o WHERE last < first OR EXISTS"
        " (SELECT 1 FROM outbox AS p WHERE p.first > o.first AND p.first <= o.last)"
    ),
}
"""Loose ends, of which there should be none: questions for their number, in SQL of both
databases."""


@value
class Inspected:
    """The result of one check."""

    name: str
    ok: bool
    text: str
    """The result in words; if it is an error, with advice."""


async def inspect(
    store: SqlStore, progress: Callable[[Extent], None] = lambda read: None
) -> AsyncIterator[Inspected]:
    """Check all of an open store. `progress` is called with the contents read."""
    damage = await store.damage()
    if damage:
        yield Inspected("integrity", False, f"{'; '.join(damage)}; {REPORT}")
    else:
        yield Inspected("integrity", True, "the database finds nothing wrong")
    counts = await store.numbers(LOOSE_ENDS.values())
    loose = [f"{n} {what}" for what, n in zip(LOOSE_ENDS, counts, strict=True) if n]
    if loose:
        yield Inspected("relations", False, f"{', '.join(loose)}; {REPORT}")
    else:
        yield Inspected("relations", True, "what belongs together is there")
    async for each in _contents(store, progress):
        yield each


async def _contents(
    store: SqlStore, progress: Callable[[Extent], None]
) -> AsyncIterator[Inspected]:
    """Read and count all contents."""
    read, found = Extent(), _Tallies()
    kept: dict[ServiceId, Tally] = {}
    try:
        async for batch in store.batches():
            more = Extent(len(batch.create), len(batch.append))
            read = Extent(read.queues + more.queues, read.messages + more.messages)
            found.add(batch)
            kept |= batch.tallies
            progress(more)
    except (StoreError, TypeError) as error:  # SQLite takes any type of value in any column
        yield Inspected("contents", False, f"{error}; {REPORT}")
        return
    extent = await store.extent()
    if read == extent:
        text = (
            f"{_counted(read.queues, 'queue')} and {_counted(read.messages, 'message')} were read"
        )
        yield Inspected("contents", True, text)
    else:
        text = (
            f"{read.queues:,} of {extent.queues:,} queues and {read.messages:,} of"
            f" {extent.messages:,} messages can be read; {REPORT}"
        )
        yield Inspected("contents", False, text)
    yield found.compared(kept)


class _Tallies:
    """Tallies of services, computed again from their queues and notifiers."""

    def __init__(self) -> None:
        self._made: dict[ServiceId, Tally] = {}

    def add(self, batch: Batch) -> None:
        for record in batch.create.values():
            if record.service is not None:
                self._count(record.service, record.queue)
            notifier = None if record.parties is None else record.parties.notifier
            if notifier is not None and notifier.service is not None:
                self._count(notifier.service, QueueId(notifier.id))

    def _count(self, service: ServiceId, id: QueueId) -> None:
        self._made[service] = self._made.get(service, NOTHING).plus(id)

    def compared(self, kept: dict[ServiceId, Tally]) -> Inspected:
        wrong = [
            service
            for service in kept.keys() | self._made.keys()
            if kept.get(service, NOTHING).drift(self._made.get(service, NOTHING)) is not Drift.NONE
        ]
        if not wrong:
            return Inspected("tallies", True, f"as the queues of {_counted(len(kept), 'service')}")
        names = ", ".join(sorted(service.hex()[:16] for service in wrong)[:5])
        return Inspected(
            "tallies",
            False,
            f"not as the queues of {_counted(len(wrong), 'service')} ({names});"
            " headgate pipeline audit names the queues",
        )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
