"""Looking at the history of a stream, over a core without a process. The numbers are those of the
checks in docs/design/streams.md."""

from __future__ import annotations

import pytest

from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from tests.support.resp_hub import Guest, House

KEEPS = Domain.fanout("log", "g", streams=("s*",), keep_messages=100)
KEEPS_NOT = Domain.fanout("jobs", "g", streams=("j*",))


@pytest.fixture
def house() -> House:
    return House(domains=(KEEPS, KEEPS_NOT), limits=Limits(range_messages=5))


@pytest.fixture
def guest(house: House) -> Guest:
    return house.guest()


def add(guest: Guest, *options: str) -> str:
    id: str = guest.ask("XADD", "s", *options, "*", "a", "1")
    return id


def ids(guest: Guest, *words: str) -> list[str]:
    return [id for id, _ in guest.ask(*words)]


def test_ranges_have_what_was_acknowledged(guest: Guest) -> None:
    """Check 64."""
    assert guest.ask("XRANGE", "s", "-", "+") == []
    added = [add(guest) for _ in range(4)]
    assert guest.ask("XACK", "s", "g", added[0], added[2]) == 2
    assert guest.ask("XLEN", "s") == 4
    assert guest.ask("XRANGE", "s", "-", "+", "COUNT", "1") == [[added[0], ["a", "1"]]]
    assert ids(guest, "XRANGE", "s", "-", "+") == added
    assert ids(guest, "XREVRANGE", "s", "+", "-") == added[::-1]
    assert ids(guest, "XRANGE", "s", f"({added[0]}", "+", "COUNT", "2") == added[1:3]
    assert ids(guest, "XREVRANGE", "s", f"({added[3]}", added[1]) == [added[2], added[1]]
    assert guest.ask("XRANGE", "s", "-", "+", "COUNT", "0") is None
    assert guest.ask("XRANGE", "s", "-", "+", "WHAT") == "ERR syntax error"


def test_a_range_is_bounded_and_says_so(guest: Guest) -> None:
    added = [add(guest) for _ in range(6)]
    refused = "ERR limit range_messages of 5 reached: ask for pages, with COUNT"
    assert guest.ask("XRANGE", "s", "-", "+") == refused
    assert guest.ask("XRANGE", "s", "-", "+", "COUNT", "100") == refused
    assert ids(guest, "XRANGE", "s", "-", "+", "COUNT", "5") == added[:5]
    assert ids(guest, "XRANGE", "s", added[2], "+", "COUNT", "100") == added[2:]


def test_a_range_has_so_many_bytes() -> None:
    """The limit range_bytes; one entry is given however large it is."""
    guest = House(domains=(KEEPS,), limits=Limits(range_bytes=100)).guest()
    added = [guest.ask("XADD", "s", "*", "data", size * "x") for size in (200, 20, 20)]
    refused = "ERR limit range_bytes of 100 reached: ask for smaller pages, with COUNT"
    assert guest.ask("XRANGE", "s", "-", "+") == refused
    assert ids(guest, "XRANGE", "s", "-", "+", "COUNT", "1") == added[:1]
    assert ids(guest, "XRANGE", "s", added[1], "+") == added[1:]


def test_trimming_takes_only_what_every_group_has_acknowledged(guest: Guest) -> None:
    """Check 15."""
    added = [add(guest) for _ in range(3)]
    assert guest.ask("XTRIM", "s", "MAXLEN", "1") == 0
    added.append(add(guest, "MAXLEN", "1"))
    assert guest.ask("XLEN", "s") == 4
    assert guest.ask("XACK", "s", "g", *added) == 4
    assert guest.ask("XTRIM", "s", "MINID", added[1]) == 1
    assert guest.ask("XTRIM", "s", "MAXLEN", "~", "1", "LIMIT", "1") == 1
    assert guest.ask("XTRIM", "s", "MAXLEN", "1") == 1
    assert ids(guest, "XRANGE", "s", "-", "+") == added[3:]
    assert guest.ask("XDEL", "s", added[3], added[0]) == 1
    assert guest.ask("XLEN", "s") == 0


def test_reading_without_a_group(house: House, guest: Guest) -> None:
    """Check 64: what was acknowledged is read as well."""
    assert guest.ask("XREAD", "STREAMS", "s", "0") is None
    added = [add(guest) for _ in range(2)]
    guest.ask("XACK", "s", "g", added[0])
    assert guest.ask("XREAD", "STREAMS", "s", "0") == [["s", [[id, ["a", "1"]] for id in added]]]
    assert guest.ask("XREAD", "COUNT", "1", "STREAMS", "s", added[0])[0][1][0][0] == added[1]
    assert guest.ask("XREAD", "STREAMS", "s", "$") is None
    assert "keeps nothing" in guest.ask("XREAD", "STREAMS", "j", "0")
    waiting = house.guest()
    assert waiting.raw("XREAD", "BLOCK", 0, "STREAMS", "s2", "s", "$", "$") == b""
    id = add(guest)
    assert id.encode() in waiting.raw()
    assert waiting.raw("XREAD", "BLOCK", 100, "STREAMS", "s", "$") == b""
    house.now += 1
    house.pass_time()
    assert waiting.raw() == b"*-1\r\n"
    assert waiting.ask("PING") == "PONG"


def test_nothing_waits_in_a_transaction(guest: Guest) -> None:
    """Check 53, of a read without a group."""
    guest.ask("MULTI")
    guest.ask("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    assert guest.ask("EXEC") == [None]
