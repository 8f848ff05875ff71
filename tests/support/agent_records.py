"""Records of an agent for tests: a user, a router, and values to store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Concatenate, ParamSpec, TypeVar

from headgate.agent.model import ConnectionId, QueueKey, RouterId, UserId
from headgate.agent.records import Records, connections, routers, services, users
from headgate.agent.records.check import tallies
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.database import Database
from headgate.agent.records.outgoing import OutgoingMessage, Sealing
from headgate.agent.records.ratchets import SkippedKey
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.received import Incoming
from headgate.agent.records.send_queues import SendQueue
from headgate.agent.records.services import Credentials
from headgate.core.model.tally import Tally
from headgate.wire.smp.codec.router_address import RouterAddress

P = ParamSpec("P")
T = TypeVar("T")

ADDRESS = RouterAddress(("relay.example.org",), None, b"k" * 32)
OTHER_ADDRESS = RouterAddress(("other.example.org",), 5224, b"o" * 32)
C1, C2, C3 = (b"connection %d" % n for n in (1, 2, 3))
CREDENTIALS = Credentials(b"certificate", b"private", b"fingerprint")
NOW = 1_800_000_000.0
DAY = 24 * 3600.0


@dataclass(frozen=True)
class Scene:
    """Records with a user, two routers, and connection 1."""

    records: Records
    user: UserId
    router: RouterId
    other_router: RouterId


async def prepare(records: Records) -> Scene:
    user = await records.write(users.add, services=True)
    router = await records.write(routers.keep, ADDRESS)
    other = await records.write(routers.keep, OTHER_ADDRESS)
    await records.write(connections.add, ConnectionRecord(C1, user))
    return Scene(records, user, router, other)


async def with_service(scene: Scene) -> Scene:
    await scene.records.write(services.put_credentials, scene.user, scene.router, CREDENTIALS)
    return scene


def queue_id(n: int) -> bytes:
    return b"%024d" % n


def receive_queue(
    router: RouterId,
    n: int,
    user: UserId,
    connection: ConnectionId = C1,
    *,
    assoc: bool = False,
) -> ReceiveQueue:
    return ReceiveQueue(
        router,
        queue_id(n),
        user,
        connection,
        "ed25519",
        b"private %d" % n,
        b"dh %d" % n,
        b"e2e %d" % n,
        sender_id=b"sender %d" % n,
        assoc=assoc,
    )


def send_queue(router: RouterId, n: int = 0, connection: ConnectionId = C1) -> SendQueue:
    return SendQueue(router, b"sender %d" % n, connection, b"private %d" % n, b"e2e", b"public")


def incoming(queue: QueueKey, n: int, connection: ConnectionId = C1) -> Incoming:
    body = b"body %d" % n
    return Incoming(
        connection,
        queue,
        b"broker %d" % n,
        int(NOW),
        sha256(body).digest(),
        "message",
        body,
        flags=1,
        peer_id=n,
        hash=b"hash %d" % n,
        prev_hash=b"hash %d" % (n - 1),
    )


def outgoing_message(
    id: int, connection: ConnectionId = C1, created: float = NOW
) -> OutgoingMessage:
    sealing = Sealing(b"key %d" % id, b"iv", b"header", 15840)
    return OutgoingMessage(
        connection, id, "message", b"text %d" % id, b"sent %d" % id, created, 1, sealing
    )


def skipped_key(n: int) -> SkippedKey:
    return SkippedKey(b"header", n, b"key %d" % n, b"iv")


async def inside(records: Records, job: Callable[[sqlite3.Connection], T]) -> T:
    """Do something with the connection, in its thread, as a call that reads."""
    return await records.read(lambda tables: job(tables._file._connection))


async def ask(records: Records, question: str) -> list[tuple[Any, ...]]:
    return await inside(records, lambda db: db.execute(question).fetchall())


def kept_and_counted(tables: Database, user: UserId, router: RouterId) -> tuple[Tally, Tally]:
    """The stored tally, and one made of all rows."""
    return tallies(tables)[user, router]


async def steps(
    records: Records,
    job: Callable[Concatenate[Database, P], T],
    *args: P.args,
    **named: P.kwargs,
) -> int:
    """How many instructions of SQLite's virtual machine a job takes."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    await inside(records, lambda db: db.set_progress_handler(step, 1))
    await records.write(job, *args, **named)
    await inside(records, lambda db: db.set_progress_handler(None, 1))
    return count
