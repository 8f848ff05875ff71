"""Connections of agents, as applications make them, over a router of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.agent.agent import Agent
from headgate.agent.connections.connection import Connection
from headgate.agent.events import (
    Confirmation,
    Connected,
    Info,
    Message,
    Receipt,
    Request,
    Sent,
)
from headgate.errors import Closed, ConfigError, LinkUsed, Malformed, StoreError, TooLong
from headgate.wire.smp.agent.short_links import ContactKind, ContactShortLink
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.agent_scene import QUICK, EventLog, opened
from tests.support.smp_peer import is_cancelled_at
from tests.support.smp_router import Rig


async def talk(anna: Connection, hers: EventLog, bob: Connection, his: EventLog) -> None:
    """A message each way, acknowledged."""
    for sender, sent, reader in ((anna, hers, his), (bob, his, hers)):
        id = await sender.send(b"from %s" % sender.id)
        assert (await sent.next_of(Sent)).id == id
        message = await reader.next_of(Message)
        assert message.body == b"from %s" % sender.id
        await message.ack()


async def is_gone(connection: Connection) -> None:
    """Wait until it is deleted."""
    with suppress(StoreError):
        while True:
            await connection.state()
            await asyncio.sleep(0)


async def test_an_invitation_that_is_joined_and_accepted_is_a_connection(rig: Rig) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        invitation = await anna.invite("bob")
        joined = await bob.join(str(invitation.link), name="anna", info=b"I am Bob")
        event = await hers.next_of(Confirmation)
        assert event.info == b"I am Bob"
        assert not (await invitation.connection.state()).is_ready
        await event.accept(b"I am Anna")
        await hers.next_of(Connected)
        assert (await his.next_of(Info)).info == b"I am Anna"
        await his.next_of(Connected)
        state = await joined.state()
        assert (state.is_ready, state.info, state.is_post_quantum) == (True, b"I am Anna", False)
        assert (await invitation.connection.state()).info == b"I am Bob"
        await talk(invitation.connection, hers, joined, his)
        assert await anna.connection("bob") == invitation.connection
        assert await bob.connections() == [joined]


async def test_a_bot_has_an_address_and_answers_whoever_writes_to_it(
    rig: Rig, tmp_path: Path
) -> None:
    """Also after it was started again."""
    path = tmp_path / "bot.db"
    async with Agent.memory(routers=[rig.address], settings=QUICK) as customer:
        log = EventLog(customer)
        async with opened(path, routers=[rig.address]) as (bot, events):
            address = await bot.address("orders")
            asked = await customer.join(str(address.link), info=b"a customer")
            request = await events.next_of(Request)
            assert (request.address, request.info) == (address.connection, b"a customer")
            accepted = await request.accept(b"the shop", "customer 1")
            with pytest.raises(StoreError, match="answered already"):
                await request.accept()
            assert (await log.next_of(Info)).info == b"the shop"
            await log.next_of(Connected)
            assert (await events.next_of(Info)).info == b"a customer"
            await events.next_of(Connected)
        async with opened(path, routers=[rig.address]) as (bot, events):
            assert await bot.address("orders") == address
            id = await asked.send(b"two apples")
            message = await events.next_of(Message)
            assert message.connection == accepted.id
            await bot.send(message.connection, b"you said: " + message.body)
            await message.ack(receipt=True)
            answer = await log.next_of(Message)
            assert answer.body == b"you said: two apples"
            await answer.ack()
            assert (await log.next_of(Receipt)).ids == (id,)


@pytest.mark.parametrize("short", [False, True], ids=["long", "short"])
async def test_whoever_uses_the_link_of_a_program_may_be_accepted_at_once(
    rig: Rig, short: bool
) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
        Agent.memory(routers=[rig.address], settings=QUICK) as eve,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        invitation = await anna.invite(auto_accept=True, info=b"I am Anna", short=short)
        assert (len(str(invitation.link)) < 200) is short
        joined = await bob.join(str(invitation.link), info=b"I am Bob")
        assert (await hers.next_of(Info)).info == b"I am Bob"
        await hers.next_of(Connected)
        assert (await his.next_of(Info)).info == b"I am Anna"
        await his.next_of(Connected)
        await talk(invitation.connection, hers, joined, his)
        with pytest.raises(LinkUsed):
            await eve.join(str(invitation.link))
        assert await eve.connections() == []


async def test_a_short_address_is_found_again_and_leads_to_a_connection(
    rig: Rig, tmp_path: Path
) -> None:
    async with Agent.memory(routers=[rig.address], settings=QUICK) as bob:
        async with opened(tmp_path / "anna.db", routers=[rig.address]) as (anna, _):
            address = await anna.address("shop", short=True)
            assert str(address.link).startswith("simplex:/a#")
        async with opened(tmp_path / "anna.db") as (anna, hers):
            assert await anna.address("shop") == address
            joined = await bob.join(str(address.link))
            request = await hers.next_of(Request)
            accepted = await request.accept()
            his = EventLog(bob)
            await his.next_of(Connected)
            await hers.next_of(Connected)
            await talk(accepted, hers, joined, his)


@pytest.mark.parametrize("shown", [b"", b"the shop", bytes(range(256)) * 50])
async def test_the_short_link_of_an_address_shows_something_before_it_is_used(
    rig: Rig, shown: bytes
) -> None:
    """Whoever has the link can read it, and the address is as it was afterwards."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        address = await anna.address("shop", short=True, shown=shown)
        for _ in range(2):
            assert await bob.shown_by(str(address.link)) == shown
        assert await bob.connections() == []
        await bob.join(address.link)
        await EventLog(anna).next_of(Request)


