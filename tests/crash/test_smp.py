"""What a router of the SMP wire answered survives kill -9."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from headgate.testing.postgres import PostgresCluster
from tests.crash.routers import DEADLINE_SECONDS
from tests.crash.smp import Round, Routers

ROUNDS = 10
POSTGRES_ROUNDS = 3
ROUNDS_MAX = 60


def drawn() -> int:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    return seed


async def check(routers: Routers, seed: int, rounds: int) -> None:
    """So many rounds, and more until everything was seen that a kill may find under way."""
    played: list[Round] = []
    while len(played) < rounds or (unseen(played) and len(played) < ROUNDS_MAX):
        played.append(await routers.play(seed + len(played)))
        print(played[-1])
        assert played[-1].wrong == []
    last = await routers.finish(seed)
    assert last.wrong == []
    assert unseen([*played, last]) == []


def unseen(played: list[Round]) -> list[str]:
    """What no round had."""
    names = ("acks", "markers", "cut_off", "drained")
    return [name for name in names if not any(getattr(one, name) for one in played)]


@pytest.mark.serial
async def test_no_message_is_lost_or_comes_back_and_tallies_and_facts_equal_the_store_after_a_kill(
    tmp_path: Path,
) -> None:
    """S001-1, S001-36, S001-40; SMP-34"""
    await check(Routers(tmp_path), drawn(), ROUNDS)


@pytest.mark.serial
async def test_the_same_holds_on_postgresql(tmp_path: Path, cluster: PostgresCluster) -> None:
    url = cluster.url(cluster.create_database())
    await check(Routers(tmp_path, url), drawn(), POSTGRES_ROUNDS)


@pytest.mark.serial
async def test_a_router_goes_on_when_its_connection_to_postgresql_is_cut_under_load(
    tmp_path: Path, cluster: PostgresCluster
) -> None:
    seed, database = drawn(), cluster.create_database()
    routers = Routers(tmp_path, cluster.url(database))

    def cut() -> None:
        end, found = time.monotonic() + DEADLINE_SECONDS, 0
        with cluster.connect() as db:
            while not found:  # it may be about to connect again
                assert time.monotonic() < end, "the router is connected"
                found = db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = %s AND application_name LIKE 'headgate on %%'",
                    (database,),
                ).rowcount

    played = await routers.play(seed, cut)
    print(played)
    assert played.wrong == []
    assert (await routers.finish(seed)).wrong == []
