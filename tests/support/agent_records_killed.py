"""Does one step of an agent's records in processes that kill themselves, at each statement in turn.

``python -m tests.support.agent_records_killed FOLDER STEP`` prints the state before the step, the
one that a reader finds after each kill, and the one after the step that nobody killed. A state is
a digest of all tables. Processes are forked before anything is opened.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from headgate.agent.records import (
    Database,
    Records,
    connections,
    outgoing,
    ratchets,
    receive_queues,
    received,
    requests,
    send_queues,
    services,
    steps,
)
from headgate.agent.records.connections import ConnectionRecord, ConnectionStatus
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.requests import Asked
from headgate.agent.records.steps import RatchetStep
from headgate.core.model.ids import ServiceId
from tests.support.agent_records import (
    C1,
    C2,
    C3,
    CREDENTIALS,
    NOW,
    incoming,
    inside,
    outgoing_message,
    prepare,
    queue_id,
    receive_queue,
    send_queue,
    skipped_key,
)

USER = ROUTER = 1
X, Y = ServiceId(b"x"), ServiceId(b"y")


def before(tables: Database) -> None:
    """What is there when a step begins."""
    connections.add(tables, ConnectionRecord(C2, USER))
    services.put_credentials(tables, USER, ROUTER, CREDENTIALS)
    services.put_service_id(tables, USER, ROUTER, X)
    for n in range(5):
        receive_queues.add(tables, receive_queue(ROUTER, n, USER, assoc=n < 3))
    send_queues.add(tables, send_queue(ROUTER))
    ratchets.put(tables, C1, RatchetRecord(state=b"old"))
    ratchets.step(tables, C1, b"old", [skipped_key(1), skipped_key(2)])
    received.add(tables, incoming((ROUTER, queue_id(0)), 1), NOW)
    steps.before_send(tables, outgoing_message(1), [send_queue(ROUTER).key])
    requests.add(tables, Asked.REQUEST, C1, b"content", b"info", NOW)


def secure(tables: Database) -> None:
    steps.before_skey(tables, send_queue(ROUTER, 1, C2), "SKEY", b"arguments")


def send(tables: Database) -> None:
    steps.before_send(tables, outgoing_message(2), [send_queue(ROUTER).key], b"new")


def confirm(tables: Database) -> None:
    reply = receive_queue(ROUTER, 9, USER, C2, assoc=True)
    ratchet, queue = RatchetRecord(state=b"first"), send_queue(ROUTER).key
    steps.before_confirmation(tables, reply, ratchet, outgoing_message(1, C2), queue)


def receive(tables: Database) -> None:
    step = RatchetStep(b"new", [skipped_key(3)], [skipped_key(1)])
    steps.before_showing(tables, incoming((ROUTER, queue_id(0)), 2), NOW, step)


def acknowledge(tables: Database) -> None:
    steps.before_ack(tables, 1)


def associate(tables: Database) -> None:
    services.associate(tables, USER, ROUTER, [queue_id(n) for n in range(5)])


def change_service(tables: Database) -> None:
    services.put_service_id(tables, USER, ROUTER, Y)


def drop_service(tables: Database) -> None:
    services.remove(tables, USER, ROUTER)


def finish(tables: Database) -> None:
    outgoing.sent(tables, 1)


def accept(tables: Database) -> None:
    requests.answer(tables, Asked.REQUEST, 1)
    joining = ConnectionRecord(C3, USER, status=ConnectionStatus.JOINING)
    connections.add(tables, joining)
    steps.before_skey(tables, send_queue(ROUTER, 2, C3), "SKEY", b"arguments")


def delete(tables: Database) -> None:
    connections.delete(tables, C1)


def remove(tables: Database) -> None:
    connections.remove(tables, C1)


STEPS: dict[str, Callable[[Database], None]] = {
    step.__name__: step
    for step in (
        *(secure, send, confirm, receive, acknowledge, associate, change_service, drop_service),
        *(finish, accept, delete, remove),
    )
}


async def make(path: Path) -> None:
    async with await Records.open(path) as records:
        await prepare(records)
        await records.write(before)


async def run(path: Path, step: Callable[[Database], None], at: int) -> None:
    """Do the step and die before statement number `at`, or after the last."""
    records = await Records.open(path)
    seen = 0

    def count(text: str) -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

    await inside(records, lambda db: db.set_trace_callback(count))
    await records.write(step)
    # It is on the disk now, and nobody closes the file.
    os.kill(os.getpid(), signal.SIGTERM)


def state(path: Path) -> str:
    """A digest of all tables, after whatever was left in the log was taken in."""
    db = sqlite3.connect(path)
    try:
        [(whole,)] = db.execute("PRAGMA integrity_check")
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        rows = [(name, db.execute(f"SELECT * FROM {name}").fetchall()) for (name,) in names]
    finally:
        db.close()
    return sha256(repr((whole, rows)).encode()).hexdigest()[:16]


def main(folder: Path, name: str) -> None:
    template = folder / "template.db"
    if (pid := os.fork()) == 0:
        asyncio.run(make(template))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the file could not be made"
    print(state(template), flush=True)
    at = 0
    while True:
        at += 1
        copy = folder / f"{name} {at}.db"
        shutil.copy(template, copy)
        if (pid := os.fork()) == 0:
            asyncio.run(run(copy, STEPS[name], at))
            os._exit(3)
        _, status = os.waitpid(pid, 0)
        print(state(copy), flush=True)
        if os.WTERMSIG(status) == signal.SIGTERM:  # all statements were done
            return
        assert os.WTERMSIG(status) == signal.SIGKILL, status


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
