"""What a client may ask of streams is bounded, and asked for with breaths: nobody waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.core.commands import Command
from headgate.core.model.binding import ChannelFeed
from headgate.core.model.body_paths import read_path
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.core.shared.browsing import Browsing
from headgate.core.turn.store_requests import TurnOutcome
from headgate.wire.resp.commands.stream_reading import streams_in
from headgate.wire.resp.streams.feeds import ChannelFeeds
from headgate.wire.resp.streams.keys import StreamKeys
from tests.support.resp_hub import Guest, House

JOBS = Domain.fanout("jobs", "g", "STREAMS", streams=("*",))
KEPT = Domain.fanout("kept", groups="open", keep_messages=1000, streams=("k*",))
MANY = 1200
"""Several breaths."""


def house_with(*domains: Domain, **limits: int) -> House:
    return House(domains=domains or (KEPT, JOBS), limits=Limits(**limits))


def fill(guest: Guest, count: int, key: str = "s", body: str = "1") -> None:
    for _ in range(count):
        guest.raw("XADD", key, "*", "data", body)


def hold(guest: Guest, count: int, consumer: str = "c") -> None:
    """Have a consumer hold so many."""
    fill(guest, count)
    read = ("XREADGROUP", "GROUP", "g", consumer, "STREAMS", "s", ">")
    while guest.ask(*read) is not None:
        pass


def breaths(guest: Guest, *words: object) -> int:
    """How often others were served meanwhile."""
    rig = guest.house.rig
    before = rig.breaths
    guest.raw(*map(str, words))
    return rig.breaths - before


@pytest.mark.parametrize("verb", [("XADD", "*", "a", "b"), ("XLEN",), ("XRANGE", "-", "+")])
@pytest.mark.parametrize("key", [":" * 20_000, "jobs/" + ":" * 20_000])
def test_a_key_that_is_too_long_is_not_read(verb: tuple[str, ...], key: str) -> None:
    said = house_with().guest().ask(verb[0], key, *verb[1:])
    assert said.startswith("ERR limit name_bytes of 8192 reached")


@pytest.mark.parametrize("key", [b":" * 65, b"jobs/" + b"a" * 65, b"jobs/" + b":" * 65])
def test_a_name_that_cannot_become_shorter_is_not_spelled(
    key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.wire.resp.streams.keys.spelled", pytest.fail)
    with pytest.raises(Exception, match="1 to 64 characters"):
        StreamKeys({"jobs": JOBS}).find(key)


def test_a_channel_that_is_too_long_feeds_nothing_and_is_not_remembered() -> None:
    fed = Domain.fanout("fed", "g", feeds=(ChannelFeed(("*",)),))
    guest = house_with(fed).guest()
    assert guest.ask("PUBLISH", "c" * 9000, "x").startswith("ERR limit name_bytes of 8192")
    feeds = guest.house.hub.feeds
    assert isinstance(feeds, ChannelFeeds)
    assert not feeds._bound
    assert guest.ask("PUBLISH", ":" * 65, "x").startswith("ERR the channel")


def test_what_a_group_holds_is_gone_through_with_breaths() -> None:
    guest = house_with().guest()
    hold(guest, MANY)
    nobody = ("XPENDING", "s", "g", "-", "+", "10", "nobody")
    assert breaths(guest, *nobody) >= 3
    assert breaths(guest, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "9999999999999-0") >= 3
    late = ("XAUTOCLAIM", "s", "g", "d", "0", "9999999999999-0")
    assert breaths(guest, *late) >= 3


def test_only_who_asks_for_groups_has_them_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = house_with().guest()
    hold(guest, 3)
    shared = guest.house.rig.shard.shared
    monkeypatch.setattr(type(shared.surveying), "_view", pytest.fail)
    assert guest.ask("XLEN", "s") == 3
    about = guest.ask("XINFO", "STREAM", "s")
    assert about[about.index("groups") + 1] == 2
    assert guest.ask("XGROUP", "CREATE", "s", "g", "$").startswith("BUSYGROUP")


def test_pending_entries_are_listed_in_pages() -> None:
    guest = house_with(range_messages=5).guest()
    hold(guest, 6)
    assert "range_messages of 5" in guest.ask("XPENDING", "s", "g", "-", "+", "100")
    page = guest.ask("XPENDING", "s", "g", "-", "+", "5")
    assert len(page) == 5
    rest = guest.ask("XPENDING", "s", "g", f"({page[-1][0]}", "+", "5")
    assert len(rest) == 1


def test_all_of_a_stream_is_told_if_it_is_not_much() -> None:
    guest = house_with(range_messages=10, range_bytes=100).guest()
    hold(guest, 3)
    assert isinstance(guest.ask("XINFO", "STREAM", "s", "FULL", "COUNT", "0"), list)
    hold(guest, 3)
    said = guest.ask("XINFO", "STREAM", "s", "FULL", "COUNT", "0")
    assert said.startswith("ERR limit range_messages of 10 reached")
    fill(guest, 2, "t", "x" * 60)
    said = guest.ask("XINFO", "STREAM", "t", "FULL", "COUNT", "0")
    assert said.startswith("ERR limit range_bytes of 100 reached")


def test_a_claim_has_as_much_as_an_answer() -> None:
    guest = house_with(range_messages=5).guest()
    hold(guest, 7)
    ids = [id for id, *_ in guest.ask("XPENDING", "s", "g", "-", "+", "5")]
    start, claimed, _ = guest.ask("XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "1000")
    assert [id for id, _ in claimed] == ids
    start, claimed, _ = guest.ask("XAUTOCLAIM", "s", "g", "d", "0", start, "COUNT", "1000")
    assert (start, len(claimed)) == ("0-0", 2)


def test_a_claim_of_the_same_over_and_over_is_bounded_by_bytes() -> None:
    guest = house_with(pull_bytes=100).guest()
    hold(guest, 1)
    fill(guest, 1, body="x" * 60)
    guest.raw("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    [_, (id, *_)] = guest.ask("XPENDING", "s", "g", "-", "+", "5")
    assert len(guest.ask("XCLAIM", "s", "g", "d", "0", *[id] * 50)) == 2


@pytest.mark.parametrize("retries", [2**63 - 1, -5])
def test_a_count_of_deliveries_is_one(retries: int) -> None:
    guest = house_with().guest()
    hold(guest, 1)
    [[id, *_]] = guest.ask("XPENDING", "s", "g", "-", "+", "5")
    guest.ask("XCLAIM", "s", "g", "d", "0", id, "RETRYCOUNT", retries)
    guest.ask("XCLAIM", "s", "g", "e", "0", id)
    [[_, _, _, times]] = guest.ask("XPENDING", "s", "g", "-", "+", "5")
    assert times == (2**31 if retries > 0 else 1)


def test_a_read_of_many_streams_has_as_much_as_a_range() -> None:
    guest = house_with(range_messages=8).guest()
    for key in ("k1", "k2", "k3", "k4"):
        guest.raw("XGROUP", "CREATE", key, "h", "0", "MKSTREAM")
        fill(guest, 5, key)
    keys = ("k1", "k2", "k3", "k4")
    counts = [len(some) for _, some in guest.ask("XREAD", "STREAMS", *keys, *["0"] * 4)]
    assert counts == [2, 2, 2, 2]
    read = ("XREADGROUP", "GROUP", "h", "c", "STREAMS")
    assert [len(some) for _, some in guest.ask(*read, *keys, *[">"] * 4)] == [2, 2, 2, 2]
    assert [len(some) for _, some in guest.ask(*read, *keys, *["0"] * 4)] == [2, 2, 2, 2]
    assert len(guest.ask(*read, "k1", ">")[0][1]) == 3


ALL = b"*4\r\n$6\r\nXRANGE\r\n$1\r\nk\r\n$1\r\n-\r\n$1\r\n+\r\n"
ENTRY = b"*2\r\n*2\r\n"


def turns_of(house: House, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands each turn from now on has."""
    turns, take_turn = [], house.rig.turn

    def turn(commands: list[Command]) -> TurnOutcome:
        turns.append(len(commands))
        return take_turn(commands)

    monkeypatch.setattr(house.rig, "turn", turn)
    return turns


