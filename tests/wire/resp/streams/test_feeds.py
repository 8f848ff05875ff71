"""Channels that feed domains, and domains that speak. The numbers are those of the checks in
docs/design/streams.md."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import hiredis
import pytest

from headgate.core.commands import Disconnect, Reconfigure, Tick
from headgate.core.facts import FeedDropped, Unspoken
from headgate.core.model.binding import ChannelFeed, spoken_channel
from headgate.core.model.body_paths import read_path
from headgate.core.model.domain import Domain
from headgate.core.shared.feeding import FULL_SECONDS
from tests.strangers.resp_draw import multibulk
from tests.support.resp_hub import Guest, House

ORDERS = Domain.fanout(
    "orders",
    "g",
    feeds=(
        ChannelFeed(
            ("orders.*",),
            queue="incoming",
            properties={"amount": read_path("total.amount:int64")},
            id=read_path("id"),
        ),
    ),
)
AUDIT = Domain.fanout(
    "audit",
    "a",
    max_messages=2,
    feeds=(
        ChannelFeed(
            ("orders.*", "log"),
        ),
    ),
)
PRICES = Domain.broadcast("prices", streams=("ticks",), speaks="prices.{symbol}", speaks_as="json")


@pytest.fixture
def house() -> House:
    return House(domains=(ORDERS, AUDIT, PRICES))


@pytest.fixture
def guest(house: House) -> Guest:
    return house.guest()


def heard(house: House, guest: Guest) -> list[Any]:
    """What a subscriber was told."""
    house.end_pass()
    reader = hiredis.Reader()
    reader.feed(guest.received)
    guest.received = b""
    return list(iter(reader.gets, False))


def fetch(guest: Guest, key: str, group: str, name: str = "c") -> Any:  # noqa: ANN401
    found = guest.ask("XREADGROUP", "GROUP", group, name, "STREAMS", key, ">")
    return [] if found is None else [fields for _, fields in found[0][1]]


def test_what_is_published_is_in_a_queue_too(house: House, guest: Guest) -> None:
    """Check 68: durable first, then those who listen, then the answer; the answer is a receipt."""
    hearing = house.guest()
    hearing.ask("SUBSCRIBE", "log")
    assert guest.ask("PUBLISH", "log", "hello") == 2
    assert heard(house, hearing) == [[b"message", b"log", b"hello"]]
    assert fetch(guest, "audit/log", "a") == [["channel", "log", "body", "hello"]]


def test_properties_of_a_json_body(guest: Guest) -> None:
    """Check 70: one reader asks for them; a body that is none of it has the channel only."""
    bodies = ('{"total": {"amount": 12}}', '{"total": {"amount": 3}}', "no json")
    assert [guest.ask("PUBLISH", f"orders.{n}", body) for n, body in enumerate(bodies)] == [2] * 3
    found = fetch(guest, "orders/incoming", "g", "c?where=amount > 10")
    assert found == [["channel", "orders.0", "body", bodies[0]]]
    assert [fields[-1] for fields in fetch(guest, "orders/incoming", "g")] == [*bodies[1:]]


def test_a_repeated_id_is_one_message(guest: Guest) -> None:
    """Check 70: it counts as taken."""
    assert guest.ask("PUBLISH", "orders.1", '{"id": "a"}') == 2
    assert guest.ask("PUBLISH", "orders.1", '{"id": "a"}') == 2
    assert guest.ask("XLEN", "orders/incoming") == 1
    assert guest.ask("XLEN", "audit/orders.1") == 2


def test_a_full_domain_refuses_for_all(house: House, guest: Guest) -> None:
    """Checks 69, 71: two feeds are all or none, and nobody heard what was refused."""
    hearing = house.guest()
    hearing.ask("SUBSCRIBE", "orders.1")
    assert [guest.ask("PUBLISH", "orders.1", "x") for _ in range(2)] == [3, 3]
    error = guest.ask("PUBLISH", "orders.1", "y")
    assert error == "OOM the queue that this channel feeds is full: max_messages 2"
    assert guest.ask("XLEN", "orders/incoming") == 2
    assert heard(house, hearing) == [[b"message", b"orders.1", b"x"]] * 2


def test_a_full_domain_may_go_without() -> None:
    """Check 69: who listens hears it, and that is told."""
    feed = ChannelFeed(("log",), when_full="drop")
    house = House(domains=[replace(AUDIT, max_messages=1, feeds=(feed,))])
    guest = house.guest()
    assert [guest.ask("PUBLISH", "log", "x") for _ in range(2)] == [1, 0]
    assert guest.ask("XLEN", "audit/log") == 1
    assert [fact.domain for fact in house.rig.take_facts(FeedDropped)] == ["audit"]


def waiting_house() -> House:
    """A channel that feeds a queue for one message, and has publishers wait for room."""
    feed = ChannelFeed(("log",), when_full="wait")
    return House(domains=[replace(AUDIT, max_messages=1, feeds=(feed,)), ORDERS])


def settle(house: House) -> None:
    for _ in range(3):
        house.take_turns()
        house.end_pass()


def test_a_publisher_may_wait_for_room() -> None:
    """Check 69: nobody hears it before, what it sends behind it waits, and an acknowledgement lets
    it go on."""
    house = waiting_house()
    first, guest, hearing = house.guest(), house.guest(), house.guest()
    assert first.ask("PUBLISH", "log", "1") == 1
    hearing.ask("SUBSCRIBE", "log")
    guest.session.receive(b"PUBLISH log 2\r\nPING\r\n")
    settle(house)
    assert (guest.received, guest.paused, heard(house, hearing)) == (b"", True, [])
    assert "flags=b" in first.ask("CLIENT", "LIST", "ID", guest.id)
    [[id, _]] = first.ask("XREADGROUP", "GROUP", "a", "c", "STREAMS", "audit/log", ">")[0][1]
    assert first.ask("XACK", "audit/log", "a", id) == 1
    settle(house)
    assert guest.received == b":2\r\n+PONG\r\n"
    assert heard(house, hearing) == [[b"message", b"log", b"2"]]
    assert fetch(first, "audit/log", "a") == [["channel", "log", "body", "2"]]


@pytest.mark.parametrize("how", ["time", "unblocked"])
def test_a_publisher_waits_no_longer(how: str) -> None:
    """Check 69: then it is refused, and nobody hears it."""
    house = waiting_house()
    guest, other = house.guest(), house.guest()
    guest.ask("PUBLISH", "log", "1")
    guest.session.receive(b"PUBLISH log 2\r\n")
    settle(house)
    if how == "time":
        house.now += FULL_SECONDS - 1
        house.submitted.append(Tick())
        settle(house)
        assert guest.received == b""
        house.now += 1
        house.submitted.append(Tick())
    else:
        assert other.ask("CLIENT", "UNBLOCK", guest.id) == 1
    settle(house)
    assert guest.received.startswith(b"-OOM the queue that this channel feeds is full")
    assert other.ask("XLEN", "audit/log") == 1


def test_a_publisher_that_waited_is_gone() -> None:
    """Check 69: what nobody is told of is not done."""
    house = waiting_house()
    guest, other = house.guest(), house.guest()
    other.ask("PUBLISH", "log", "1")
    guest.session.receive(b"PUBLISH log 2\r\n")
    settle(house)
    house.submitted.append(Disconnect(guest.session.id, True))
    settle(house)
    assert not house.rig.shard.shared.feeding.waiting
    assert other.ask("XTRIM", "audit/log", "MAXLEN", "0") == 0
    assert fetch(other, "audit/log", "a") == [["channel", "log", "body", "1"]]


def test_nothing_waits_in_a_transaction() -> None:
    """Check 69."""
    guest = waiting_house().guest()
    guest.ask("PUBLISH", "log", "1")
    guest.ask("MULTI")
    guest.ask("PUBLISH", "log", "2")
    [error] = guest.ask("EXEC")
    assert str(error).startswith("OOM the queue that this channel feeds is full")


def test_a_pipeline_keeps_its_order(house: House, guest: Guest) -> None:
    """Check 68: over channels that feed and channels that do not."""
    hearing = house.guest()
    hearing.ask("PSUBSCRIBE", "*")
    words = [(b"plain", b"1"), (b"log", b"2"), (b"log", b"3"), (b"plain", b"4")]
    guest.session.receive(b"".join(b"PUBLISH %b %b\r\n" % pair for pair in words))
    for _ in range(5):
        house.end_pass()
    assert guest.received == b":1\r\n:2\r\n:2\r\n:1\r\n"
    assert [frame[3].decode() for frame in heard(house, hearing)] == ["1", "2", "3", "4"]


def test_channels_that_are_known_to_feed_nothing() -> None:
    """Check 74: PUBLISHes on them take the short way of a read, up to one that feeds; no longer
    when that feeds something, too."""
    house = House(domains=[replace(AUDIT, max_messages=100)])
    guest, hearing = house.guest(), house.guest()
    hearing.ask("PSUBSCRIBE", "*")

    def publish(*names: bytes) -> bytes:
        words = [(b"PUBLISH", name, b"%d" % n) for n, name in enumerate(names)]
        guest.session.receive(b"".join(map(multibulk, words)))
        for _ in range(5):
            house.end_pass()
        received, guest.received = guest.received, b""
        assert [(each[2], int(each[3])) for each in heard(house, hearing)] == [
            (name, n) for n, name in enumerate(names)
        ]
        return received

    names = (b"a", b"a", b"b", b"log", b"log", b"a", b"new")
    for _ in range(2):  # they are known the second time
        assert publish(*names) == b":1\r\n:1\r\n:1\r\n:2\r\n:2\r\n:1\r\n:1\r\n"
    assert house.hub.feeds.unfed == {b"a", b"b", b"new"}
    house.rig.shard.domains["audit"] = replace(AUDIT, feeds=(ChannelFeed(("a",)),))
    house.hub.feeds.look()
    assert publish(b"log", b"a", b"log") == b":1\r\n:2\r\n:1\r\n"


def test_sharded_channels_feed_if_they_are_to(guest: Guest) -> None:
    assert guest.ask("SPUBLISH", "log", "x") == 0
    house = House(domains=[replace(AUDIT, feeds=(ChannelFeed(("log",), kinds=("sharded",)),))])
    other = house.guest()
    assert [other.ask("SPUBLISH", "log", "x"), other.ask("PUBLISH", "log", "y")] == [1, 0]
    assert fetch(other, "audit/log", "a") == [["channel", "log", "body", "x"]]


def test_a_transaction_feeds_in_one_turn(guest: Guest) -> None:
    guest.ask("MULTI")
    guest.ask("PUBLISH", "log", "x")
    guest.ask("SET", "k", "v")
    guest.ask("PUBLISH", "plain", "y")
    assert guest.ask("EXEC") == [1, "OK", 0]
    assert fetch(guest, "audit/log", "a") == [["channel", "log", "body", "x"]]


def test_feeds_follow_the_configuration(house: House, guest: Guest) -> None:
    assert guest.ask("PUBLISH", "log", "x") == 1
    house.submitted.append(Reconfigure(replace(AUDIT, feeds=())))
    house.take_turns()
    house.hub.tick()
    assert guest.ask("PUBLISH", "log", "x") == 0


def test_a_channel_whose_name_is_no_queue(guest: Guest) -> None:
    error = guest.ask("PUBLISH", "orders." + "x" * 70, "x")
    assert error.endswith("its name is no name of a queue: set queue in that feed")
    assert guest.ask("PUBLISH", "plain", "x") == 0


def test_nothing_is_done_if_the_store_fails(house: House, guest: Guest) -> None:
    """Check 69: nobody heard it."""
    hearing = house.guest()
    hearing.ask("SUBSCRIBE", "log")
    house.rig.fail_at = 0
    assert guest.ask("PUBLISH", "log", "x").startswith("ERR the store failed")
    assert heard(house, hearing) == []


def test_a_domain_speaks(house: House, guest: Guest) -> None:
    """Check 71: what is added is heard, on the channel that its property names, and not fed."""
    hearing = house.guest()
    hearing.ask("SUBSCRIBE", "prices.X")
    guest.ask("XADD", "ticks", "*", "symbol", "X", "price", "7", "data", "seven")
    [frame] = heard(house, hearing)
    assert frame[:2] == [b"message", b"prices.X"]
    found = json.loads(frame[2])
    assert found["properties"] == {"symbol": "X", "price": 7}
    assert (found["queue"], found["body"]) == ("bmq://prices/ticks", "seven")
    guest.ask("XADD", "ticks", "*", "price", "7", "data", "seven")
    assert heard(house, hearing) == []
    assert len(house.rig.take_facts(Unspoken)) == 1


def test_who_does_not_read_misses_what_a_domain_speaks(house: House, guest: Guest) -> None:
    """Check 72: it is told, and producers go on."""
    hearing = house.guest()
    hearing.ask("SUBSCRIBE", "prices.X")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 100
    hearing.is_stuck = True
    for price in range(5):
        guest.ask("XADD", "ticks", "*", "symbol", "X", "price", price, "data", "x" * 80)
        house.end_pass()
    assert not hearing.ended
    lost = sum(fact.count for fact in house.facts_of("MessagesDiscarded"))
    assert lost == 5 - len(hearing.mailbox) > 0
    assert guest.ask("PING") == "PONG"


def test_what_a_domain_speaks_feeds_nothing() -> None:
    """Check 71: there is no loop."""
    feeds = (ChannelFeed(("echo",), queue="q"),)
    house = House(domains=[replace(AUDIT, feeds=feeds, speaks="echo")])
    guest = house.guest()
    assert guest.ask("PUBLISH", "echo", "x") == 1
    assert guest.ask("XLEN", "audit/q") == 1


@pytest.mark.parametrize(
    ("template", "channel"),
    [("a", b"a"), ("a.{s}", b"a.X"), ("{i}-{b}", b"7-true"), ("{none}", None), ("{s}{s}", b"XX")],
)
def test_the_channel_of_a_message(template: str, channel: bytes | None) -> None:
    assert spoken_channel(template, {"s": "X", "i": 7, "b": True}) == channel
