"""A router whose database goes away, hangs, and comes back."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from headgate.testing.postgres import PostgresCluster
from tests.server.test_serve import Serve, Served, serve

__all__ = ["serve"]

PATIENCE = 60.0
CONFIG = """\
directory = "state"
[admin]
port = 0
[store]
url = "{url}"
[journal]
enabled = {journal}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    with PostgresCluster(fsync=False) as cluster:
        yield cluster


@pytest.fixture(params=["true"])
def served(request: pytest.FixtureRequest, serve: Serve, cluster: PostgresCluster) -> Served:
    """With a journal, or without: then a router that nobody uses never asks its database."""
    url = cluster.url(cluster.create_database())
    return serve(CONFIG.format(url=url, journal=request.param)).started()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def backends(cluster: PostgresCluster) -> list[int]:
    """The server's processes behind a router's connections."""
    with cluster.connect() as db:
        found = db.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'headgate on %'"
        ).fetchall()
    return [pid for (pid,) in found]


@pytest.fixture
def stopped(cluster: PostgresCluster, served: Served) -> Iterator[list[int]]:
    """The processes behind the router's connections; they say nothing until the test is over."""
    pids = backends(cluster)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def is_ready(served: Served) -> bool:
    return served.get("/readyz")[0] == 200


def problems(served: Served) -> list[str]:
    """What keeps the router from being ready; who notices first, store or journal, is open."""
    status, body = served.get("/readyz")
    return [] if status == 200 else json.loads(body)


@pytest.mark.parametrize("served", ["true", "false"], indirect=True)
def test_a_router_without_traffic_says_that_its_database_is_away_and_that_it_is_back(
    served: Served, cluster: PostgresCluster
) -> None:
    assert is_ready(served)
    cluster.stop()
    try:
        until(lambda: any(one.startswith("store: postgresql://") for one in problems(served)))
        assert not is_ready(served)
    finally:
        cluster.start()
    until(lambda: is_ready(served))
    assert served.stop() == 0


def test_a_router_says_that_its_database_hangs(served: Served, stopped: list[int]) -> None:
    until(lambda: b"store: it has not answered for" in served.get("/readyz")[1])
    assert not is_ready(served)


def test_a_router_whose_database_hangs_ends_and_says_what_it_gave_up(
    served: Served, stopped: list[int]
) -> None:
    assert served.stop() == 1
    [line] = served.lines("ended without waiting any longer")
    assert line["waited_for"] in ("the turns that were asked for", "the sealer", "the store")
    assert not served.ready.exists()


def test_a_second_router_takes_over_when_the_database_goes_on(
    served: Served, stopped: list[int], serve: Serve, cluster: PostgresCluster
) -> None:
    assert served.stop() == 1
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not set(stopped) & set(backends(cluster)))
    again = Served(served.ready.parent).started()
    try:
        assert is_ready(again)
        assert again.stop() == 0
    finally:
        again.process.kill()
        again.process.wait()
