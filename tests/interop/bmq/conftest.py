"""One router for each module, with the module's DOMAINS, and clients that end with their test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TypeAlias

import pytest

from tests.support.bmq_router import WORKERS, Client, Router

Connect: TypeAlias = Callable[..., Coroutine[None, None, Client]]

_names = itertools.count(1)


@pytest.fixture(scope="module")
def shared_router(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Router]:
    """The router that the tests of a module share: each has queues of its own."""
    workers = getattr(request.module, "WORKERS", WORKERS)
    router = Router(tmp_path_factory.mktemp("router"), request.module.DOMAINS, workers)
    router.start()
    try:
        yield router
        router.stop()
    finally:
        router.kill()
    assert "Traceback" not in router.log


@pytest.fixture
def router(shared_router: Router) -> Router:
    return shared_router


@pytest.fixture
async def clients() -> AsyncIterator[list[Client]]:
    """Those of a test. Whoever the test did not kill has to stop in peace."""
    clients: list[Client] = []
    yield clients
    try:
        for client in clients:
            if not client.is_killed and not client.is_stopped:
                await client.stop()
    finally:
        for client in clients:
            await client.kill()


@pytest.fixture
def connect(router: Router, clients: list[Client]) -> Connect:
    """Starts clients of the module's router."""

    async def connect(*, compress: bool = False, name: str | None = None) -> Client:
        client = await Client.start(router.broker, compress=compress, name=name)
        clients.append(client)
        return client

    return connect


@pytest.fixture
def name() -> str:
    """A queue that no other test has."""
    return f"q{next(_names)}"
