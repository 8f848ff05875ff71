"""A router with a journal: what happened is in the segments, whatever happens to the sealer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.channels.audience import BARE, Kind
from headgate.core.commands import Confirm, Create, Interest, Open, Send
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.tally import name_of
from headgate.errors import ConfigError
from headgate.journal import reader
from headgate.journal import sealer_process as journal_module
from headgate.journal.sealer import LOCK
from headgate.journal.sealer_process import JournalSettings
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore

DOMAINS = {
    "line": Domain("line", Mode.EXCLUSIVE),
    "work": Domain("work", Mode.PRIORITY, journal_bodies=True),
    "quiet": Domain("quiet", Mode.PRIORITY),
}
Q, JOBS, QUIET = QueueId(b"secret id"), QueueId(b"jobs"), QueueId(b"quiet")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "SEAL_SECONDS", 0.05)
    monkeypatch.setattr(journal_module, "RESTART_SECONDS", (0.01,))


def make(folder: Path) -> Router:
    return Router(
        store=SqliteStore(folder / "q.db"),
        domains=DOMAINS,
        limits=Limits(),
        journal=JournalSettings(folder / "journal", 10**6, None, None),
    )


def told(folder: Path, kind: str) -> list[dict[str, object]]:
    return [fact for fact in reader.facts(folder / "journal") if fact["kind"] == kind]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  of another process, there is no event
            await asyncio.sleep(0.02)


async def send(session: InProcessSession, queue: QueueId, number: int) -> None:
    message = Message(MessageId(b"%d" % number), b"the body", 0.0, {"x": number})
    await session.ask(Send, queue, message)


async def test_what_happened_is_in_the_journal_after_a_stop(tmp_path: Path) -> None:
    router = make(tmp_path)
    await router.start()
    session = InProcessSession(router, "phone")
    await session.ask(Create, Q, "line", subscribe=True)
    await send(session, Q, 1)
    delivery = await session.delivery()
    await session.ask(Confirm, Q, (delivery.message.id,))
    router.broker.channels.subscribe(session.id, Kind.EXACT, [b"news"], BARE)
    router.broker.channels.publish(Kind.EXACT, [(b"news", b"12345")] * 3)
    session.close()
    await router.stop()
    kinds = Counter(fact["kind"] for fact in reader.facts(tmp_path / "journal"))
    assert kinds == {
        "RouterStarted": 1,
        "SessionOpened": 1,
        "QueueCreated": 1,
        "Subscribed": 1,
        "Accepted": 1,
        "Delivered": 1,
        "Confirmed": 1,
        "ChannelCounted": 1,
        "SessionClosed": 1,
        "Unsubscribed": 1,
    }
    [counted] = told(tmp_path, "ChannelCounted")
    assert counted["channel"] == b"news"
    assert (counted["published"], counted["size"], counted["deliveries"]) == (3, 15, 3)


async def test_an_exclusive_queue_is_nowhere_named_by_its_id_and_senders_not_at_all(
    tmp_path: Path,
) -> None:
    router = make(tmp_path)
    await router.start()
    owner, sender = InProcessSession(router, "owner"), InProcessSession(router, "sender")
    await owner.ask(Create, Q, "line", subscribe=True)
    await send(sender, Q, 1)
    await router.stop()
    files = list((tmp_path / "journal").iterdir())
    assert files
    facts = list(reader.facts(tmp_path / "journal"))
    assert not any(text in str(fact) for fact in facts for text in ("secret id", "the body"))
    about = [fact for fact in facts if fact.get("queue") == name_of(Q)]
    assert {fact["kind"] for fact in about} == {
        "QueueCreated",
        "Subscribed",
        "Accepted",
        "Delivered",
    }
    assert not any(fact.get("session") == sender.id for fact in about)


async def test_bodies_are_told_only_where_the_domain_says_so(tmp_path: Path) -> None:
    router = make(tmp_path)
    await router.start()
    session = InProcessSession(router, "s")
    for queue, domain in ((JOBS, "work"), (QUIET, "quiet")):
        interests = (Interest(),)
        await session.ask(Open, queue, domain, write=True, interests=interests)
        await send(session, queue, 7)
    await router.stop()
    bodies = {fact["queue"]: fact.get("body") for fact in told(tmp_path, "Accepted")}
    assert bodies == {JOBS: b"the body", QUIET: None}
    assert all(fact["properties"] for fact in told(tmp_path, "Accepted"))


async def test_a_sealer_that_is_killed_is_started_again_and_nothing_is_missing(
    tmp_path: Path,
) -> None:
    router = make(tmp_path)
    await router.start()
    journal = router.journal
    assert journal is not None
    session = InProcessSession(router, "s")
    await session.ask(Create, Q, "line")
    for number in range(1, 31):
        await send(session, Q, number)
        if number % 10 == 0:
            await until(lambda: journal.process is not None)
            assert journal.process is not None
            os.kill(journal.process.pid, signal.SIGKILL)
            starts = journal.starts
            await until(lambda: journal.starts > starts)  # noqa: B023
    await until(lambda: journal.lag == 0)
    await until(lambda: router.broker.shard.outbox.bytes == 0)
    await router.stop()
    numbers = [fact["number"] for fact in reader.facts(tmp_path / "journal")]
    assert numbers == sorted(set(numbers))
    assert len(told(tmp_path, "Accepted")) == 30


async def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    for _ in range(3):
        router = make(tmp_path)
        await router.start()
        InProcessSession(router, "s").close()
        await router.stop()
    numbers = [fact["number"] for fact in reader.facts(tmp_path / "journal")]
    assert numbers == sorted(set(numbers))
    assert len(told(tmp_path, "SessionOpened")) == 3
    assert [f.problem for f in reader.verify(tmp_path / "journal")] == [None] * 3


async def test_status_and_gauges_show_the_lag(tmp_path: Path) -> None:
    router = make(tmp_path)
    await router.start()
    session = InProcessSession(router, "s")
    await session.ask(Create, Q, "line")
    gauges = router.gauges()
    assert gauges["outbox_bytes"] > 0
    assert router.journal is not None
    await until(lambda: router.journal is not None and router.journal.lag == 0)
    status = router.status()["journal"]
    assert isinstance(status, dict)
    assert status["lag"] == 0
    await router.stop()


async def test_a_sealer_that_ends_again_and_again_is_a_problem_and_its_words_are_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = tmp_path / "journal" / LOCK
    lock.mkdir(parents=True)  # which nobody can open as a file
    router = make(tmp_path)
    await router.start()
    journal = router.journal
    assert journal is not None
    problems: set[str] = set()

    def five_have_ended() -> bool:
        problems.update(router.problems())  # also while the next one runs and is still silent
        return journal.starts > 5

    await until(five_have_ended)
    assert problems
    for problem in problems:
        assert problem.startswith("journal: the sealer ended ")
        assert "segments cannot be written; check the folder's rights" in problem
    lines = [r for r in caplog.records if r.message == "the sealer says"]
    assert all(str(tmp_path / "journal") in r.fields["output"] for r in lines)  # type: ignore[attr-defined]
    lock.rmdir()
    await until(lambda: not router.problems())
    await router.stop()
    assert told(tmp_path, "RouterStarted")


async def test_a_traceback_of_a_sealer_is_one_line_and_not_too_long(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text(
        "#!/bin/sh\n"
        "echo Traceback, of which there is more: >&2\n"
        "yes 'File x, line 1' | head -c 9999 >&2\n"
        "exit 1\n"
    )
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    router = make(tmp_path)
    await router.start()
    await until(lambda: bool(router.problems()))
    await router.stop()
    lines = [r.fields["output"] for r in caplog.records if r.message == "the sealer says"]  # type: ignore[attr-defined]
    assert lines
    assert all(len(line) <= journal_module.OUTPUT_BYTES for line in lines)
    assert lines[0].startswith("Traceback, of which there is more:\nFile x, line 1\n")


async def test_a_journal_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("not a folder")
    router = make(tmp_path)
    with pytest.raises(ConfigError, match=r"journal cannot be read: Not a directory; name another"):
        await router.start()
    await router.stop()