async def test_what_a_link_cannot_show_is_refused(rig: Rig) -> None:
    async with Agent.memory(routers=[rig.address], settings=QUICK) as anna:
        with pytest.raises(ConfigError, match="short=True"):
            await anna.address("shop", shown=b"the shop")
        with pytest.raises(ConfigError, match="short=True"):
            await anna.invite(shown=b"Anna")
        with pytest.raises(TooLong):
            await anna.address("shop", short=True, shown=bytes(14_000))
        for made in (await anna.address("shop"), await anna.invite(short=True, shown=b"Anna")):
            with pytest.raises(ConfigError, match="short link of an address"):
                await anna.shown_by(made.link)
        gone = ContactShortLink(ContactKind.CONTACT, rig.address, bytes(32))
        with pytest.raises(LinkUsed):
            await anna.shown_by(gone)


async def test_a_short_link_needs_no_fingerprint_of_a_router_that_the_agent_knows(rig: Rig) -> None:
    """Apps shorten the links of routers that they take for known."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
        Agent.memory(settings=QUICK) as eve,
    ):
        his = EventLog(bob)
        link = str((await anna.invite(auto_accept=True, short=True)).link)
        page = link.replace("simplex:", f"https://{rig.host}").partition("?")[0]
        with pytest.raises(Malformed, match="not known"):
            await eve.join(page, router=RouterAddress(("other.example",), None, bytes(32)))
        await bob.join(page)
        await his.next_of(Connected)


async def test_a_conversation_may_be_read_apart_from_other_events(rig: Rig) -> None:
    """A task for each connection, and one for all the rest."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        invitations = [await anna.invite(auto_accept=True) for _ in range(2)]
        joined = [await bob.join(made.link) for made in invitations]
        for log in (hers, his):
            for _ in joined:
                await log.next_of(Connected)
        for n in range(3):
            for connection in joined:
                await connection.send(b"%d" % n)
        read = []
        async for message in invitations[0].connection.messages():
            read.append(message.body)
            await message.ack()
            if len(read) == 3:
                break
        assert read == [b"0", b"1", b"2"]
        for body in read:
            message = await hers.next_of(Message)
            assert (message.connection, message.body) == (invitations[1].connection.id, body)
            await message.ack()


