"""Small journals for tests: segments with the facts that a test wants, and a day of plausible
ones."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from headgate.core.facts import (
    Accepted,
    Associated,
    AutoConfirmed,
    CapacityChanged,
    ChannelCounted,
    Confirmed,
    Delivered,
    Displaced,
    Expired,
    Fact,
    Interested,
    PublisherWaited,
    PutAside,
    QueueCreated,
    Returned,
    RouterStarted,
    ServiceSubscribed,
    SessionEased,
    SessionOpened,
    SessionSlowed,
    Subscribed,
)
from headgate.core.model.ids import AppId, MessageId, QueueId, ServiceId, SessionId
from headgate.core.model.message import PropertyValue
from headgate.core.ntf_facts import AnyFact
from headgate.core.turn.outbox import FactTuple
from headgate.journal.codec import encode_facts
from headgate.journal.columns import FIELD_NAMES, VERSION, VERSION_KEY
from headgate.journal.identity import KEY
from headgate.journal.sealer import _table
from headgate.journal.segments import name_of, segments
from headgate.server.admin.app import make_app

Given: TypeAlias = AnyFact | tuple[str, Mapping[str, Any]]
"""A fact, or the name of a kind and its fields; a kind need not be known."""

DAY = 1_760_000_000.0
"""When the days of `facts_of_a_day` begin."""

DOMAIN = "shop.orders"
APPS = (AppId("billing"), AppId("shipping"))


def write_segment(
    directory: Path,
    first: int,
    facts: Sequence[Given | None],
    *,
    version: int = VERSION,
    without: Iterable[str] = (),
    row_group: int | None = None,
    identity: str = "",
) -> Path:
    """A segment whose first fact has this number. A None leaves its number unused. An older
    router's segment has another `version`, and is `without` some columns."""
    rows = [
        (number, number, encode_facts([told(fact)]))
        for number, fact in enumerate(facts, first)
        if fact is not None
    ]
    table = _table(rows).drop_columns(list(without))
    told_of = {KEY: identity} if identity else {}
    table = table.replace_schema_metadata({VERSION_KEY: str(version), **told_of})
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name_of(rows[0][0], rows[-1][0])
    pq.write_table(table, path, compression="zstd", row_group_size=row_group)
    return path


def write_journal(
    directory: Path,
    facts: Iterable[Given | None],
    *,
    per_segment: int,
    first: int = 1,
    identity: str = "",
) -> list[Path]:
    """Segments of so many numbers each."""
    paths, waiting = [], list(facts)
    for start in range(0, len(waiting), per_segment):
        part = waiting[start : start + per_segment]
        paths.append(write_segment(directory, first + start, part, identity=identity))
    return paths


def merge_segments(directory: Path, *, keep: bool = False) -> Path:
    """One segment of all there are, as the sealer makes it; those it replaces stay for a grace
    if they are to be kept."""
    found = segments(directory)
    table = pa.concat_tables([pq.read_table(segment.path) for segment in found])
    path = directory / name_of(found[0].first, found[-1].last)
    pq.write_table(table, path, compression="zstd")
    for segment in found:
        if not keep and segment.path != path:
            segment.path.unlink()
    return path


TOKEN = "open sesame"
"""Of the admin port of `served`."""


@contextmanager
def served(directory: Path, token: str = TOKEN, **tls: Any) -> Iterator[str]:  # noqa: ANN401
    """The URL of a router's admin port that gives this journal away; behind TLS, if its settings
    are given."""
    app = make_app(
        problems=list, status=dict, metrics=lambda: b"", rows=1, journal=directory, token=token
    )
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", **tls)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def told(fact: Given) -> FactTuple:
    """A fact as the outbox has it."""
    if isinstance(fact, tuple):
        kind, given = fact
        return (kind, *(given.get(name) for name in FIELD_NAMES.get(kind, ())))
    return (type(fact).__name__, *(getattr(fact, field.name) for field in fields(fact)))


def facts_of_a_day(
    messages: int = 100,
    *,
    seed: int = 1,
    queues: int = 3,
    seconds: float = 86_400.0,
    start: float = DAY,
    bodies: bool = False,
) -> list[Fact]:
    """What a router tells of a day with so many messages in shared queues of two apps, in the
    order of time; about six facts for each message. The same for the same arguments."""
    return [fact for _, _, fact in sorted(_Day(messages, seed, queues, seconds, start, bodies))]


