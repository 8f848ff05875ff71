"""Queues that the benchmark of the agent has: known to a router's store and to an agent's file.

Both are filled straight, since making 100,000 queues over the wire would take longer than to
measure them. Messages are in the router's store, sealed for the agent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from bench.queues_store import AT_ONCE, ID_BYTES, KEY_BYTES, Crowd, Place, hashed
from headgate.agent.model import RouterId, UserId
from headgate.agent.records import (
    Database,
    Records,
    connections,
    receive_queues,
    routers,
    services,
    users,
)
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord, ConnectionStatus
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.services import Credentials
from headgate.client.smp.service import Service
from headgate.core.model.ids import WHOLE, MessageId, Seq
from headgate.core.model.message import Message, Stored
from headgate.core.turn.store_requests import Batch
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents
from headgate.wire.smp.codec.router_address import RouterAddress

CONNECTION_BYTES = 12
NONCE_BYTES = 24
CLIENT_VERSION = 4
BODY = bytes(15_000)
"""What a message has for the application."""


def envelope_key(crowd: Crowd) -> bytes:
    """What senders seal with; the same for all."""
    return hashed(KEY_BYTES, crowd.name, "envelope")


def fill_agent(path: Path, address: RouterAddress, crowd: Crowd, service: Service | None) -> None:
    """Make the file of an agent that has all queues of the crowd at this router."""
    asyncio.run(_fill_agent(path, address, crowd, service))


async def _fill_agent(
    path: Path, address: RouterAddress, crowd: Crowd, service: Service | None
) -> None:
    async with await Records.open(path) as records:
        user = await records.write(users.add, services=service is not None)
        router = await records.write(routers.keep, address)
        if service is not None and crowd.service is not None:
            raw = service.private.private_bytes_raw()
            credentials = Credentials(service.certificate, raw, service.fingerprint)
            await records.write(services.put_credentials, user, router, credentials)
            await records.write(services.put_service_id, user, router, crowd.service)
        for start in range(0, crowd.size, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, crowd.size))
            await records.write(_add, crowd, user, router, numbers)
            if service is not None:
                ids = [crowd.id(n) for n in numbers]
                await records.write(services.associate, user, router, ids)


def _add(tables: Database, crowd: Crowd, user: UserId, router: RouterId, numbers: range) -> None:
    for n in numbers:
        connection = hashed(CONNECTION_BYTES, crowd.name, "connection", n)
        kind, status = ConnectionKind.RECEIVE, ConnectionStatus.READY
        connections.add(tables, ConnectionRecord(connection, user, kind, status, f"queue {n}"))
        queue = ReceiveQueue(
            router,
            crowd.id(n),
            user,
            connection,
            "ed25519",
            crowd.key(n).private_bytes_raw(),
            crowd.secret,
            hashed(KEY_BYTES, crowd.name, "own", n),
            envelope_key(crowd),
            CLIENT_VERSION,
            crowd.sender(n),
            status="ready",
        )
        receive_queues.add(tables, queue)


def put_messages(found: Place, crowd: Crowd, each: int) -> None:
    """Put so many messages into each queue of the crowd."""
    asyncio.run(_put(found, crowd, each))


async def _put(found: Place, crowd: Crowd, each: int) -> None:
    store = found.store()
    seq = int(await store.open())
    try:
        for batch in _batches(crowd, each, seq):
            await store.apply(batch)
    finally:
        await store.close()


def _batches(crowd: Crowd, each: int, seq: int) -> Iterator[Batch]:
    now, key = time.time(), envelope_key(crowd)
    batch = Batch()
    for turn in range(each):
        for n in range(crowd.size):
            seq += 1
            nonce = hashed(NONCE_BYTES, crowd.name, "nonce", n, turn)
            contents = EnvelopeContents(None, BODY)
            body = ClientEnvelope.seal(CLIENT_VERSION, key, nonce, contents, None).encode()
            id = MessageId(hashed(ID_BYTES, crowd.name, "message", n, turn))
            batch.append[Seq(seq)] = Stored(Seq(seq), crowd.id(n), Message(id, body, now), (WHOLE,))
            if len(batch.append) == AT_ONCE:
                yield batch
                batch = Batch()
    if batch.append:
        yield batch
