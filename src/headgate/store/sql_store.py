"""A store in an SQL database of any kind.

One thread owns the only connection, and load and apply queue up for it. No other program writes to
the queues, hence the statements of a load see one state without a transaction around them. A
subclass brings the connection, the statements, and how its rows are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar

from headgate.core.model.ids import QueueId, Seq, ServiceId
from headgate.core.model.message import MessageEntry, Stored
from headgate.core.model.parties import Address, QueueRecord
from headgate.core.model.tally import Tally
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import (
    Aged,
    Batch,
    Dated,
    GroupRecord,
    Groups,
    Head,
    Listed,
    Listing,
    Load,
    Loaded,
    Overdue,
    Page,
    Past,
    ServiceRecord,
    SinkRecord,
    Swept,
    Usage,
)
from headgate.journal.codec import decode_tuples
from headgate.store.base import Extent
from headgate.store.blobs import known_of
from headgate.store.export import PART_ROWS, cut, in_parts
from headgate.store.thread import Worker

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Statements(Protocol):
    """Statements that are the same for both databases, with the same values."""

    ALL_GROUPS: str
    ALL_IDENTITIES: str
    BACKLOGS: str
    BODIES: str
    ENTRIES: str
    EXTENT: str
    GROUPS: str
    IDENTITIES: str
    KNOWN: str
    LAST: str
    MESSAGES: str
    OUTBOX: str
    RECORDS: str
    REMEMBERED: str
    SERVICES: str
    SINKS: str
    SIZES: str
    TALLIES: str
    UNSEALED: str
    USAGE: str


class RowReader(Protocol):
    """Rows of a database as values of the core."""

    @property
    def record(self) -> Callable[..., QueueRecord]: ...
    @property
    def message(self) -> Callable[[Row], Stored]: ...
    @property
    def entry(self) -> Callable[[Row], MessageEntry]: ...
    @property
    def heads(self) -> Callable[[Iterable[Row]], tuple[dict[QueueId, Head], set[QueueId]]]: ...
    @property
    def backlogs(
        self,
    ) -> Callable[[Iterable[Row]], dict[QueueId, tuple[QueueRecord, list[MessageEntry]]]]: ...


class SqlStore(ABC):
    """A store whose batches are transactions of one connection, in a thread of its own.

    The base of the stores in SQLite and PostgreSQL, which have the statements. A batch is applied
    whole or not at all, in the order of calls.
    """

    sql: Statements
    rows: RowReader

    def __init__(self, name: str, close: Callable[[], None]) -> None:
        self._worker = Worker(name, close)

    async def open(self) -> Seq:
        return await self._worker.open(self._open)

    async def load(self, load: Load) -> Loaded:
        return await self._run(lambda: self._load(load))

    async def apply(self, batch: Batch) -> None:
        if batch:
            await self._run(lambda: self._apply(batch))

    async def unsealed(self) -> tuple[int, int]:
        [(last, size)] = await self._run(lambda: self._all(self.sql.UNSEALED))
        return last, size

    async def extent(self) -> Extent:
        [(queues, messages)] = await self._run(lambda: self._all(self.sql.EXTENT))
        return Extent(queues, messages)

    async def probe(self) -> None:
        await self._run(self._probe)

    def batches(self) -> AsyncIterator[Batch]:
        parts = (self._records, self._messages, self._remembered, self._groups, self._rest)
        return in_parts((*parts, self._outbox), self._run)

    async def close(self) -> None:
        await self._worker.close()

    # Calls on a store that no router uses.

    async def damage(self) -> list[str]:
        """Errors that the database itself finds in its files, however long that takes."""
        return await self._run(lambda: self._unhurried(self._damage))

    async def numbers(self, questions: Iterable[str]) -> list[int]:
        """The answers to questions for a number, however long they take."""
        asked = list(questions)
        return await self._run(
            lambda: self._unhurried(lambda: [self._all(each)[0][0] for each in asked])
        )

    async def vacuum(self) -> None:
        """Free the room of deleted data, however long that takes."""
        await self._run(lambda: self._unhurried(self._vacuum))

    async def disk_bytes(self) -> int:
        """The room that it takes on disk."""
        return await self._run(self._disk_bytes)

    async def _run(self, job: Callable[[], T]) -> T:
        return await self._worker.run(lambda: self._do(job))

    # Methods of each database. All of them run in the thread.

    @abstractmethod
    def _connect(self) -> None:
        """Make the connection, and bring the schema up to date."""

    @abstractmethod
    def _do(self, job: Callable[[], T]) -> T:
        """Use the connection; errors become a `StoreError`."""

    @abstractmethod
    def _probe(self) -> None: ...

    @abstractmethod
    def _all(self, question: str, *values: object) -> list[Row]:
        """The answer to one question."""

    @abstractmethod
    def _ask(self, question: str, wanted: Iterable[Row]) -> list[Row]:
        """The answers to a question about each of these rows, in one statement."""

    @abstractmethod
    def _apply(self, batch: Batch) -> None:
        """Do a batch in one transaction."""

    @abstractmethod
    def _damage(self) -> list[str]: ...

    @abstractmethod
    def _vacuum(self) -> None: ...

    @abstractmethod
    def _disk_bytes(self) -> int: ...

    def _unhurried(self, job: Callable[[], T]) -> T:
        """Do a job that reads everything, without the limits of a turn."""
        return job()

    def _encode(self, text: str) -> Any:  # noqa: ANN401
        """A text as the database has it."""
        return text

    def _decode(self, text: Any) -> str:  # noqa: ANN401
        found: str = text
        return found

    @abstractmethod
    def _heads(
        self, load: Load
    ) -> tuple[dict[QueueId, Head], set[QueueId], dict[Address, QueueId]]: ...

    @abstractmethod
    def _paged(self, pages: list[Page]) -> Iterable[tuple[int, QueueId, bool, Row]]:
        """The page of each row, its queue, whether the row has its first message, and the row."""

    @abstractmethod
    def _tallies(self, found: Iterable[Row]) -> dict[ServiceId, Tally]: ...

    @abstractmethod
    def _aged(self, aged: Aged) -> list[Past]: ...

    @abstractmethod
    def _overdue(self, overdue: Overdue) -> list[Dated]: ...

    @abstractmethod
    def _listings(self, listings: list[Listing]) -> dict[Listing, list[Listed]]: ...

    # Methods for both databases.

    def _open(self) -> Seq:
        self._connect()
        [(last,)] = self._do(lambda: self._all(self.sql.LAST))
        return Seq(last)

    def _load(self, load: Load) -> Loaded:
        ask, sql, text = self._ask, self.sql, self._decode
        heads, unreadable, addresses = self._heads(load)
        pages = self._pages(list(load.pages), unreadable)
        domains = ((self._encode(domain),) for domain in load.usage)
        return Loaded(
            heads=heads,
            addresses=addresses,
            unreadable=unreadable,
            backlogs=self.rows.backlogs(ask(sql.BACKLOGS, each(load.backlogs))),
            remembered=known_of(ask(sql.KNOWN, each(load.backlogs))),
            groups=self._grouped(ask(sql.GROUPS, each(load.backlogs))),
            entries={row[0]: self.rows.entry(row) for row in ask(sql.ENTRIES, each(load.entries))},
            bodies=dict(ask(sql.BODIES, each(load.bodies))),
            services=self._tallies(ask(sql.SERVICES, each(load.services))),
            pages=pages,
            usage={domain: Usage() for domain in load.usage}
            | {
                text(domain): Usage(queues, messages, size)
                for domain, queues, messages, size in ask(sql.USAGE, domains)
            },
            identities=self._identities(ask(sql.IDENTITIES, each(load.identities))),
            aged=self._aged(load.aged) if load.aged is not None else [],
            overdue=self._overdue(load.overdue) if load.overdue is not None else [],
            listings=self._listings(list(load.listings)),
            sinks=self._sinks() if load.sinks else {},
        )

    def _pages(self, pages: list[Page], unreadable: set[QueueId]) -> dict[Page, Swept]:
        looked: list[list[QueueId]] = [[] for _ in pages]
        found: list[list[Row]] = [[] for _ in pages]
        for place, queue, has_head, row in self._paged(pages):
            looked[place].append(queue)
            if has_head:
                found[place].append(row)
        swept = {}
        for place, page in enumerate(pages):
            heads, damaged = self.rows.heads(found[place])
            read = [heads[queue] for queue in sorted(heads)]
            swept[page] = Swept(sorted(looked[place]), read)
            unreadable |= damaged
        return swept

    def _identities(self, found: Iterable[Row]) -> dict[bytes, ServiceRecord]:
        return {
            fingerprint: ServiceRecord(service, self._decode(role))
            for fingerprint, service, role in found
        }

    def _sinks(self) -> dict[str, SinkRecord]:
        found = self._all(self.sql.SINKS)
        return {self._decode(sink): SinkRecord(batch, at) for sink, batch, at in found}

    def _grouped(self, found: Iterable[Row]) -> dict[QueueId, Groups]:
        groups: dict[QueueId, Groups] = {}
        for queue, name, where in found:
            text = None if where is None else self._decode(where)
            groups.setdefault(queue, {})[self._decode(name)] = GroupRecord(text)
        return groups

    # The parts of a copy: the rows after a position, and the next position, if any.

    def _records(self, after: int) -> tuple[Batch, int | None]:
        found = self._all(self.sql.RECORDS, after, PART_ROWS)
        records = [self.rows.record(*row[1:]) for row in found]
        return Batch(create={r.queue: r for r in records}), found[-1][0] if found else None

    def _messages(self, after: int) -> tuple[Batch, int | None]:
        sizes: list[Any] = self._all(self.sql.SIZES, after, PART_ROWS)
        if not sizes:
            return Batch(), None
        last = cut(sizes)
        found = map(self.rows.message, self._all(self.sql.MESSAGES, after, last))
        return Batch(append={stored.seq: stored for stored in found}), last

    def _remembered(self, after: int) -> tuple[Batch, int | None]:
        found = self._all(self.sql.REMEMBERED, after)
        known = known_of(row[1:] for row in found)
        return Batch(remember=known), found[0][0] if found else None

    def _groups(self, after: int) -> tuple[Batch, int | None]:
        found = self._all(self.sql.ALL_GROUPS, after, PART_ROWS)
        groups = self._grouped(row[1:] for row in found)
        made = {(queue, name): g for queue, its in groups.items() for name, g in its.items()}
        return Batch(groups={**made}), found[-1][0] if found else None

    def _rest(self, after: int) -> tuple[Batch, int | None]:
        """The part of all small tables."""
        return Batch(
            tallies=self._tallies(self._all(self.sql.TALLIES)),
            identities=self._identities(self._all(self.sql.ALL_IDENTITIES)),
            sinks={**self._sinks()},
        ), None

    def _outbox(self, after: int) -> tuple[Batch, int | None]:
        found = self._all(self.sql.OUTBOX, after)
        if not found:
            return Batch(), None
        [(first, blob)] = found
        return Batch(outbox=OutboxRow(first, decode_tuples(blob), len(blob))), first


def each(values: Iterable[object]) -> Iterable[Row]:
    """Rows of one column."""
    return ((item,) for item in values)
