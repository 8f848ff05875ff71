"""Drawn sessions of Redis clients have the same answers from redis-server and from the router."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.strangers.resp_pressure import LIMITS, PLAYS, scene
from tests.strangers.resp_sequences import Arena, Line, arena, check
from tests.support.resp_servers import Server, Setting, start_workers

PARTS = 10
IN_A_PART = 200
OVER_WORKERS = 60
"""Sequences for a router of several workers, which takes longer to answer each."""
WARM_UP = 10
"""Sequences before memory is first looked at."""
SCENES = 3
GROWTH_BYTES = 24 << 20
"""More than that is no noise of an allocator after two hundred sequences."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("sequences")) as both:
        for seed in range(WARM_UP):
            check(both, seed)
        yield both


@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_sessions_have_the_answers_of_redis(both: Arena, part: int) -> None:
    """And nothing of them is left behind when everybody has left."""
    router = both.servers[1]
    resident = router.resident_bytes()
    for seed in range(part * IN_A_PART, (part + 1) * IN_A_PART):
        trouble = check(both, seed)
        assert trouble is None, trouble
    assert sessions(router) == 1
    assert router.resident_bytes() < resident + GROWTH_BYTES


def test_drawn_sessions_have_the_answers_of_redis_from_several_workers(tmp_path: Path) -> None:
    """Connections are spread over three of them."""
    with arena(tmp_path, workers=3) as both:
        for seed in range(OVER_WORKERS):
            trouble = check(both, seed)
            assert trouble is None, trouble


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("policy", PLAYS)
def test_a_slow_subscriber_is_treated_as_its_policy_says(
    policy: str, workers: int, tmp_path: Path
) -> None:
    """RESP-59, RESP-61, RESP-64: and strangers to it go on."""
    settings: dict[str, Setting] = {**LIMITS, "slow_session": policy, "slow_timeout": "0s"}
    with start_workers(tmp_path, workers, settings) as server:
        control = Line(server.address)
        for seed in range(SCENES):
            PLAYS[policy](server, control, scene(seed))
            assert sessions(server) == 1
        control.close()


def sessions(server: Server) -> int:
    """Sessions that the router's admin port knows of."""
    admin = json.loads((server.log.parent / "ready.json").read_text())["admin"]
    token = Path(admin["token_file"]).read_text().strip()
    request = urllib.request.Request(
        f"http://{admin['host']}:{admin['port']}/status.json",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request) as answer:
        return len(json.load(answer)["sessions"])
