"""``headgate queue``, against a router on a port."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.core.commands import Open, Send
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.server.admin.app import make_app
from headgate.server.admin.http_server import serving
from headgate.server.admin.queues import QueueAdmin
from headgate.server.in_process import InProcessSession
from headgate.server.net.listener import bind
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

TOKEN = "queues' token"
WORK = Domain("work", Mode.PRIORITY)


@pytest.fixture
def address() -> Iterator[str]:
    """A router with two queues, of which one is open and has three messages."""
    listening = bind("admin", "127.0.0.1", 0)
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        router = Router(store=MemoryStore(), domains={"work": WORK}, limits=Limits())
        await router.start()
        open_, left = InProcessSession(router, "open"), InProcessSession(router, "left")
        await open_.ask(Open, QueueId(b"bmq://work/jobs"), "work", read=False, write=True)
        await left.ask(Open, QueueId(b"bmq://work/old"), "work", read=False, write=True)
        for number in range(3):
            message = Message(MessageId(b"%d" % number), b"body", router.clock())
            await open_.ask(Send, QueueId(b"bmq://work/jobs"), message)
        left.close()
        app = make_app(
            problems=router.problems,
            status=dict,
            metrics=lambda: b"",
            rows=10,
            token=TOKEN,
            queues=QueueAdmin(router),
        )
        async with serving(app, listening):
            ready.set()
            await asyncio.to_thread(stop.wait)
        await router.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(20)
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()


def run(*arguments: str, answer: str | None = None, token: str = TOKEN) -> Result:
    given = {"HEADGATE_ADMIN__TOKEN": token, "http_proxy": "http://127.0.0.1:1"}
    return CliRunner().invoke(cli, ["queue", *arguments], env=given, input=answer)


def rows(address: str) -> list[dict[str, object]]:
    listed = run("ls", "work", "--json", "--address", address)
    assert listed.exit_code == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def test_queues_are_listed_with_what_they_hold(address: str) -> None:
    found = {row["queue"]: row for row in rows(address)}
    assert set(found) == {"bmq://work/jobs", "bmq://work/old"}
    assert found["bmq://work/jobs"]["messages"] == 3
    assert found["bmq://work/jobs"]["producers"] == 1
    assert run("ls", "nowhere", "--address", address).exit_code == 1


@pytest.mark.parametrize("action", ["purge", "delete"])
def test_nothing_is_removed_without_an_operators_token(address: str, action: str) -> None:
    """Whoever may look, as Prometheus does, may not act."""
    refused = run(action, "work/jobs", "--yes", "--address", address)
    assert refused.exit_code == 5
    assert "admin.operator_token" in refused.stderr
    assert rows(address)[0]["messages"] == 3


def test_who_is_not_answered_or_not_allowed_is_told_by_the_exit_code(address: str) -> None:
    assert run("ls", "work", "--address", address, token="wrong").exit_code == 5
    free = bind("free", "127.0.0.1", 0)
    port = free.getsockname()[1]
    free.close()
    assert run("ls", "work", "--address", f"127.0.0.1:{port}").exit_code == 4
