"""What is secret is in no representation, no error and no trace of one."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import traceback
from pathlib import Path

import pytest

from headgate.agent.records import (
    Records,
    commands,
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
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.outgoing import OutgoingMessage, Sealing
from headgate.agent.records.push_tokens import PushTokenRecord
from headgate.agent.records.ratchets import RatchetRecord, SkippedKey
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.received import Incoming
from headgate.agent.records.requests import Asked, Question
from headgate.agent.records.routers import Router
from headgate.agent.records.send_queues import SendQueue
from headgate.agent.records.services import Credentials, Service
from headgate.agent.records.steps import RatchetStep
from headgate.core.model.tally import NOTHING
from headgate.errors import StoreError
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.agent_records import C1, NOW

S = b"my secret"
SKIPPED = SkippedKey(S, 1, S, S)
SEALING = Sealing(S, S, S, 1)
CREDENTIALS = Credentials(b"", S, b"")
MESSAGE = OutgoingMessage(C1, 1, "", S, b"", NOW, 0, SEALING)
VALUES = [
    Router(1, RouterAddress(("h",), None, b"k" * 32, S.decode())),
    CREDENTIALS,
    Service(1, 1, CREDENTIALS, None, NOTHING),
    ConnectionRecord(C1, 1, info=S),
    ReceiveQueue(
        1, b"", 1, C1, "", S, S, S, S, notifier_key=S, notice_key=S, link_key=S, link_root_key=S
    ),
    SendQueue(1, b"", C1, S, S),
    PushTokenRecord("", S, S, S, b"", S),
    RatchetRecord(S, S, S, S, S),
    SKIPPED,
    RatchetStep(S, [SKIPPED], [SKIPPED]),
    Incoming(C1, (1, b""), b"", 1, b"", "", S),
    SEALING,
    MESSAGE,
    commands.CommandRecord(1, C1, 1, "", S, 0),
    Question(1, C1, S, S, NOW),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_does_not_show_its_secrets(value: object) -> None:
    assert S.decode() not in repr(value)
    assert S.decode() not in str(value)
    assert type(value).__name__ in repr(value)


PUBLIC = {"key_kind", "key_hash"}
SECRET = {"private", "key", "secret", "body", "state", "iv"}


def test_fields_that_hold_keys_or_bodies_are_not_shown() -> None:
    """By their names, so that a new field is not forgotten."""
    modules = [
        *(services, connections, receive_queues, send_queues, ratchets, received, outgoing),
        *(commands, requests),
    ]
    shown = {
        f"{name}.{field.name}"
        for module in modules
        for name, value in inspect.getmembers(module, dataclasses.is_dataclass)
        for field in dataclasses.fields(value)
        if field.repr and field.name not in PUBLIC
        if SECRET & {*field.name.split("_")}
    }
    assert shown == set()


async def test_an_error_does_not_show_what_was_to_be_stored(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    queue = ReceiveQueue(1, b"q", 1, C1, "", S, S, S)
    async with await Records.open(path) as records:
        await records.write(connections.add, ConnectionRecord(C1, 1, info=S))
        await records.write(receive_queues.add, queue)
        for job, value in [
            (receive_queues.add, queue),
            (receive_queues.add, ReceiveQueue(2**70, b"q", 1, C1, "", S, S, S)),
            (receive_queues.add, ReceiveQueue(1, b"r", 1, C1, "", S, {S}, S)),  # type: ignore[arg-type]
            (connections.add, ConnectionRecord(C1, 1, info=S)),
        ]:
            with pytest.raises(StoreError) as caught:
                await records.write(job, value)  # type: ignore[arg-type]
            assert S.decode() not in "".join(traceback.format_exception(caught.value))
        with pytest.raises(StoreError) as caught:
            await records.write(steps.before_send, MESSAGE, [])
        assert S.decode() not in "".join(traceback.format_exception(caught.value))
        await records.write(requests.add, Asked.REQUEST, C1, S, S, NOW)
    assert S.decode() not in caplog.text
