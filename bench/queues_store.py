"""The queues that the benchmark of queues loads: made straight in the store, known by number.

To make a million over the wire would take longer than to measure them. Ids and keys are hashes
of a name and a number, so nothing has to be remembered of a queue. Ids that follow each other are
therefore nowhere near each other in the store's indexes, as it is with ids that a router draws.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.servers import pin_load
from headgate.client.smp.recipient import spki
from headgate.client.smp.service import Service, make_service
from headgate.core.model.domain import SMP_DOMAIN
from headgate.core.model.ids import WHOLE, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Message, Stored
from headgate.core.model.parties import Parties, Purpose, QueueRecord
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import Batch, ServiceRecord
from headgate.store import Store, open_store
from headgate.testing.postgres import PostgresCluster
from headgate.wire.smp.handshake import Role

BODY = bytes(16_000)
"""Clients pad what they send to one length, which is nearly that of a block."""
ID_BYTES = 24
KEY_BYTES = 32
AT_ONCE = 2_000
"""Queues that are made in one transaction."""
SYNCS = 21
ALLOWED = os.sched_getaffinity(0)
"""The cores that this process may use, before it takes one of them."""


def hashed(size: int, *words: object) -> bytes:
    return blake2b(repr(words).encode(), digest_size=size).digest()


@dataclass(frozen=True)
class Crowd:
    """Queues that are alike."""

    name: str
    size: int
    every: int = 0
    """Each so manieth has a message; 0 is none."""
    shares_key: bool = False
    """One recipient's key for all: deriving a million takes minutes, and whoever signs nothing
    for each queue does not notice."""
    has_service: bool = False

    def id(self, n: int) -> QueueId:
        return QueueId(hashed(ID_BYTES, self.name, "recipient", n))

    def sender(self, n: int) -> bytes:
        return hashed(ID_BYTES, self.name, "sender", n)

    def key(self, n: int) -> Ed25519PrivateKey:
        if self.shares_key:
            return self._shared_key
        return self._key(n)

    @cached_property
    def sender_key(self) -> bytes:
        """Of X25519, as clients have it; the same for all."""
        return hashed(KEY_BYTES, self.name, "sender key")

    @cached_property
    def secret(self) -> bytes:
        """What messages are sealed with."""
        return hashed(KEY_BYTES, self.name, "secret")

    @cached_property
    def service(self) -> ServiceId | None:
        return ServiceId(hashed(ID_BYTES, self.name, "service")) if self.has_service else None

    @cached_property
    def pending(self) -> int:
        """How many have a message."""
        return len(range(0, self.size, self.every)) if self.every else 0

    @cached_property
    def tally(self) -> Tally:
        return Tally.of(map(self.id, range(self.size)))

    def record(self, n: int) -> QueueRecord:
        key = self._shared_spki if self.shares_key else spki(self._key(n))
        parties = Parties(
            (key,), self.secret, self.sender(n), self._sender_spki, purpose=Purpose.MESSAGING
        )
        return QueueRecord(self.id(n), SMP_DOMAIN, self.service, parties)

    def message(self, n: int, seq: int, now: float) -> Stored:
        id = MessageId(hashed(ID_BYTES, self.name, "message", n))
        return Stored(Seq(seq), self.id(n), Message(id, BODY, now), (WHOLE,))

    def batches(self, seq: int) -> Iterator[Batch]:
        """All of them, with messages that are numbered from here."""
        now = time.time()
        for start in range(0, self.size, AT_ONCE):
            batch = Batch()
            for n in range(start, min(start + AT_ONCE, self.size)):
                record = self.record(n)
                batch.create[record.queue] = record
                if self.every and n % self.every == 0:
                    seq += 1
                    batch.append[Seq(seq)] = self.message(n, seq, now)
            if self.service is not None:
                batch.tallies[self.service] = Tally.of(batch.create)
            yield batch

    def _key(self, n: int) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(hashed(KEY_BYTES, self.name, "key", n))

    @cached_property
    def _shared_key(self) -> Ed25519PrivateKey:
        return self._key(0)

    @cached_property
    def _shared_spki(self) -> bytes:
        return spki(self._shared_key)

    @cached_property
    def _sender_spki(self) -> bytes:
        return spki(self.sender_key)


@dataclass(frozen=True)
class Place:
    """A database of its own, and a folder for the router that serves it."""

    kind: str
    url: str
    folder: Path
    cluster: PostgresCluster | None = None
    service: Service | None = None
    """The client that the crowd's service is."""

    def store(self) -> Store:
        return open_store(self.url, self.folder)

    def cpu_ns(self) -> int:
        """Nanoseconds of CPU of the database's own processes, those that ended left out."""
        if self.cluster is None:
            return 0
        postmaster = int((self.cluster.folder / "data/postmaster.pid").read_text().split()[0])
        listed = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text()
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in map(int, listed.split()))


@contextmanager
def place(kind: str, *crowds: Crowd) -> Iterator[Place]:
    """A store with these crowds in it, gone at the end. From then on this process is on the core
    of the load, but what runs a database is not."""
    os.sched_setaffinity(0, ALLOWED)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-bench-")))
        cluster, url = None, f"sqlite:{folder / 'queues.db'}"
        if kind == "postgresql":
            cluster = stack.enter_context(PostgresCluster())
            url = cluster.url(cluster.create_database())
        service = make_service(time.time()) if any(c.has_service for c in crowds) else None
        found = Place(kind, url, folder, cluster, service)
        asyncio.run(_fill(found, crowds))
        if cluster is not None:
            _vacuum(cluster, url)
        pin_load()
        yield found


async def _fill(found: Place, crowds: tuple[Crowd, ...]) -> None:
    store = found.store()
    seq = int(await store.open())
    try:
        for crowd in crowds:
            for batch in crowd.batches(seq):
                await store.apply(batch)
            seq += crowd.pending
            if crowd.service is not None and found.service is not None:
                record = ServiceRecord(crowd.service, Role.MESSAGING.value.decode())
                await store.apply(Batch(identities={found.service.fingerprint: record}))
    finally:
        await store.close()


def _vacuum(cluster: PostgresCluster, url: str) -> None:
    """What a server does by itself in time; the cluster of the tests does not."""
    database = url.removeprefix("postgresql:///").partition("?")[0]
    with cluster.connect(database) as db:
        db.execute("VACUUM ANALYZE")
        db.execute("CHECKPOINT")


def sync_us() -> float:
    """What the disk takes to have a small write on it: a durable commit waits for it."""
    taken = []
    with tempfile.TemporaryFile(prefix="headgate-bench-") as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            os.pwrite(file.fileno(), bytes(4096), 0)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6
