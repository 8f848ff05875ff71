"""Suites that many test modules share are not test modules; pytest has to be told of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.testing.postgres import PostgresCluster

pytest.register_assert_rewrite("tests.conformance.store")


@pytest.fixture(scope="session")
def cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL server for all tests of this process. It does not wait for the disk, as
    nobody pulls the plug here."""
    with PostgresCluster(fsync=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_database(cluster: PostgresCluster) -> str:
    return cluster.create_database()


@pytest.fixture
def database(cluster: PostgresCluster, shared_database: str) -> str:
    """The name of a database that is empty."""
    cluster.clear_database(shared_database)
    return shared_database


@pytest.fixture
def url(cluster: PostgresCluster, database: str) -> str:
    return cluster.url(database)
