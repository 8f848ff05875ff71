"""No operation walks through a table that can be long."""

from __future__ import annotations

import inspect
import re
import sqlite3
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from headgate.agent.model import Which
from headgate.agent.records import (
    Records,
    commands,
    connections,
    outgoing,
    push_tokens,
    ratchets,
    receive_queues,
    received,
    requests,
    routers,
    send_queues,
    services,
    steps,
    users,
)
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.outgoing import OutgoingMessage
from headgate.agent.records.push_tokens import PushTokenRecord
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.requests import Asked
from headgate.agent.records.steps import RatchetStep
from headgate.core.model.ids import ServiceId
from tests.support.agent_records import (
    ADDRESS,
    C1,
    C2,
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

Call = tuple[Callable[..., Any], tuple[Any, ...]]

QUEUE, TO = (1, queue_id(1)), send_queue(1).key
STEP = RatchetStep(b"", [skipped_key(5)], [skipped_key(1)])
REPLY = receive_queue(1, 8, 1, C2)
SENT: OutgoingMessage = outgoing_message(1)

CALLS: list[Call] = [
    (users.add, ()),
    (users.get, (1,)),
    (routers.keep, (ADDRESS,)),
    (routers.get, (1,)),
    (routers.find, (ADDRESS,)),
    (routers.of_user, (1,)),
    (services.put_credentials, (1, 1, CREDENTIALS)),
    (services.get, (1, 1)),
    (services.of_user, (1,)),
    (services.put_service_id, (1, 1, ServiceId(b"x"))),
    (services.put_service_id, (1, 1, ServiceId(b"y"))),
    (connections.add, (ConnectionRecord(C2, 1),)),
    (connections.get, (C1,)),
    (connections.get_many, ([C1, C2],)),
    (connections.named, (1, "name")),
    (connections.page, (1,)),
    (connections.amend, (C1,)),
    (connections.count_received, (C1, 1, b"")),
    (receive_queues.add, (receive_queue(1, 1, 1, assoc=True),)),
    (receive_queues.get, (QUEUE,)),
    (receive_queues.get_many, ([QUEUE],)),
    (receive_queues.of_connections, ([C1],)),
    *[(receive_queues.page, (1, 1, b"", 5, which)) for which in Which],
    (receive_queues.put_e2e_key, (QUEUE, b"")),
    (receive_queues.put_notice, (QUEUE, b"")),
    (receive_queues.put_notifier, (QUEUE, b"", b"", b"")),
    (receive_queues.of_notifier, (1, b"")),
    (services.associate, (1, 1, [queue_id(1)])),
    (services.change, (1, [queue_id(1)])),
    (services.clear, (1, 1)),
    (steps.before_skey, (send_queue(1), "SKEY", b"")),
    (send_queues.add, (send_queue(1),)),
    (send_queues.get, (TO,)),
    (send_queues.of_connection, (C1,)),
    (send_queues.put_status, (TO, "")),
    (ratchets.put, (C1, RatchetRecord())),
    (ratchets.get, (C1,)),
    (ratchets.step, (C1, b"", [skipped_key(1)], [skipped_key(1)])),
    (ratchets.skipped, (C1,)),
    (steps.before_showing, (incoming(QUEUE, 1), NOW, STEP)),
    (received.add, (incoming(QUEUE, 2), NOW)),
    (received.recognise, (C1, QUEUE, b"broker 1", b"")),
    (received.recognise, (C1, QUEUE, b"other", incoming(QUEUE, 1).sealed_hash)),
    (received.get, (1,)),
    (received.body, (1,)),
    (received.waiting, (C1,)),
    (received.count, (1,)),
    (received.uncount, ([1],)),
    (received.acknowledge, (1,)),
    (steps.before_ack, (1,)),
    (received.prune, (NOW,)),
    (steps.before_send, (SENT, [TO], b"")),
    (connections.count_sent, (C1, 2, b"")),
    (outgoing.add, (outgoing_message(2), [TO])),
    (outgoing.get, (SENT.key,)),
    (outgoing.waiting, (TO,)),
    (outgoing.head, (TO,)),
    (outgoing.queues_waiting, ([C1],)),
    (outgoing.queues_page, ()),
    (outgoing.put_delays, (1, 1.0, 1.0)),
    (outgoing.sent, (1,)),
    (outgoing.give_up, (TO,)),
    (steps.before_confirmation, (REPLY, RatchetRecord(), outgoing_message(1, C2), TO)),
    (commands.add, (C1, 1, "", b"")),
    (commands.get, (1,)),
    (commands.has, (C1, commands.CONNECTED)),
    (commands.of_connections, ([C1],)),
    (commands.of_router, (1,)),
    (commands.page, ()),
    (commands.attempt, (1,)),
    (commands.remove, (1,)),
    *[(requests.add, (asked, C1, b"", b"", NOW)) for asked in Asked],
    *[(requests.get, (asked, 1)) for asked in Asked],
    *[(requests.waiting, (asked, C1)) for asked in Asked],
    *[(requests.waiting_ids, (asked, C1)) for asked in Asked],
    *[(requests.page, (asked,)) for asked in Asked],
    *[(requests.answer, (asked, 1)) for asked in Asked],
    (push_tokens.keep, (PushTokenRecord("", b"", b"", b""),)),
    (push_tokens.get, ("", b"")),
    (push_tokens.put_registered, ("", b"", b"", b"")),
    (push_tokens.put_verified, ("", b"", True)),
    (push_tokens.remove, ("", b"")),
    (receive_queues.delete, (QUEUE,)),
    (receive_queues.deleted_of, (C1,)),
    (receive_queues.delete_of, (C1,)),
    (receive_queues.remove, (QUEUE,)),
    (send_queues.remove, (TO,)),
    (services.remove, (1, 1)),
    (services.switch_off, (1,)),
    (connections.delete, (C1,)),
    (connections.remove, (C1,)),
]
FEW = {users.everyone, users.switch_services, routers.everything}
"""These read or change a table that is short by nature."""


async def test_every_operation_finds_its_rows_by_an_index() -> None:
    """S004-25: so that no operation costs more in a bigger table."""
    texts: dict[str, str] = {}
    async with await Records.memory() as records:
        await prepare(records)
        for function, values in CALLS:
            name = f"{function.__module__}.{function.__name__}"

            def note(text: str, name: str = name) -> None:
                texts.setdefault(text, name)

            await inside(records, lambda db, note=note: db.set_trace_callback(note))  # type: ignore[misc]
            await records.write(function, *values)
        await inside(records, lambda db: db.set_trace_callback(None))
        explained = {text: await inside(records, lambda db, t=text: plan(db, t)) for text in texts}  # type: ignore[misc]
    assert len(explained) > len(CALLS) / 2
    assert any(line.startswith("SEARCH received") for some in explained.values() for line in some)
    walks = {
        (texts[text], line)
        for text, lines in explained.items()
        for line in lines
        if re.match(r"SCAN (?!(want|CONSTANT|\d+ CONSTANT))", line) or "TEMP B-TREE" in line
    }
    assert walks == set()


def plan(db: sqlite3.Connection, text: str) -> list[str]:
    if re.match(r"(BEGIN|COMMIT|SAVEPOINT|RELEASE|ROLLBACK|PRAGMA|--)", text):
        return []
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}")]


@pytest.mark.parametrize(
    "module",
    [
        *(users, routers, services, connections, receive_queues, send_queues, ratchets),
        *(received, outgoing, commands, requests, steps),
    ],
)
def test_no_operation_was_forgotten(module: ModuleType) -> None:
    operations = {
        function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert operations - {function for function, _ in CALLS} - FEW == set()
