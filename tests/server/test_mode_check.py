"""A domain whose mode was changed in the file, and what is stored of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headgate.core.commands import Open, Reconfigure, Send
from headgate.core.facts import Fact, ModeKept
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.errors import ConfigError
from headgate.server.check import findings
from headgate.server.config import Config, load_config
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.server.state_directory import open_store
from headgate.store.sqlite import SqliteStore

MODES = {
    "priority": Domain("work", Mode.PRIORITY),
    "fanout": Domain("work", Mode.FANOUT, apps=("a", "b")),
    "broadcast": Domain("work", Mode.BROADCAST),
}
QUEUE = QueueId(b"bmq://work/jobs")


async def store_one(file: Path, domain: Domain) -> None:
    router = Router(store=SqliteStore(file), domains={"work": domain}, limits=Limits())
    await router.start()
    session = InProcessSession(router, "writer")
    await session.ask(Open, QUEUE, "work", read=False, write=True)
    await session.ask(Send, QUEUE, Message(MessageId(b"1"), b"body", router.clock()))
    await router.stop()


def config_in(folder: Path, mode: str) -> Config:
    (folder / "state").mkdir(exist_ok=True)
    apps = '\napps = ["a", "b"]' if mode == "fanout" else ""
    path = folder / "headgate.toml"
    path.write_text(
        f'directory = "state"\n[admin]\nport = 0\n[domains.work]\nmode = "{mode}"{apps}\n'
    )
    return load_config(path, {})


CHANGES = [
    ("priority", "fanout"),
    ("priority", "broadcast"),
    ("fanout", "priority"),
    ("fanout", "broadcast"),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
async def test_a_start_that_would_lose_messages_is_refused_and_loses_none(
    tmp_path: Path, before: str, after: str
) -> None:
    """BMQ-64, S003-10: the text says what there is, and what to do."""
    file = tmp_path / "q.db"
    await store_one(file, MODES[before])
    router = Router(store=SqliteStore(file), domains={"work": MODES[after]}, limits=Limits())
    with pytest.raises(ConfigError, match=rf"1 message in 1 queue.*set the mode back to {before}"):
        await router.start()
    again = Router(store=SqliteStore(file), domains={"work": MODES[before]}, limits=Limits())
    await again.start()
    assert (await again.store.extent()).messages == 1
    await again.stop()


async def test_an_empty_queue_does_not_stand_in_the_way_of_another_mode(tmp_path: Path) -> None:
    file = tmp_path / "q.db"
    await store_one(file, MODES["broadcast"])
    router = Router(store=SqliteStore(file), domains={"work": MODES["fanout"]}, limits=Limits())
    await router.start()
    assert (await router.store.extent()).queues == 1
    await router.stop()


def test_the_check_tells_it_before_the_start(tmp_path: Path) -> None:
    """Whether or not a router is running on the file, with the old mode."""
    config = config_in(tmp_path, "priority")
    asyncio.run(store_one(config.directory / "queues.db", MODES["priority"]))
    assert all(finding.ok for finding in findings(config))
    config = config_in(tmp_path, "fanout")
    [store] = [finding for finding in findings(config) if finding.name == "store"]
    assert not store.ok
    assert "domains.work.mode is fanout" in store.text
    with asyncio.Runner() as runner:
        running = open_store(config)
        runner.run(running.open())
        try:
            [store] = [finding for finding in findings(config) if finding.name == "store"]
        finally:
            runner.run(running.close())
    assert not store.ok
    assert "domains.work.mode is fanout" in store.text


async def test_a_running_router_says_that_it_keeps_the_mode_and_why(tmp_path: Path) -> None:
    """BMQ-65."""
    router = Router(
        store=SqliteStore(tmp_path / "q.db"), domains={"work": MODES["priority"]}, limits=Limits()
    )
    facts: list[Fact] = []
    router.watch(facts.extend)
    await router.start()
    router.turns.insist([Reconfigure(MODES["fanout"])])
    await router.stop()
    [kept] = [fact for fact in facts if isinstance(fact, ModeKept)]
    assert kept.domain == "work"
    assert "stays priority, not fanout" in kept.reason
