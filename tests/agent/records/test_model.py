"""Drawn sequences of operations, against dictionaries, with restarts in between."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.agent.model import Which
from headgate.agent.records import (
    Database,
    Records,
    commands,
    connections,
    outgoing,
    ratchets,
    receive_queues,
    received,
    routers,
    send_queues,
    services,
    steps,
    users,
)
from headgate.agent.records.check import check
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.received import HASHES_SECONDS
from headgate.agent.records.services import Credentials
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import Tally
from headgate.errors import StoreError
from tests.support.agent_records import (
    ADDRESS,
    C1,
    C2,
    NOW,
    OTHER_ADDRESS,
    incoming,
    outgoing_message,
    queue_id,
    receive_queue,
    send_queue,
    skipped_key,
)

USERS = ROUTERS = (1, 2)
CONNECTIONS = (C1, C2)
REFUSED = "refused"
INBOX = 1, queue_id(0)


@dataclass
class Model:
    """What the records should hold. Each operation returns what the records should return."""

    services: dict[tuple[int, int], tuple[bytes, bytes | None]] = field(default_factory=dict)
    """Fingerprint and service id, by user and router."""
    queues: dict[tuple[int, bytes], tuple[int, bool, bool]] = field(default_factory=dict)
    """User, assoc and deleted."""
    inbox: dict[int, tuple[bytes, int, bool, int, float]] = field(default_factory=dict)
    """Connection, number, acked, attempts and first time, by id."""
    last_id: int = 0
    sent: dict[bytes, int] = field(default_factory=lambda: dict.fromkeys(CONNECTIONS, 0))
    deliveries: list[tuple[int, bytes, int, float]] = field(default_factory=list)
    """Number, connection, id and time."""
    last_delivery: int = 0
    keys: dict[bytes, list[int]] = field(default_factory=lambda: {c: [] for c in CONNECTIONS})
    commands: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    last_command: int = 0

    def put_credentials(self, user: int, router: int, n: int) -> object:
        self.services[user, router] = b"%d" % n, None
        return None

    def put_service_id(self, user: int, router: int, n: int) -> object:
        fingerprint, old = self.services.get((user, router), (None, None))
        new = b"%d" % n
        if fingerprint is None or old == new:
            return False
        self.services[user, router] = fingerprint, new
        if old is None:
            return False
        self._clear(user, router)
        return True

    def remove_service(self, user: int, router: int) -> object:
        self.services.pop((user, router), None)
        return self._clear(user, router)

    def _clear(self, user: int, router: int) -> int:
        cleared = 0
        for key, (owner, assoc, deleted) in self.queues.items():
            if (owner, key[0]) == (user, router) and assoc:
                self.queues[key] = owner, False, deleted
                cleared += 1
        return cleared

    def add_queue(self, user: int, router: int, n: int, assoc: bool) -> object:
        key = router, queue_id(n)
        if key in self.queues:
            return REFUSED
        self.queues[key] = user, assoc and (user, router) in self.services, False
        return None

    def associate(self, user: int, router: int, numbers: list[int], on: bool) -> object:
        changed = 0
        for n in set(numbers):
            owner, assoc, deleted = self.queues.get((router, queue_id(n)), (0, on, False))
            if owner == user and assoc != on and not deleted and (user, router) in self.services:
                self.queues[router, queue_id(n)] = owner, on, deleted
                changed += 1
        return changed

    def delete_queue(self, router: int, n: int) -> object:
        if (router, queue_id(n)) in self.queues:
            self.queues[router, queue_id(n)] = self.queues[router, queue_id(n)][0], False, True
        return None

    def remove_queue(self, router: int, n: int) -> object:
        self.queues.pop((router, queue_id(n)), None)
        return None

    def receive(self, connection: bytes, n: int, now: float) -> object:
        for id, (_, number, _, attempts, _) in self.inbox.items():
            if number == n:
                return id, attempts
        self.last_id += 1
        self.inbox[self.last_id] = connection, n, False, 1, now
        return self.last_id, 1

    def acknowledge(self, id: int) -> object:
        if id not in self.inbox:
            return REFUSED
        connection, n, _, attempts, first = self.inbox[id]
        self.inbox[id] = connection, n, True, attempts, first
        return id

    def count(self, id: int) -> object:
        if id not in self.inbox:
            return 0
        connection, n, acked, attempts, first = self.inbox[id]
        self.inbox[id] = connection, n, acked, attempts + (not acked), first
        return attempts + (not acked)

    def prune(self, now: float, limit: int) -> object:
        old = [
            (first, id)
            for id, (_, _, acked, _, first) in self.inbox.items()
            if acked and first < now - HASHES_SECONDS
        ]
        for _, id in sorted(old)[:limit]:
            del self.inbox[id]
        return len(old[:limit])

    def send(self, connection: bytes, skip: int, now: float) -> object:
        if skip:
            return REFUSED
        self.sent[connection] += 1
        self.last_delivery += 1
        message = self.last_delivery, connection, self.sent[connection], now
        self.deliveries.append(message)
        return None

    def finish(self, number: int) -> object:
        for each in self.deliveries:
            if each[0] == number:
                self.deliveries.remove(each)
                return each[1:3]
        return None

    def give_up(self, connection: bytes, before: float) -> object:
        gone = [each for each in self.deliveries if each[1] == connection and each[3] < before]
        self.deliveries = [each for each in self.deliveries if each not in gone]
        return [each[1:3] for each in gone]

    def skip(self, connection: bytes, n: int) -> object:
        if n in self.keys[connection]:
            return REFUSED
        self.keys[connection].append(n)
        return None

    def use(self, connection: bytes, n: int) -> object:
        if n in self.keys[connection]:
            self.keys[connection].remove(n)
        return None

    def add_command(self, connection: bytes) -> object:
        self.last_command += 1
        self.commands[self.last_command] = connection, 0
        return self.last_command

    def attempt(self, id: int) -> object:
        if id not in self.commands:
            return 0
        connection, attempts = self.commands[id]
        self.commands[id] = connection, attempts + 1
        return attempts + 1

    def remove_command(self, id: int) -> object:
        self.commands.pop(id, None)
        return None


def to_queue(connection: bytes) -> tuple[int, bytes]:
    return send_queue(1, CONNECTIONS.index(connection)).key


def receive(tables: Database, connection: bytes, n: int, now: float) -> tuple[int, int]:
    message = incoming(INBOX, n, connection)
    found = received.recognise(tables, connection, INBOX, message.broker_id, message.sealed_hash)
    if found is not None:
        return found.id, found.attempts
    return steps.before_showing(tables, message, now), 1


def send(tables: Database, connection: bytes, skip: int, now: float) -> None:
    """The next message, or one with a number that it cannot have."""
    kept = connections.get(tables, connection)
    assert kept is not None
    message = outgoing_message(kept.sent_id + 1 + skip, connection, now)
    steps.before_send(tables, message, [to_queue(connection)], b"state")


JOBS: dict[str, Callable[..., Any]] = {
    "put_credentials": lambda t, u, r, n: services.put_credentials(
        t, u, r, Credentials(b"", b"", b"%d" % n)
    ),
    "put_service_id": lambda t, u, r, n: services.put_service_id(t, u, r, ServiceId(b"%d" % n)),
    "remove_service": services.remove,
    "add_queue": lambda t, u, r, n, assoc: receive_queues.add(
        t, receive_queue(r, n, u, assoc=assoc)
    ),
    "associate": lambda t, u, r, numbers, on: services.associate(
        t, u, r, [queue_id(n) for n in numbers], on=on
    ),
    "delete_queue": lambda t, r, n: receive_queues.delete(t, (r, queue_id(n))),
    "remove_queue": lambda t, r, n: receive_queues.remove(t, (r, queue_id(n))),
    "receive": receive,
    "acknowledge": lambda t, id: received.acknowledge(t, id).id,
    "count": received.count,
    "prune": received.prune,
    "send": send,
    "finish": outgoing.sent,
    "give_up": lambda t, c, before: outgoing.give_up(t, to_queue(c), before),
    "skip": lambda t, c, n: ratchets.step(t, c, b"state", [skipped_key(n)]),
    "use": lambda t, c, n: ratchets.step(t, c, b"state", used=[skipped_key(n)]),
    "add_command": lambda t, c: commands.add(t, c, 1, "kind", b""),
    "attempt": commands.attempt,
    "remove_command": commands.remove,
}

user, router = st.sampled_from(USERS), st.sampled_from(ROUTERS)
connection, number = st.sampled_from(CONNECTIONS), st.integers(0, 5)
id = st.integers(1, 8)
time = st.floats(NOW, NOW + 30 * 24 * 3600)
numbers = st.lists(number, max_size=6)
operation = st.one_of(
    st.tuples(st.just("put_credentials"), user, router, number),
    st.tuples(st.just("put_service_id"), user, router, number),
    st.tuples(st.just("remove_service"), user, router),
    st.tuples(st.just("add_queue"), user, router, number, st.booleans()),
    st.tuples(st.just("add_queue"), user, router, number, st.booleans()),
    st.tuples(st.just("associate"), user, router, numbers, st.booleans()),
    st.tuples(st.just("delete_queue"), router, number),
    st.tuples(st.just("remove_queue"), router, number),
    st.tuples(st.just("receive"), connection, number, time),
    st.tuples(st.just("receive"), connection, number, time),
    st.tuples(st.just("acknowledge"), id),
    st.tuples(st.just("count"), id),
    st.tuples(st.just("prune"), time, st.integers(1, 3)),
    st.tuples(st.just("send"), connection, st.sampled_from([0, 0, 0, -1, 1]), time),
    st.tuples(st.just("finish"), id),
    st.tuples(st.just("give_up"), connection, time),
    st.tuples(st.just("skip"), connection, number),
    st.tuples(st.just("use"), connection, number),
    st.tuples(st.just("add_command"), connection),
    st.tuples(st.just("attempt"), id),
    st.tuples(st.just("remove_command"), id),
)
bursts = st.lists(st.lists(operation, min_size=1, max_size=12), min_size=1, max_size=6)


def prepare(tables: Database) -> None:
    for each in (ADDRESS, OTHER_ADDRESS):
        users.add(tables)
        routers.keep(tables, each)
    for n, each_connection in enumerate(CONNECTIONS):
        connections.add(tables, ConnectionRecord(each_connection, 1))
        ratchets.put(tables, each_connection, RatchetRecord(state=b""))
        send_queues.add(tables, send_queue(1, n, each_connection))


async def play(folder: Path, plan: list[list[tuple[Any, ...]]]) -> None:
    """Each burst is called at once, and then awaited; after it the file is opened again."""
    model = Model()
    records = await Records.open(folder / "agent.db")
    try:
        await records.write(prepare)
        for burst in plan:
            calls = [records.write(JOBS[name], *values) for name, *values in burst]
            results = await asyncio.gather(*calls, return_exceptions=True)
            for (name, *values), result in zip(burst, results, strict=True):
                found = REFUSED if isinstance(result, StoreError) else result
                assert found == getattr(model, name)(*values), name
            await records.close()
            records = await Records.open(folder / "agent.db")
            await records.read(compare, model)
    finally:
        await records.close()


def compare(tables: Database, model: Model) -> None:
    assert check(tables) == []
    for u in USERS:
        for r in ROUTERS:
            compare_service(tables, model, u, r)
    for c in CONNECTIONS:
        waiting = [
            (m.id, m.attempts, m.first_seconds, received.body(tables, m.id))
            for m in received.waiting(tables, c)
        ]
        assert waiting == [
            (id, attempts, first, b"body %d" % n)
            for id, (owner, n, acked, attempts, first) in model.inbox.items()
            if owner == c and not acked
        ]
        left = outgoing.waiting(tables, to_queue(c))
        assert [(d.number, *d.message, d.created) for d in left] == [
            each for each in model.deliveries if each[1] == c
        ]
        assert all(outgoing.get(tables, d.message) is not None for d in left)
        assert [key.n for key in ratchets.skipped(tables, c)] == model.keys[c]
        kept = connections.get(tables, c)
        assert kept is not None
        assert kept.sent_id == model.sent[c]
    found = commands.of_connections(tables, CONNECTIONS)
    assert {x.id: (x.connection, x.attempts) for some in found.values() for x in some} == (
        model.commands
    )
    ids = tables.ask("SELECT id, body IS NULL FROM received ORDER BY id")
    assert [(id, bool(gone)) for id, gone in ids] == [(i, m[2]) for i, m in model.inbox.items()]


def compare_service(tables: Database, model: Model, u: int, r: int) -> None:
    """S001-86: the tally is that of the associated queues."""
    mine = sorted(
        (key[1], assoc)
        for key, (owner, assoc, deleted) in model.queues.items()
        if (owner, key[0]) == (u, r) and not deleted
    )
    pages = {
        which: [q.recipient_id for q in receive_queues.page(tables, u, r, which=which)]
        for which in Which
    }
    assert pages == {
        Which.ALL: [id for id, _ in mine],
        Which.SINGLE: [id for id, assoc in mine if not assoc],
        Which.ASSOCIATED: [id for id, assoc in mine if assoc],
    }
    service = services.get(tables, u, r)
    if (u, r) not in model.services:
        assert service is None
        return
    assert service is not None
    assert (service.credentials.fingerprint, service.service_id) == model.services[u, r]
    assert service.tally == Tally.of(QueueId(id) for id in pages[Which.ASSOCIATED])


@given(bursts)
@settings(max_examples=60, deadline=None)
def test_records_are_what_dictionaries_are(plan: list[list[tuple[Any, ...]]]) -> None:
    """S001-77, S001-78, S001-84, S001-86, S001-87: whatever the order, with calls that are grouped,
    calls that fail among them, and restarts."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder), plan))