def test_what_a_turn_tells_is_in_memory_together_so_more_is_another_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = house_with(range_bytes=100)
    guests = [house.guest() for _ in range(3)]
    fill(guests[0], 2, "k", "x" * 40)
    turns = turns_of(house, monkeypatch)
    for guest in guests:
        guest.session.receive(ALL)
    house.end_pass()
    assert [guest.received.count(ENTRY) for guest in guests] == [1, 1, 1]
    assert turns == [3, 2, 1]


def test_entries_are_read_only_when_the_client_took_those_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever it asks for in one pipeline."""
    house = house_with()
    guest = house.guest()
    fill(guest, 2, "k", "x" * 40)
    turns = turns_of(house, monkeypatch)
    guest.session.receive(ALL * 3)
    house.end_pass()
    assert turns == [1, 1, 1]
    assert guest.received.count(ENTRY) == 3
    guest.is_stuck, guest.answers_max = True, 10
    guest.session.receive(ALL * 3 + b"PING\r\n")
    house.end_pass()
    assert turns == [1] * 4
    guest.is_stuck = False
    while guest.mailbox.answers:
        guest.mailbox.take(house.now)
    guest.session.go_on()
    house.end_pass()
    assert turns == [1] * 6
    assert guest.received.count(ENTRY) == 5
    assert guest.received.endswith(b"+PONG\r\n")


def test_nothing_is_read_for_a_client_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    house = house_with()
    guest = house.guest()
    fill(guest, 2, "k")
    guest.session.receive(ALL)
    guest.close("gone")
    monkeypatch.setattr(Browsing, "_entries", pytest.fail)
    house.end_pass()
    assert guest.received == b""


def test_reads_are_charged_to_a_transaction() -> None:
    """There it cannot wait until the client takes them."""
    guest = house_with(command_steps=1100).guest()
    guest.ask("MULTI")
    said = [guest.ask("XRANGE", "k", "-", "+") for _ in range(5)]
    assert said[:4] == ["QUEUED"] * 4
    assert "command_steps of 1100 reached" in said[4]


def test_a_transaction_of_ranges_answers_no_more_than_one_command() -> None:
    guest = house_with(reply_bytes=1000).guest()
    fill(guest, 1, "k", "x" * 400)
    guest.ask("MULTI")
    for _ in range(4):
        guest.ask("XRANGE", "k", "-", "+")
    *good, third, fourth = guest.ask("EXEC")
    assert [len(some) for some in good] == [1, 1]
    assert "reply_bytes of 1000 reached" in str(third)
    assert "reply_bytes of 1000 reached" in str(fourth)


JSON = '{"a":' + "1" * 200 + "}"


@pytest.mark.parametrize("command", [("XADD", "b", "*", "data", JSON), ("PUBLISH", "f", JSON)])
def test_reading_bodies_is_charged_to_a_transaction(command: tuple[str, ...]) -> None:
    read = {"a": read_path("a")}
    fed = Domain.fanout(
        "fed", "g", streams=("b",), properties=read, feeds=(ChannelFeed(("f",), properties=read),)
    )
    guest = house_with(fed, command_steps=40).guest()
    guest.ask("MULTI")
    said = [guest.ask(*command) for _ in range(8)]
    assert said[0] == "QUEUED"
    assert "command_steps of 40 reached" in said[-1]


def test_an_expression_costs_what_it_takes() -> None:
    guest = house_with().guest()
    guest.ask("MULTI")
    said = [guest.ask("HG.EXPR", "a == 1") for _ in range(6)]
    assert "command_steps" in said[-1]


def test_fields_that_are_too_long_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = house_with(properties_bytes=100).guest()
    monkeypatch.setattr("headgate.wire.resp.streams.fields._plain", pytest.fail)
    said = guest.ask("XADD", "s", "*", "data", "x" * 500, "n", "y" * 300)
    assert said.startswith("ERR limit properties_bytes of 100 reached")


def test_names_of_all_groups_are_bounded() -> None:
    guest = house_with(readers=3).guest()
    made = [guest.ask("XGROUP", "CREATECONSUMER", "s", "g", f"c{n}") for n in range(3)]
    assert made == [1, 1, 1]
    said = guest.ask("XGROUP", "CREATECONSUMER", "t", "g", "c")
    assert said.startswith("ERR limit readers of 3 reached")
    assert guest.ask("XGROUP", "DELCONSUMER", "s", "g", "c0") == 0
    assert guest.ask("XGROUP", "CREATECONSUMER", "t", "g", "c") == 1


def test_who_reads_leaves_a_group_with_breaths() -> None:
    guest = house_with().guest()
    guest.raw("XGROUP", "CREATE", "k", "h", "$", "MKSTREAM")
    for number in range(400):
        guest.raw("XGROUP", "CREATECONSUMER", "k", "h", f"c{number}")
    assert breaths(guest, "XGROUP", "DESTROY", "k", "h") >= 3


@pytest.mark.parametrize("word", ["COUNT", "STREAMS"])
def test_words_of_a_range_come_in_pairs(word: str) -> None:
    guest = house_with().guest()
    assert guest.ask("XRANGE", "s", "-", "+", word) == "ERR syntax error"
    assert guest.ask("XRANGE", "s", "-", "+", "COUNT", "1", word, "x").startswith("ERR")


# Rights.


def test_a_group_that_is_called_as_a_word_hides_no_key() -> None:
    """Rights are looked for by the keys that are read."""
    house = house_with()
    fill(house.guest(), 1, "secret")
    house.guest().ask("ACL", "SETUSER", "eve", "on", "nopass", "~n*", "+@all")
    eve = house.guest()
    assert eve.ask("AUTH", "eve", "x") == "OK"
    read: list[Any] = ["XREADGROUP", "GROUP", "STREAMS", "n1", "noack", "noack"]
    said = eve.ask(*read, "STREAMS", "secret", ">")
    assert str(said).startswith("NOPERM")
    assert eve.ask(*read, "STREAMS", "n2", ">") is None


def entitled(house: House) -> Guest:
    """A client that is a user with rules."""
    house.guest().ask("ACL", "SETUSER", "bob", "on", "nopass", "~*", "+@all")
    bob = house.guest()
    assert bob.ask("AUTH", "bob", "x") == "OK"
    return bob


@pytest.mark.parametrize("rule", ["resetkeys", "-@stream", "-xreadgroup"])
def test_who_may_read_no_more_waits_no_more(rule: str) -> None:
    house = house_with()
    bob = entitled(house)
    assert bob.raw("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">") == b""
    admin = house.guest()
    assert admin.ask("ACL", "SETUSER", "bob", rule) == "OK"
    fill(admin, 1)
    assert bob.received.startswith(b"-NOPERM")
    assert b"data" not in bob.received
    assert bob.ended == ""


def test_who_keeps_its_rights_waits_on() -> None:
    house = house_with()
    bob = entitled(house)
    bob.raw("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
    admin = house.guest()
    admin.ask("ACL", "SETUSER", "bob", "resetkeys", "~s", "-get")
    assert bob.received == b""
    fill(admin, 1)
    assert bob.received.startswith(b"*1\r\n*2\r\n$1\r\ns")


def test_what_streams_do_cannot_depend_on_watched_keys() -> None:
    """They are written in a turn, and somebody may change a key before the turn is over."""
    guest = house_with().guest()
    for words in (("SET", "k", "1"), ("WATCH", "k"), ("MULTI",), ("XADD", "s", "*", "a", "b")):
        guest.ask(*words)
    assert guest.ask("EXEC").startswith("EXECABORT")
    assert guest.ask("XLEN", "s") == 0
    for words in (("WATCH", "k"), ("UNWATCH",), ("MULTI",), ("XADD", "s", "*", "a", "b")):
        guest.ask(*words)
    assert len(guest.ask("EXEC")) == 1


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("XREAD STREAMS a b 0 0", "a b"),
        ("XREAD COUNT 1 streams a 0", "a"),
        ("XREADGROUP GROUP STREAMS STREAMS STREAMS a >", "a"),
        ("XREADGROUP GROUP g c WHERE STREAMS PRIORITY 1 BLOCK 5 NOACK STREAMS a >", "a"),
        ("XREADGROUP GROUP g c COUNT STREAMS", ""),
    ],
)
def test_keys_are_where_they_are_read(words: str, keys: str) -> None:
    assert streams_in(words.encode().split()) == keys.encode().split()


@pytest.mark.parametrize("verb", ["DEL", "UNLINK", "EXISTS", "WATCH"])
def test_keys_that_may_be_streams_are_charged(verb: str) -> None:
    """Whether a key is a stream is looked up in the patterns of all domains."""
    domains = [Domain.fanout(f"d{n}", "g", streams=(f"s{n}*",)) for n in range(40)]
    house = house_with(*domains, command_steps=1000)
    guest = house.guest()
    limit = "ERR limit command_steps of 1000 reached"
    assert guest.ask(verb, *[f"s39{n}" for n in range(30)]).startswith(limit)
    assert guest.ask(verb, *[f"a/{n}" for n in range(30)]).startswith(limit)
    assert not str(guest.ask(verb, *[f"other{n}" for n in range(600)])).startswith("ERR")


@pytest.mark.parametrize("verb", ["EXISTS", "DEL"])
def test_a_command_of_too_many_words_is_refused_before_its_words_are_looked_at(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = house_with(command_steps=100)
    asked: list[int] = []

    def weigh(self: StreamKeys, keys: Sequence[bytes]) -> int:
        asked.append(len(keys))
        return 0

    monkeypatch.setattr(StreamKeys, "weigh", weigh)
    assert house.guest().ask(verb, *map(str, range(200))).startswith("ERR limit command_steps")
    assert asked == []
