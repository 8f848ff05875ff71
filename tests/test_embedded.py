"""A router in the process of a program: what its sessions can do, and what is left afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headgate
from headgate import Domain, Router, Subscription
from headgate.errors import BadSubscription, NoSuchQueue, QuotaReached

ORDERS = "bmq://orders/incoming"


async def test_a_message_goes_from_one_session_to_another() -> None:
    async with Router.open(domains=[Domain.exclusive("mail")]) as router:
        alice, bob = router.session("alice"), router.session("bob")
        await bob.create("bob", domain="mail", subscribe=True)
        await alice.send("bob", b"hello")
        await alice.send("bob", b"again", id=b"2")
        first = await bob.receive()
        assert (first.queue, first.body, first.attempts) == ("bob", b"hello", 0)
        await first.confirm()
        second = await bob.receive()
        assert (second.id, second.body, dict(second.properties)) == (b"2", b"again", {})


async def test_what_was_sent_is_there_when_the_store_is_opened_again(tmp_path: Path) -> None:
    domains = [Domain.exclusive("mail")]
    async with Router.open("sqlite:q.db", domains=domains, directory=tmp_path) as router:
        alice = router.session("alice")
        await alice.create("bob", domain="mail")
        await alice.send("bob", b"hello")
    async with Router.open("sqlite:q.db", domains=domains, directory=tmp_path) as router:
        async with router.session("bob") as bob:
            await bob.subscribe("bob")
            assert (await bob.receive()).body == b"hello"
            await bob.delete("bob")
        with pytest.raises(NoSuchQueue):
            await router.session().send("bob", b"too late")


async def test_consumers_get_what_their_expressions_are_true_for() -> None:
    async with Router.open(domains=[Domain.priority("orders")]) as router:
        shop, fast, slow = (router.session(name) for name in ("shop", "fast", "slow"))
        await shop.open(ORDERS, read=False, write=True)
        express = Subscription('kind == "express"', priority=1)
        await fast.open(ORDERS, subscriptions=[express])
        await slow.open(ORDERS)
        await shop.send(ORDERS, b"a table", {"kind": "express"})
        await shop.send(ORDERS, b"a chair", {"kind": "plain"})
        assert (await fast.receive()).body == b"a table"
        assert (await slow.receive()).body == b"a chair"


async def test_what_a_session_leaves_unconfirmed_is_given_to_another() -> None:
    async with Router.open(domains=[Domain.fanout("orders", "audit")]) as router:
        shop, first, second = (router.session(name) for name in ("shop", "first", "second"))
        await shop.open(ORDERS, read=False, write=True)
        await first.open(ORDERS, app="audit")
        await shop.send(ORDERS, b"1")
        assert (await first.receive()).body == b"1"
        await second.open(ORDERS, app="audit")
        await first.close_queue(ORDERS, app="audit")
        async for delivery in second:
            assert delivery.body == b"1"
            await delivery.confirm()
            break


async def test_everybody_who_is_there_gets_a_broadcast() -> None:
    async with Router.open(domains=[Domain.broadcast("news")]) as router:
        readers = [router.session(str(n)) for n in range(3)]
        for reader in readers:
            await reader.open("bmq://news/all")
        writer = router.session("writer")
        await writer.open("bmq://news/all", read=False, write=True)
        await writer.send("bmq://news/all", b"rain")
        got = await asyncio.gather(*(reader.receive() for reader in readers))
        assert [each.body for each in got] == [b"rain"] * 3


async def test_what_is_refused_says_why() -> None:
    async with Router.open(domains=[Domain.priority("orders", max_messages=1)]) as router:
        session = router.session()
        with pytest.raises(BadSubscription, match="unexpected end"):
            await session.open(ORDERS, subscriptions=[Subscription("kind ==")])
        await session.open(ORDERS, read=False, write=True)
        await session.send(ORDERS, b"1")
        with pytest.raises(QuotaReached, match="limit of 1 messages"):
            await session.send(ORDERS, b"2")
        with pytest.raises(headgate.HeadgateError, match="no queue"):
            await session.open("bmq://orders")