async def test_an_unanswered_confirmation_is_shown_again(rig: Rig, tmp_path: Path) -> None:
    """Until it is answered; an event that was read is not."""
    path = tmp_path / "anna.db"
    async with Agent.memory(routers=[rig.address], settings=QUICK) as bob:
        async with opened(path, routers=[rig.address]) as (anna, log):
            invitation = await anna.invite("bob")
            assert (await anna.invite("bob")).link == invitation.link
            await bob.join(invitation.link)
            await log.next_of(Confirmation)
        async with opened(path) as (anna, log):
            await (await log.next_of(Confirmation)).accept()
            await log.next_of(Connected)
            with pytest.raises(StoreError, match="name"):
                await anna.invite("bob", router=rig.address)
        async with opened(path) as (anna, log):
            await (await bob.connections())[0].send(b"hello")
            assert (await log.next_of(Message)).body == b"hello"
            assert log.of(Confirmation, Connected) == []


async def test_a_router_that_restarts_delays_a_handshake_and_loses_nothing(rig: Rig) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        invitation = await anna.invite(auto_accept=True)
        await rig.stop()
        joined = await bob.join(invitation.link)
        await rig.start()
        await his.next_of(Connected)
        await hers.next_of(Connected)
        await rig.stop()
        await joined.send(b"meanwhile")
        await rig.start()
        assert (await hers.next_of(Message)).body == b"meanwhile"


async def test_a_kem_on_both_sides_is_in_the_ratchet_after_a_turn(rig: Rig) -> None:
    pytest.importorskip("pqcrypto")
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        invitation = await anna.invite(auto_accept=True, pq=True)
        joined = await bob.join(invitation.link, pq=True)
        await hers.next_of(Connected)
        await his.next_of(Connected)
        await talk(invitation.connection, hers, joined, his)
        for connection in (invitation.connection, joined):
            assert (await connection.state()).is_post_quantum


async def test_a_request_may_be_accepted_with_a_kem(rig: Rig) -> None:
    pytest.importorskip("pqcrypto")
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        joined = await bob.join((await anna.address("shop")).link, pq=True)
        accepted = await (await hers.next_of(Request)).accept(pq=True)
        await hers.next_of(Connected)
        await his.next_of(Connected)
        await talk(accepted, hers, joined, his)
        for connection in (accepted, joined):
            assert (await connection.state()).is_post_quantum


async def test_a_connection_that_is_deleted_is_gone_and_its_name_free(rig: Rig) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        invitation = await anna.invite("bob", auto_accept=True)
        joined = await bob.join(invitation.link)
        await his.next_of(Connected)
        await joined.send(b"the last")
        await joined.delete()
        assert (await hers.next_of(Message)).body == b"the last"
        assert await bob.connections() == []
        await is_gone(joined)
        with pytest.raises(StoreError, match="nothing can be sent"):
            await joined.send(b"more")
        await invitation.connection.delete()
        again = await anna.invite("bob")
        assert again.connection != invitation.connection


async def test_what_cannot_be_done_is_refused_with_a_reason(rig: Rig) -> None:
    agent = await Agent.memory(settings=QUICK)
    with pytest.raises(ConfigError, match="router"):
        await agent.invite()
    with pytest.raises(Malformed):
        await agent.join("simplex:/garbage", router=rig.address)
    with pytest.raises(StoreError, match="invite or join"):
        await agent.connection("nobody")
    await agent.close()
    with pytest.raises(Closed):
        await agent.invite(router=rig.address)


async def test_an_agent_is_usable_after_any_cancelled_call(rig: Rig) -> None:
    """S004-26: cancelled at every await, what was written goes on."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as anna,
        Agent.memory(routers=[rig.address], settings=QUICK) as bob,
    ):
        hers, his = EventLog(anna), EventLog(bob)
        invitation = await anna.invite("bob")

        async def until_done(call: Callable[[], Awaitable[object]]) -> None:
            number = 0
            while await is_cancelled_at(call(), number):  # type: ignore[arg-type]
                number += 1

        await until_done(lambda: anna.address("shop"))
        await until_done(lambda: bob.join(invitation.link))
        event = await hers.next_of(Confirmation)
        assert await is_cancelled_at(event.accept(), 0)
        with pytest.raises(StoreError, match="nobody waits"):
            await event.accept()
        await hers.next_of(Connected)
        await his.next_of(Connected)
        [joined] = await bob.connections()
        await until_done(lambda: joined.send(b"hello"))
        await until_done(joined.state)
        message = await hers.next_of(Message)
        await until_done(message.ack)
        await until_done(invitation.connection.delete)
        assert await anna.connections() == []