class _Day:
    """Facts with their times; the count keeps those of one moment in the order of their making."""

    def __init__(
        self, messages: int, seed: int, queues: int, seconds: float, start: float, bodies: bool
    ) -> None:
        self._random = random.Random(seed)
        self._messages = messages
        self._seconds = seconds
        self._start = start
        self._bodies = bodies
        self._queues = [QueueId(b"bmq://%s/q%d" % (DOMAIN.encode(), n)) for n in range(queues)]
        self._sessions = count(1)
        self._readers: dict[tuple[QueueId, AppId], list[SessionId]] = {}
        self._facts: list[tuple[float, int, Fact]] = []

    def __iter__(self) -> Iterator[tuple[float, int, Fact]]:
        self._tell(RouterStarted(self._start, "0.1.0"))
        for queue in self._queues:
            self._open(queue)
        for _ in range(self._messages):
            self._send(self._random.choice(self._queues))
        self._channels()
        self._pressure()
        self._services()
        return iter(self._facts)

    def _tell(self, fact: Fact) -> None:
        self._facts.append((fact.at, len(self._facts), fact))

    def _session(self, at: float, wire: str) -> SessionId:
        session = SessionId(next(self._sessions))
        self._tell(SessionOpened(at, session, wire, f"127.0.0.1:{40_000 + session}"))
        return session

    def _open(self, queue: QueueId) -> None:
        at = self._start
        self._tell(QueueCreated(at, queue, DOMAIN))
        for app in APPS:
            for place in range(2):
                session = self._session(at, "bmq")
                self._tell(Subscribed(at, queue, app, session))
                expression = f"amount >= {place * 500}"
                self._tell(Interested(at, queue, app, session, 0, 1, expression, 1 + place))
                self._readers.setdefault((queue, app), []).append(session)

    def _send(self, queue: QueueId) -> None:
        at = self._start + 1 + self._random.random() * (self._seconds - 1)
        message = MessageId(self._random.randbytes(16))
        properties: dict[str, PropertyValue] = {
            "amount": self._random.randrange(1000),
            "region": self._random.choice(("eu", "us", "apac")),
            "express": self._random.random() < 0.2,
        }
        body = self._random.randbytes(24)
        told_body = body if self._bodies else None
        size = len(body) + 30
        self._tell(Accepted(at, queue, message, size, properties, told_body))
        if self._random.random() < 0.02:
            self._tell(Expired(at + 3600.0, queue, message, 3600.0))
            return
        for app in APPS:
            self._deliver(queue, app, message, at + 0.0005, int(properties["amount"]))

    def _deliver(
        self, queue: QueueId, app: AppId, message: MessageId, at: float, amount: int
    ) -> None:
        accepted = at
        if app == APPS[1] and amount < 100:
            self._tell(AutoConfirmed(at, queue, app, message))
            return
        if self._random.random() < 0.05:
            self._tell(PutAside(at, queue, app, message, self._random.random() < 0.5))
            at += self._random.random() * 60
        low, high = self._readers[queue, app]
        session = high if amount >= 500 else low
        self._tell(Delivered(at, queue, app, message, session, 1))
        if self._random.random() < 0.03:
            at += self._random.random() * 5
            self._tell(Returned(at, queue, app, message, session, True))
            self._tell(Delivered(at, queue, app, message, session, 2))
        took = self._random.expovariate(20)
        at += took
        self._tell(Confirmed(at, queue, app, message, session, took, at - accepted))

    def _channels(self) -> None:
        for second in range(min(int(self._seconds), 60)):
            for name in (b"prices", b"news"):
                published = self._random.randrange(1, 50)
                at = self._start + 1 + second
                self._tell(ChannelCounted(at, name, 1, published, published * 40, published * 3, 3))

    def _pressure(self) -> None:
        at = self._start + self._seconds / 2
        slow, publisher = self._session(at, "resp"), self._session(at, "resp")
        self._tell(SessionSlowed(at + 0.1, slow, "slow", 9_000_000))
        self._tell(PublisherWaited(at + 0.2, publisher, slow))
        self._tell(SessionEased(at + 4.1, slow, "slow", 4.0))
        self._tell(CapacityChanged(at, "queue", "bmq://shop.orders/q0", "high", "2 put aside"))
        self._tell(CapacityChanged(at + 9, "queue", "bmq://shop.orders/q0", "normal", ""))

    def _services(self) -> None:
        at = self._start + 1
        service = ServiceId(self._random.randbytes(24))
        queues = [QueueId(self._random.randbytes(16)) for _ in range(5)]
        first, second = self._session(at, "smp"), self._session(at + 60, "smp")
        for queue in queues:
            self._tell(QueueCreated(at, queue, ""))
            self._tell(Associated(at + 1, queue, service))
        self._tell(ServiceSubscribed(at + 2, service, first, len(queues), "none"))
        self._tell(Displaced(at + 60, queues[0], first, second))
