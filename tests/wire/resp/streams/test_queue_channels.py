"""Broadcast queues as channels. Check 73 of docs/design/streams.md."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from headgate.core.commands import Reconfigure
from headgate.core.facts import Missed
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from tests.support.resp_hub import Guest, House

PRICES = Domain.broadcast("prices", streams=("ticks",))
JOBS = Domain.fanout("jobs", "g", streams=("jobs",))
DEAR = 'bmq://prices/ticks?where=symbol == "X" && price > 10'
ALL = "bmq://prices/ticks"


@pytest.fixture
def house() -> House:
    return House(domains=(PRICES, JOBS))


@pytest.fixture
def guest(house: House) -> Guest:
    return house.guest()


def heard(guest: Guest) -> list[Any]:
    guest.house.end_pass()
    reader = hiredis.Reader(encoding="utf-8")
    reader.feed(guest.received)
    guest.received = b""
    return [
        str(each) if isinstance(each, hiredis.ReplyError) else each
        for each in iter(reader.gets, False)
    ]


def say(guest: Guest, *words: str) -> list[Any]:
    """All frames that come of a command."""
    guest.received = guest.raw(*words)
    return heard(guest)


def add(guest: Guest, symbol: str, price: int, body: str) -> None:
    guest.ask("XADD", "ticks", "*", "symbol", symbol, "price", price, "data", body)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_subscriber_gets_what_its_expression_matches(house: House, protocol: int) -> None:
    """Check 73: a message comes under the name that was subscribed to, in the form of its
    protocol."""
    guest, adding = house.guest(protocol), house.guest()
    confirmed = guest.raw("SUBSCRIBE", DEAR)
    mark = b"*>"[protocol - 2 : protocol - 1]
    name = b"$%d\r\n%b\r\n" % (len(DEAR), DEAR.encode())
    assert confirmed == mark + b"3\r\n$9\r\nsubscribe\r\n" + name + b":1\r\n"
    add(adding, "X", 12, "dear")
    add(adding, "X", 3, "cheap")
    add(adding, "Y", 99, "other")
    house.end_pass()
    assert guest.received == mark + b"3\r\n$7\r\nmessage\r\n" + name + b"$4\r\ndear\r\n"


def test_everybody_gets_it(house: House) -> None:
    first, second, adding = house.guest(), house.guest(), house.guest()
    first.raw("SUBSCRIBE", ALL)
    second.raw("SUBSCRIBE", DEAR)
    add(adding, "X", 11, "one")
    add(adding, "X", 1, "two")
    assert heard(first) == [["message", ALL, "one"], ["message", ALL, "two"]]
    assert heard(second) == [["message", DEAR, "one"]]


def test_queues_and_channels_in_one_command(house: House, guest: Guest) -> None:
    """A client that connects again subscribes to all its channels at once, in their order."""
    other = "bmq://prices/other"
    assert say(guest, "SUBSCRIBE", "news", ALL, other, ALL) == [
        ["subscribe", "news", 1],
        ["subscribe", ALL, 2],
        ["subscribe", other, 3],
        ["subscribe", ALL, 3],
    ]
    adding = house.guest()
    add(adding, "X", 1, "tick")
    adding.ask("XADD", "prices/other", "*", "data", "more")
    assert adding.ask("PUBLISH", "news", "hello") == 1
    assert sorted(heard(guest)) == [
        ["message", other, "more"],
        ["message", ALL, "tick"],
        ["message", "news", "hello"],
    ]


def test_who_left_gets_nothing_and_may_come_again(house: House, guest: Guest) -> None:
    adding = house.guest()
    say(guest, "SUBSCRIBE", DEAR)
    assert say(guest, "UNSUBSCRIBE", DEAR) == [["unsubscribe", DEAR, 0]]
    add(adding, "X", 20, "missed")
    assert heard(guest) == []
    assert say(guest, "SUBSCRIBE", ALL) == [["subscribe", ALL, 1]]
    add(adding, "X", 20, "got")
    assert heard(guest) == [["message", ALL, "got"]]
    assert say(guest, "UNSUBSCRIBE") == [["unsubscribe", ALL, 0]]
    add(adding, "X", 20, "missed")
    assert heard(guest) == []


def test_reset_and_disconnecting_close_the_queue(house: House) -> None:
    """A queue that nobody hears has no consumers in the core."""
    first, second = house.guest(), house.guest()
    for each in (first, second):
        each.raw("SUBSCRIBE", ALL)
    [queue] = house.rig.shard.shared.queues.values()
    assert queue.readers() == {first.id, second.id}
    assert first.raw("RESET") == b"+RESET\r\n"
    second.close("gone")
    house.end_pass()
    assert queue.readers() == set()


def test_the_inbox_has_no_room_for_the_end(house: House, guest: Guest) -> None:
    """A queue that could not be closed at once is closed a little later, and nothing more is
    heard."""
    guest.raw("SUBSCRIBE", ALL)
    [queue] = house.rig.shard.shared.queues.values()
    house.has_room = False
    assert say(guest, "UNSUBSCRIBE", ALL) == [["unsubscribe", ALL, 0]]
    house.has_room = True
    house.pass_time()
    house.end_pass()
    assert queue.readers() == set()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("bmq://jobs/a", "ERR bmq://jobs/a is durable: read it with XREADGROUP"),
        (
            'bmq://prices/ticks?where=symbol = "X"',
            "ERR bad expression at 7: syntax error, unexpected invalid character",
        ),
        (
            "bmq://prices/ticks?id=g",
            "ERR a broadcast queue is bmq://DOMAIN/QUEUE, or bmq://DOMAIN/QUEUE?where=EXPR",
        ),
        (
            "bmq://prices/",
            "ERR a broadcast queue is bmq://DOMAIN/QUEUE, or bmq://DOMAIN/QUEUE?where=EXPR",
        ),
    ],
)
def test_what_is_refused(house: House, guest: Guest, name: str, error: str) -> None:
    """Check 73: of a durable domain, of a wrong expression and of no address there is no
    subscription."""
    assert say(guest, "SUBSCRIBE", name) == [error]
    assert guest.ask("PING") == "PONG"
    assert guest.ask("PUBSUB", "CHANNELS") == []


def test_one_refused_among_others(guest: Guest) -> None:
    """Each name is answered in its place."""
    wrong = "bmq://prices/other?where=1"
    first, second, third = say(guest, "SUBSCRIBE", ALL, wrong, "news")
    assert first == ["subscribe", ALL, 1]
    assert second.startswith("ERR bad expression at ")
    assert third == ["subscribe", "news", 2]


def test_a_queue_under_a_second_name(guest: Guest) -> None:
    guest.raw("SUBSCRIBE", ALL)
    assert say(guest, "SUBSCRIBE", DEAR) == ["ERR the session has the queue open already"]
    assert say(guest, "SUBSCRIBE", ALL) == [["subscribe", ALL, 1]]


def test_in_a_transaction(guest: Guest) -> None:
    guest.ask("MULTI")
    guest.ask("SUBSCRIBE", ALL)
    [refused] = guest.ask("EXEC")
    assert str(refused) == "ERR a queue is not subscribed to in a transaction"


def test_many_names(guest: Guest) -> None:
    names = [f"c{n}" for n in range(64)]
    refused = "ERR at most 64 names at once, if a queue is among them"
    assert say(guest, "SUBSCRIBE", ALL, *names) == [refused]


def test_too_many_subscriptions() -> None:
    """A queue that was opened is closed again, if its name is one too many."""
    house = House(domains=(PRICES,), limits=Limits(channels=1))
    guest = house.guest()
    first, second = say(guest, "SUBSCRIBE", "news", ALL)
    assert first == ["subscribe", "news", 1]
    assert second.startswith("ERR ")
    house.end_pass()
    [queue] = house.rig.shard.shared.queues.values()
    assert queue.readers() == set()


def test_rights_of_the_domain() -> None:
    house = House(domains=(Domain.broadcast("prices", readers=("alice",)),))
    [refused] = say(house.guest(), "SUBSCRIBE", ALL)
    assert refused.startswith("NOPERM ")


def test_a_domain_that_there_is_not(house: House, guest: Guest) -> None:
    """Of another domain it is the name of an ordinary channel."""
    name = "bmq://other/ticks"
    assert say(guest, "SUBSCRIBE", name) == [["subscribe", name, 1]]
    assert house.guest().ask("PUBLISH", name, "hello") == 1
    assert heard(guest) == [["message", name, "hello"]]


@pytest.mark.parametrize("times", [1, 3])
def test_nobody_publishes_to_a_queue(house: House, guest: Guest, times: int) -> None:
    """What a subscriber hears comes from the queue: a PUBLISH of its name is refused, alone, in a
    pipeline and in a transaction."""
    guest.raw("SUBSCRIBE", ALL)
    publisher = house.guest()
    refused = f"-ERR {ALL} is a queue: add to it with XADD\r\n".encode()
    words = [b"PUBLISH", ALL.encode(), b"false"]
    command = b"*3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    publisher.session.receive(command * times)
    house.end_pass()
    assert publisher.received == refused * times
    publisher.received = b""
    publisher.ask("MULTI")
    publisher.ask("PUBLISH", ALL, "false")
    [found] = publisher.ask("EXEC")
    assert str(found) == refused[1:-2].decode()
    assert heard(guest) == []
    assert publisher.ask("PUBLISH", "news", "true") == 0


def test_a_domain_that_comes_later() -> None:
    """A name that was a channel becomes a queue with the domain."""
    house = House(domains=(JOBS,))
    publisher = house.guest()
    assert publisher.ask("PUBLISH", ALL, "hello") == 0
    house.rig.do(Reconfigure(PRICES))
    house.hub.tick()
    assert "is a queue" in publisher.ask("PUBLISH", ALL, "hello")


def test_who_does_not_read_misses_messages(house: House) -> None:
    """Producers are not held up by a subscriber without room."""
    guest, adding = house.guest(), house.guest()
    guest.raw("SUBSCRIBE", ALL)
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 200
    guest.is_stuck = True
    for price in range(5):
        add(adding, "X", price, "x" * 80)
    missed = house.rig.take_facts(Missed)
    assert len(missed) == 5 - len(guest.mailbox) > 0
    assert not guest.ended
    assert adding.ask("PING") == "PONG"
