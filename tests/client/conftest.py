"""A client, and a router that does what the test says, where failing is easy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from headgate.client.bmq import Client
from tests.support.bmq_peer import Peer

Connect: TypeAlias = Callable[..., Awaitable[Client]]


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    await peer.start()
    yield peer
    await peer.stop()


@pytest.fixture
async def connect(peer: Peer) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect(**options: Any) -> Client:  # noqa: ANN401
            client = await Client.connect(peer.address, **{"timeout": 10.0, **options})
            return await stack.enter_async_context(client)

        yield connect


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect()
