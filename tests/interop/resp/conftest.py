"""Servers that the tests of one worker share, and connections that end with their test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.resp_client import Client
from tests.support.resp_cluster import Cluster, start_headgate_cluster, start_redis_cluster
from tests.support.resp_servers import (
    PASSWORD,
    Connect,
    Dial,
    Server,
    start_headgate,
    start_redis,
)

_names = itertools.count(1)


@pytest.fixture(scope="session")
def headgate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_headgate(tmp_path_factory.mktemp("headgate")) as server:
        yield server


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def guarded_headgate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_headgate(tmp_path_factory.mktemp("headgate"), password=PASSWORD) as server:
        yield server


@pytest.fixture(scope="session")
def guarded_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_redis(tmp_path_factory.mktemp("redis"), requirepass=PASSWORD) as server:
        yield server


@pytest.fixture(scope="session")
def headgate_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_headgate_cluster(tmp_path_factory.mktemp("headgate")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_redis_cluster(tmp_path_factory.mktemp("redis")) as cluster:
        yield cluster


# The parameters are not those of session fixtures: in random order the servers would be
# started anew at every change between the two.


@pytest.fixture(params=["redis", "headgate"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the two: the test says what Redis does, and the router does the same."""
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["redis", "headgate"])
def guarded(request: pytest.FixtureRequest) -> Server:
    """Each of the two, with a password."""
    found: Server = request.getfixturevalue(f"guarded_{request.param}")
    return found


@pytest.fixture(params=["redis", "headgate"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two nodes of each of the two, with half of the slots each."""
    found: Cluster = request.getfixturevalue(f"{request.param}_cluster")
    yield found
    found.restore()


@pytest.fixture
def name() -> str:
    """A channel, key or user that no other test of this worker has."""
    return f"n{next(_names)}"


@pytest.fixture
def dial() -> Iterator[Dial]:
    dial = Dial()
    yield dial
    dial.close()


@pytest.fixture
def connect(server: Server, dial: Dial) -> Connect:
    return Connect(server, dial)


@pytest.fixture
def client(connect: Connect) -> Client:
    return connect()


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    version: int = request.param
    return version
