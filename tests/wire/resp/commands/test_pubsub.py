"""Subscribing, publishing, and who is there, as a client sees it."""

from __future__ import annotations

import pytest

from tests.support.resp_hub import House


@pytest.fixture
def house() -> House:
    return House()


def test_every_name_is_confirmed_with_the_count(house: House) -> None:
    """RESP-26, RESP-27, RESP-30."""
    guest = house.guest()
    assert guest.raw("SUBSCRIBE", "a", "b", "a") == (
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:2\r\n"
    )
    assert guest.raw("PSUBSCRIBE", "x*").endswith(b":3\r\n")
    assert guest.raw("SSUBSCRIBE", "s").endswith(b":1\r\n")
    assert guest.raw("UNSUBSCRIBE", "unknown").endswith(b"$7\r\nunknown\r\n:3\r\n")


def test_leaving_everything_counts_down(house: House) -> None:
    """RESP-28, RESP-29."""
    guest = house.guest(protocol=3)
    guest.raw("SUBSCRIBE", "a", "b")
    guest.raw("PSUBSCRIBE", "x*")
    left = guest.raw("UNSUBSCRIBE")
    assert left.count(b">3\r\n$11\r\nunsubscribe\r\n") == 2
    assert left.endswith(b":1\r\n")
    assert guest.raw("UNSUBSCRIBE") == b">3\r\n$11\r\nunsubscribe\r\n_\r\n:1\r\n"
    assert guest.raw("SUNSUBSCRIBE") == b">3\r\n$12\r\nsunsubscribe\r\n_\r\n:0\r\n"


def test_who_is_there_can_be_asked(house: House) -> None:
    """RESP-51."""
    one, two = house.guest(protocol=3), house.guest(protocol=3)
    one.raw("SUBSCRIBE", "news.it", "news.fr")
    two.raw("SUBSCRIBE", "news.it")
    two.raw("SSUBSCRIBE", "news.it")
    two.raw("PSUBSCRIBE", "news.*", "*")
    one.raw("PSUBSCRIBE", "*")
    assert sorted(one.ask("PUBSUB", "CHANNELS")) == ["news.fr", "news.it"]
    assert one.ask("PUBSUB", "CHANNELS", "*it") == ["news.it"]
    assert one.ask("PUBSUB", "NUMSUB", "news.it", "no", "news.it") == [
        *("news.it", 2),
        *("no", 0),
        *("news.it", 2),
    ]
    assert one.ask("PUBSUB", "NUMPAT") == 2
    assert one.ask("PUBSUB", "SHARDCHANNELS") == ["news.it"]
    assert one.ask("PUBSUB", "SHARDNUMSUB", "news.it") == ["news.it", 1]
    assert one.ask("PUBSUB", "HELP")[0].startswith("PUBSUB <subcommand>")


def test_what_is_published_is_counted_over_channels_and_patterns(house: House) -> None:
    """RESP-39, RESP-40, RESP-42."""
    guest, publisher = house.guest(), house.guest()
    assert publisher.ask("PUBLISH", "abc", "x") == 0
    guest.raw("SUBSCRIBE", "abc")
    guest.raw("PSUBSCRIBE", "a*", "*c", "???")
    guest.raw("SSUBSCRIBE", "abc")
    assert publisher.ask("PUBLISH", "abc", "x") == 4
    assert guest.received.startswith(b"*3\r\n$7\r\nmessage\r\n")
    assert guest.received.count(b"$8\r\npmessage\r\n") == 3
    assert publisher.ask("SPUBLISH", "abc", "x") == 1


def test_channels_that_move_away_are_told_after_what_was_published(house: House) -> None:
    """RESP-75, S002-54, S002-73, S002-76."""
    guest, gone, publisher = house.guest(), house.guest(protocol=3), house.guest()
    guest.raw("SSUBSCRIBE", "a", "b")
    gone.raw("SSUBSCRIBE", "a")
    publisher.session.receive(b"SPUBLISH a x\r\n")
    house.hub.evict([b"a"])
    assert guest.received == (
        b"*3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$1\r\nx\r\n*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:1\r\n"
    )
    assert gone.received.endswith(b">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n")
    house.hub.evict([b"unknown"])
