"""The records of a notification server in a file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from headgate.errors import ConfigError, StoreError
from headgate.ntf_server.records import Records, open_place, tokens
from headgate.ntf_server.records.audit import audit
from headgate.ntf_server.records.tables import Tables
from tests.conformance.ntf_records import ACTIVE, NtfRecordsConformance, OpenRecords, anything, play
from tests.support.ntf_examples import TOKEN


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ntf.db"


class TestSqliteRecords(NtfRecordsConformance):
    @pytest.fixture
    def open_records(self, path: Path) -> OpenRecords:
        async def open_records() -> Records:
            return await Records.open(f"sqlite:{path}")

        return open_records


async def test_nobody_else_may_read_the_keys_of_strangers(path: Path) -> None:
    async with await Records.open("sqlite:ntf.db", path.parent) as records:
        await records.write(tokens.put, ACTIVE)
        modes = {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {0o600}


async def test_a_file_of_an_agent_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE users (id)")
    with pytest.raises(StoreError, match="another program"):
        await Records.open(f"sqlite:{path}")


async def test_a_store_that_failed_goes_on_when_it_can(path: Path) -> None:
    away = path.with_suffix(".away")
    async with await Records.open(f"sqlite:{path}") as records:
        os.rename(path, away)
        with pytest.raises(StoreError, match="the file is gone"):
            await records.write(tokens.put, ACTIVE)
        os.rename(away, path)
        await records.write(tokens.put, ACTIVE)
        assert await records.read(tokens.get, TOKEN) == ACTIVE


async def test_the_audit_finds_what_was_changed_by_others(path: Path) -> None:
    """S001-92: a tally that does not equal a recount is found."""
    async with await Records.open(f"sqlite:{path}") as records:
        await records.write(tokens.put, ACTIVE)

        def damage(tables: Tables) -> None:
            db = tables._place._connection  # type: ignore[attr-defined]
            db.execute(
                "INSERT INTO routers (host, port, key_hash, address, count)"
                " VALUES ('relay.example', 5223, x'00', ?, 3)",
                [b"\x01\x01h\x00\x20" + bytes(32)],
            )
            db.execute("UPDATE tokens SET held = 7")

        await records.write(damage)
        wrong = await records.read(audit)
    assert len(wrong) == 2
    assert "3 subscriptions" in wrong[0]
    assert "wrong count" in wrong[1]


def test_records_are_in_a_file_or_a_database(path: Path) -> None:
    with pytest.raises(ConfigError, match="sqlite:FILE"):
        open_place("memory:", path.parent)
    with pytest.raises(ConfigError, match="known form"):
        open_place("mysql://x", path.parent)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(steps=anything)
def test_whatever_happens_a_tally_equals_a_recount(
    path: Path, steps: list[tuple[int, int]]
) -> None:
    """S001-92: after every change, whichever it is."""
    asyncio.run(play(lambda: Records.open(f"sqlite:{path}"), steps))
