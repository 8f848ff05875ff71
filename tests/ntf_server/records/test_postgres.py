"""The records of a notification server in a PostgreSQL database."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings

from headgate.errors import StoreError
from headgate.ntf_server.records import Records, tokens
from headgate.store.postgres import PostgresStore
from headgate.testing.postgres import PostgresCluster
from tests.conformance.ntf_records import ACTIVE, NtfRecordsConformance, OpenRecords, anything, play
from tests.support.ntf_examples import TOKEN


class TestPostgresRecords(NtfRecordsConformance):
    @pytest.fixture
    def open_records(self, url: str) -> OpenRecords:
        async def open_records() -> Records:
            return await Records.open(url)

        return open_records


async def test_a_router_and_a_notification_server_share_a_database(url: str) -> None:
    async with await Records.open(url) as records:
        store = PostgresStore(url)
        await store.open()
        try:
            await records.write(tokens.put, ACTIVE)
        finally:
            await store.close()


async def test_a_lost_connection_is_made_again(
    cluster: PostgresCluster, database: str, url: str
) -> None:
    async with await Records.open(url) as records:
        await records.write(tokens.put, ACTIVE)
        with cluster.connect(database) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert await records.read(tokens.get, TOKEN) == ACTIVE


async def test_a_database_that_was_put_back_is_not_written_to(
    cluster: PostgresCluster, database: str, url: str
) -> None:
    async with await Records.open(url) as records:
        await records.write(tokens.put, ACTIVE)
        with cluster.connect(database) as db:
            db.execute("UPDATE headgate_ntf.marks SET number = 0")
        with pytest.raises(StoreError, match="restart the notification server"):
            await records.write(tokens.remove, TOKEN)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(steps=anything)
def test_whatever_happens_a_tally_equals_a_recount(url: str, steps: list[tuple[int, int]]) -> None:
    """S001-92: after every change, whichever it is."""
    asyncio.run(play(lambda: Records.open(url), steps))
