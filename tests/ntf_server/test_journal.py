"""The journal of a notification server: what happened is in its segments, and nobody is named."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.core.model.ids import QueueId
from headgate.core.model.tally import name_of
from headgate.core.ntf_facts import NoticesCounted, TokenRemoved
from headgate.errors import StoreError
from headgate.journal import reader
from headgate.journal.sealer_process import JournalSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.journal import NtfJournal, NtfJournalSettings, Since
from headgate.ntf_server.records import Records, outbox
from headgate.ntf_server.server import NtfServer
from headgate.server.identity import Identity
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.replies import IdSub
from headgate.wire.smp.codec.replies import Ok
from tests.ntf_server.test_server import SETTINGS, is_pushed, registered
from tests.support.ntf_app import App
from tests.support.ntf_examples import NOTIFIER_PRIVATE, TEST_DEVICE
from tests.support.ntf_notifiers import until
from tests.support.ntf_pushes import KeepingProvider, when
from tests.support.ntf_subscribed import subscribed
from tests.support.smp_router import Rig

MIB = 1 << 20


def settings_in(folder: Path) -> NtfJournalSettings:
    segments = JournalSettings(folder / "journal", 64 * MIB, None, None, "headgate_ntf")
    return NtfJournalSettings(segments, time.time, time.time)


@asynccontextmanager
async def serving(folder: Path, provider: KeepingProvider, store: str) -> AsyncIterator[NtfServer]:
    identity = await asyncio.to_thread(Identity.open, folder / "id", "localhost", time.time())
    async with await NtfServer.open(
        NtfHost(),
        identity,
        folder,
        replace(SETTINGS, store=store),
        {Provider.APNS_TEST: provider},
        journal=settings_in(folder),
    ) as server:
        yield server


def facts_in(folder: Path) -> list[dict[str, Any]]:
    return list(reader.facts(folder / "journal"))


async def test_what_happened_is_in_the_journal_and_nobody_is_named(
    rig: Rig, tmp_path: Path, store: str
) -> None:
    """Tokens and notifiers by their digests, pushes and notices by their counts; no device, no
    code, no key and nothing that was sealed is anywhere in the files."""
    provider, client = KeepingProvider(), await rig.connect()
    async with (
        serving(tmp_path, provider, store) as server,
        await App.connect(server.address) as app,
    ):
        keys = await registered(app, provider)
        queue = await subscribed(app, keys, rig, client)
        await is_pushed(provider, keys, client, queue, rig)
        code = keys.opened(provider.pushed[0][1])  # type: ignore[arg-type]
        sealed = provider.pushed[-1][1].sealed  # type: ignore[union-attr]
        assert await app.ask(c.TDel(), keys) == Ok()
    facts = await asyncio.to_thread(facts_in, tmp_path)
    token, notifier = name_of(QueueId(keys.token)), name_of(QueueId(queue.notifier))
    kinds = [fact["kind"] for fact in facts]
    assert kinds[0] == "NtfStarted"
    changes = [fact for fact in facts if fact["kind"].startswith("Token")]
    assert {fact["token"] for fact in changes} == {token}
    assert changes[0]["kind"] == "TokenRegistered"
    assert "ACTIVE" in [fact.get("status") for fact in changes]
    assert changes[-1]["kind"] == "TokenRemoved"
    assert changes[-1]["count"] == 1
    [added] = [fact for fact in facts if fact["kind"] == "NotifierAdded"]
    assert (added["notifier"], added["token"]) == (notifier, token)
    assert added["router"] == f"{rig.address.hosts[0]}:{rig.address.port}"
    assert "NotifiersActive" in kinds
    counted: Counter[tuple[str, str]] = Counter()
    for fact in facts:
        if fact["kind"] == "PushesCounted":
            counted[fact["push"], fact["outcome"]] += fact["count"]
    assert counted == {("code", "delivered"): 1, ("notices", "delivered"): 1}
    assert sum(f["count"] for f in facts if f["kind"] == "NoticesCounted") == 1
    written = b"".join(path.read_bytes() for path in (tmp_path / "journal").iterdir())
    shown = repr(facts).encode() + written
    for secret in (code, sealed, keys.token, queue.notifier, TEST_DEVICE.token):
        assert secret not in shown
        assert secret.hex().encode() not in shown


async def test_after_a_restart_numbers_go_on_and_nothing_is_twice(
    tmp_path: Path, store: str
) -> None:
    for _ in range(2):
        async with serving(tmp_path, KeepingProvider(), store) as server:
            assert server.journal is not None
    facts = await asyncio.to_thread(facts_in, tmp_path)
    assert [fact["kind"] for fact in facts] == ["NtfStarted", "NtfStarted"]
    numbers = [fact["number"] for fact in facts]
    assert numbers == sorted(set(numbers))


async def test_sealed_facts_leave_the_store(tmp_path: Path, store: str) -> None:
    async with serving(tmp_path, KeepingProvider(), store) as server:
        journal, records = server.journal, server.records
        assert journal is not None
        await until(when(lambda: journal.sealer.last > 0 and records.box.bytes == 0))

        async def is_empty() -> bool:
            return (await records.read(outbox.unsealed))[1] == 0

        await until(is_empty)
        assert (journal.problem, journal.sealer.lag) == (None, 0)


async def test_facts_of_a_server_that_was_killed_are_sealed_by_the_next(
    tmp_path: Path, store: str
) -> None:
    """What was stored with its fact, and not sealed, when the process ended."""
    async with await Records.open(store, tmp_path) as records:
        await records.keep_facts(0)
        await records.write(outbox.add, TokenRemoved(1.0, b"t" * 16, 3))
    async with serving(tmp_path, KeepingProvider(), store):
        pass
    facts = await asyncio.to_thread(facts_in, tmp_path)
    assert [fact["kind"] for fact in facts] == ["TokenRemoved", "NtfStarted"]


async def test_a_store_that_fails_costs_facts_that_no_change_goes_with(tmp_path: Path) -> None:
    """They are about counts; what is stored has its facts with it."""
    errors: list[Exception] = []
    records = await Records.open("sqlite:ntf.db", tmp_path)
    journal = await NtfJournal.open(
        records, f"sqlite:{tmp_path / 'ntf.db'}", settings_in(tmp_path), errors.append
    )
    await records.probe()
    (tmp_path / "ntf.db").rename(tmp_path / "away.db")
    journal.record(NoticesCounted(1.0, "pushed", 2))
    await until(when(lambda: errors))
    assert isinstance(errors[0], StoreError)
    (tmp_path / "away.db").rename(tmp_path / "ntf.db")
    await journal.close()
    await records.close()


async def test_a_journal_without_room_is_a_problem(tmp_path: Path) -> None:
    records = await Records.open("sqlite:ntf.db", tmp_path)
    journal = await NtfJournal.open(
        records, f"sqlite:{tmp_path / 'ntf.db'}", settings_in(tmp_path), lambda error: None
    )
    assert journal.problem is None
    records.box.bytes += 1 << 40
    assert str(journal.problem).startswith("there is no room for facts")
    records.box.bytes -= 1 << 40
    await journal.close()
    await records.close()


def test_a_counter_is_looked_at_for_what_is_new() -> None:
    counter: Counter[str] = Counter()
    since = Since(counter)
    assert since.look() == []
    counter.update(["a", "a", "b"])
    assert since.look() == [("a", 2), ("b", 1)]
    counter["b"] += 4
    assert since.look() == [("b", 4)]
    assert since.look() == []


async def test_an_app_is_answered_as_before(rig: Rig, tmp_path: Path, store: str) -> None:
    """ACC-112 with a journal: the same subscription has the same id, and one fact."""
    provider = KeepingProvider()
    async with (
        serving(tmp_path, provider, store) as server,
        await App.connect(server.address) as app,
    ):
        keys = await registered(app, provider)
        snew = c.SNew(keys.token, rig.address, b"n" * 24, NOTIFIER_PRIVATE)
        first, second = await app.ask(snew, keys), await app.ask(snew, keys)
        assert isinstance(first, IdSub)
        assert first == second
    kinds = [fact["kind"] for fact in await asyncio.to_thread(facts_in, tmp_path)]
    assert kinds.count("NotifierAdded") == 1
