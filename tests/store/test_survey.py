from __future__ import annotations

import pytest

from headgate.errors import StoreError
from headgate.store.ownership import Ownership
from headgate.store.postgres import PostgresStore
from headgate.store.postgres.survey import survey, warnings
from headgate.testing.postgres import PostgresCluster

SAFE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "ANY 1 (*)",
}


def test_a_server_that_waits_for_disk_and_replica_loses_nothing() -> None:
    assert warnings(SAFE, is_replicated=True) == []
    alone = SAFE | {"synchronous_standby_names": ""}
    assert warnings(alone, is_replicated=False) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"fsync": "off"}, "fsync is off"),
        ({"full_page_writes": "off"}, "full_page_writes is off"),
        ({"synchronous_standby_names": ""}, "synchronous_standby_names is empty"),
        ({"synchronous_commit": "local"}, "synchronous_commit is local"),
        ({"synchronous_commit": "off"}, "synchronous_commit is off"),
    ],
)
def test_what_the_server_could_lose_is_told(changed: dict[str, str], told: str) -> None:
    [found] = warnings(SAFE | changed, is_replicated=True)
    assert found.startswith(told)


async def test_who_has_a_database_is_seen_without_touching_it(
    url: str, cluster: PostgresCluster, database: str
) -> None:
    assert survey(url, has_standby=False).owner is None
    with cluster.connect(database) as db:
        assert db.execute("SELECT to_regnamespace('headgate')").fetchall() == [(None,)]
    ownership = Ownership(3.0, lambda: 0.0, lambda known, is_ours: b"print")
    store = PostgresStore(url, ownership=ownership)
    await store.open()
    seen = survey(url, has_standby=True)
    assert seen.owner is not None
    assert seen.owner.startswith("headgate on ")
    assert seen.fingerprint == b"print"
    # The cluster of the tests waits for no disk.
    assert [text.split()[0] for text in seen.warnings] == [
        "fsync",
        "full_page_writes",
        "synchronous_standby_names",
    ]
    assert ownership.lost is None
    await store.close()
    assert survey(url, has_standby=False).owner is None


def test_a_database_that_cannot_be_reached_is_named(cluster: PostgresCluster) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        survey(cluster.url("nowhere"), has_standby=False)
