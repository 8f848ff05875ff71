"""A scripted router, links with it, and a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from headgate.client.smp.link import Link
from tests.support.smp_peer import Notes, Peer, Talk
from tests.support.smp_peer_fixtures import clock as clock
from tests.support.smp_peer_fixtures import identity_folder as identity_folder
from tests.support.smp_peer_fixtures import peer as peer

Connect: TypeAlias = Callable[..., Awaitable[tuple[Link, Talk]]]


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def connect(peer: Peer, notes: Notes) -> AsyncIterator[Connect]:
    """Links with the options of `Link.connect`, and their other ends."""
    links: list[Link] = []

    async def connect(**options: Any) -> tuple[Link, Talk]:  # noqa: ANN401
        handler = options.pop("handler", notes)
        links.append(await Link.connect(peer.address, handler, **options))
        return links[-1], await peer.talk()

    yield connect
    for link in links:
        link.close()
        await link.wait_closed()
