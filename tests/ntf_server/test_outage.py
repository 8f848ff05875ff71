"""A notification server whose database is not there yet, goes away, hangs, and comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from headgate.testing.postgres import PostgresCluster
from tests.server.test_outage import backends, is_ready, problems, until
from tests.support.ntf_process import CONFIG, ServedNtf, ServeNtf


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    with PostgresCluster(fsync=False) as cluster:
        yield cluster


@pytest.fixture
def config(cluster: PostgresCluster) -> str:
    url = cluster.url(cluster.create_database())
    return CONFIG + f'[ntf]\nstore = "{url}"\n'


@pytest.fixture
def served(serve: ServeNtf, config: str) -> ServedNtf:
    return serve(config).started()


@pytest.fixture
def hanging(cluster: PostgresCluster, served: ServedNtf) -> Iterator[list[int]]:
    """The processes behind the server's connections; they say nothing until the test is over."""
    pids = backends(cluster)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_a_database_that_goes_away_is_noticed_and_that_it_is_back(
    served: ServedNtf, cluster: PostgresCluster
) -> None:
    assert is_ready(served)
    cluster.stop()
    try:
        until(lambda: any(one.startswith("store: postgresql://") for one in problems(served)))
    finally:
        cluster.start()
    until(lambda: is_ready(served))
    assert served.stop() == 0


def test_a_server_waits_for_its_database_and_says_so(
    serve: ServeNtf, config: str, cluster: PostgresCluster
) -> None:
    cluster.stop()
    try:
        served = serve(config, HEADGATE_ADMIN__PORT="0")
        served.until(lambda: bool(served.lines("the store cannot be opened")))
        assert not served.ready.exists()
        assert served.lines("serving") == []
    finally:
        cluster.start()
    served.started()
    assert is_ready(served)
    assert served.stop() == 0


def test_a_server_that_waits_for_its_database_can_be_stopped(
    serve: ServeNtf, config: str, cluster: PostgresCluster
) -> None:
    cluster.stop()
    try:
        served = serve(config)
        served.until(lambda: bool(served.lines("the store cannot be opened")))
        assert served.stop() == 0
    finally:
        cluster.start()


def test_a_server_says_that_its_database_hangs(served: ServedNtf, hanging: list[int]) -> None:
    until(lambda: b"store: it has not answered for" in served.get("/readyz")[1])
    assert not is_ready(served)


def test_a_server_whose_database_hangs_ends_and_says_what_it_gave_up(
    served: ServedNtf, hanging: list[int]
) -> None:
    assert served.stop() == 1
    [line] = served.lines("ended without waiting any longer")
    assert line["stage"] == "stopping"
    assert not served.ready.exists()
