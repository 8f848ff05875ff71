"""What an owner answered is what the next owner has, whether it was killed or stopped."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headgate.testing.postgres import PostgresCluster
from tests.crash.failover import KILL, STOP, Failovers
from tests.crash.failover_bmq import run as run_bmq

ROUNDS = (STOP, KILL, STOP)


@pytest.mark.serial
async def test_nothing_answered_over_smp_is_lost_doubled_or_comes_back_when_the_owner_changes(
    tmp_path: Path, cluster: PostgresCluster
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    failovers = Failovers(tmp_path, cluster.url(cluster.create_database()))
    try:
        await failovers.pair.start()
        for number, how in enumerate(ROUNDS):
            played = await failovers.play(seed + number, how)
            print(played)
            assert played.wrong == []
        assert (await failovers.finish(seed)).wrong == []
    finally:
        failovers.pair.kill()


@pytest.mark.serial
async def test_every_message_is_kept_once_for_each_app_when_the_owner_changes(
    tmp_path: Path, cluster: PostgresCluster
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    url = cluster.url(cluster.create_database())
    result, routers = await run_bmq(tmp_path, url, 2, seed)
    print(result, routers.seconds)
    assert result.wrong == []
