"""What holds for all tests: no law has to be shown in so many milliseconds, the kernel is the one
that they run on, or one that they imitate, and there is a PostgreSQL server for those who ask."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headgate.testing.postgres import PostgresCluster
from tests.kernel import sitecustomize

# A suite that many test modules share is not a test module.
pytest.register_assert_rewrite("tests.conformance.store", "tests.conformance.ntf_records")

# The examples of a law follow from the law: a change is judged by what it changes. New ones are
# drawn by `make laws`, and by --hypothesis-profile=drawn.
any_machine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", any_machine, derandomize=True, database=None)
settings.register_profile("drawn", any_machine, print_blob=True)
settings.load_profile("same")

PATIENCE_SECONDS = 900
"""For tests that start many processes: how long that takes is the machine's affair."""

# A shell has what it starts in the background ignore Ctrl-C, and programs would inherit that from
# the tests that end them with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if sitecustomize.VARIABLE in os.environ:
    paths = [str(Path(sitecustomize.__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        patient = item.get_closest_marker("serial") or item.get_closest_marker("alone")
        if patient and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


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
