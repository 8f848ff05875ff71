"""How many may come, and how much they may make."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from headgate.core.facts import LimitReached, SessionClosed
from headgate.core.model.limits import Limits
from headgate.errors import NotConnected, Refused
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import OK
from tests.support.smp_router import Rig
from tests.support.smp_scene import until

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)


class Silent:
    """Somebody who connects and does not even begin with TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, router: Rig, address: str = "127.0.0.1") -> Silent:
        local = (address, 0)
        return cls(*await asyncio.open_connection(router.host, router.port, local_addr=local))

    async def is_closed(self, seconds: float = 0.2) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._reader.read(1) == b""
        return False

    async def leave(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.sleep(0.05)


def limits_reached(router: Rig) -> list[str]:
    return [fact.name for fact in router.facts if isinstance(fact, LimitReached)]


async def test_so_many_handshakes_are_under_way_at_a_time(start_rig: StartRig) -> None:
    """Those of clients that have shaken hands do not count, and one that fails makes room."""
    router = await start_rig(limits=Limits(handshakes=2))
    early = await router.connect()
    silent = [await Silent.connect(router) for _ in range(2)]
    refused = await Silent.connect(router)
    assert await refused.is_closed()
    assert limits_reached(router) == ["handshakes"]
    assert not await silent[0].is_closed()
    assert (await early.new_queue()).id
    await silent[0].leave()
    assert (await router.connect()).version == 19
    for client in (*silent, refused):
        await client.leave()
    assert limits_reached(router) == ["handshakes"]


async def test_so_many_handshakes_of_one_address_are_under_way_at_a_time(
    start_rig: StartRig,
) -> None:
    """Others are let in meanwhile."""
    router = await start_rig(limits=Limits(handshakes_per_address=1))
    silent = await Silent.connect(router)
    refused = await Silent.connect(router)
    other = await Silent.connect(router, "127.0.0.2")
    assert await refused.is_closed()
    assert not await other.is_closed()
    assert limits_reached(router) == ["handshakes_per_address"]
    for client in (silent, refused, other):
        await client.leave()
    assert (await router.connect()).version == 19


async def test_so_many_sessions_are_open_at_a_time(start_rig: StartRig) -> None:
    router = await start_rig(max_sessions=2)
    first, second = await router.connect(), await router.connect()
    with pytest.raises(NotConnected):
        await router.connect()
    assert limits_reached(router) == ["smp.max_sessions"]
    first.close()
    await first.closed()
    await until(lambda: any(isinstance(fact, SessionClosed) for fact in router.facts))
    third = await router.connect()
    assert await third.send(await second.new_queue(), b"hello") == OK


async def test_a_router_that_is_full_refuses_sessions_of_every_wire(start_rig: StartRig) -> None:
    router = await start_rig(limits=Limits(sessions=1))
    first = await router.connect()
    with pytest.raises(NotConnected):
        await router.connect()
    assert limits_reached(router) == ["sessions"]
    assert (await first.new_queue()).id


async def test_a_client_makes_so_many_queues_in_a_minute(start_rig: StartRig) -> None:
    """It may go on with those it has, others may make theirs, and a minute later so may it."""
    now = 1_700_000_000.0
    router = await start_rig(limits=Limits(creations_per_minute=3), clock=lambda: now)
    client, other = await router.connect(), await router.connect()
    queues = [await client.new_queue() for _ in range(3)]
    for _ in range(2):
        with pytest.raises(Refused, match=r"^STORE limit creations_per_minute"):
            await client.new_queue()
    assert await client.send(queues[0], b"hello") == OK
    assert (await other.new_queue()).id
    now += 60.0
    assert (await client.new_queue()).id
