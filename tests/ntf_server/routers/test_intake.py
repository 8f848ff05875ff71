"""Notices on their way into the records."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.notify.notices import NoticeFate
from headgate.notify.tokens import Token
from headgate.ntf_server.records import Records, notices, tokens
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.routers import intake as taking
from headgate.ntf_server.routers.intake import NoticeIntake
from tests.conformance.ntf_records import ACTIVE, add, notice, subscription
from tests.support.ntf_notifiers import until

ROUTER = RouterNumber(1)


@pytest.fixture
async def records(tmp_path: Path) -> AsyncIterator[Records]:
    async with await Records.open("sqlite:ntf.db", tmp_path) as records:
        await records.write(tokens.put, ACTIVE)
        await records.write(add, *(subscription(n) for n in range(4)))
        yield records


async def test_many_notices_are_few_transactions(records: Records) -> None:
    """A notice takes the place of one of the same notifier that still waits."""
    pushed: list[Token] = []
    errors: list[Exception] = []
    intake = NoticeIntake(records, pushed.append, errors.append)
    before = records.commits
    for seconds in range(1000):
        for n in range(4):
            intake.take(ROUTER, notice(n, seconds))
    await intake.close()
    assert records.commits - before <= 2
    assert [entry.seconds for entry in await records.read(notices.latest, ACTIVE.id)] == [999] * 4
    assert 1 <= len(pushed) <= 2
    assert intake.fates[NoticeFate.PUSHED] <= 8
    assert errors == []


async def test_what_waits_is_bounded(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "WAITING_MAX", 2)
    errors: list[Exception] = []
    intake = NoticeIntake(records, lambda _: None, errors.append)
    for n in (0, 1, 2, 1, 3):
        intake.take(ROUTER, notice(n))
    await intake.close()
    assert (intake.dropped, errors) == (2, [])
    assert len(await records.read(notices.latest, ACTIVE.id)) == 2


async def test_what_cannot_be_stored_at_the_end_is_counted(
    records: Records, tmp_path: Path
) -> None:
    errors: list[Exception] = []
    intake = NoticeIntake(records, lambda _: None, errors.append, 0.001)
    os.rename(tmp_path / "ntf.db", tmp_path / "away")
    for n in range(3):
        intake.take(ROUTER, notice(n))
    await intake.close()
    os.rename(tmp_path / "away", tmp_path / "ntf.db")
    assert errors
    assert intake.dropped == 3


async def test_notices_wait_for_records_that_fail(records: Records, tmp_path: Path) -> None:
    errors: list[Exception] = []
    pushed: list[Token] = []
    intake = NoticeIntake(records, pushed.append, errors.append, 0.001)
    os.rename(tmp_path / "ntf.db", tmp_path / "away")
    intake.take(ROUTER, notice(1))

    async def failed() -> bool:
        return bool(errors)

    await until(failed)
    assert pushed == []
    os.rename(tmp_path / "away", tmp_path / "ntf.db")

    async def came() -> bool:
        return bool(pushed)

    await until(came)
    await intake.close()
