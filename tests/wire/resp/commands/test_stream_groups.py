"""Groups that clients make, over a core without a process. The numbers are those of the checks in
docs/design/streams.md."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.model.domain import Domain
from tests.support.resp_hub import Guest, House

OPEN = Domain.fanout("jobs", streams=("s*",), groups="open", max_groups=3, keep_messages=100)
NO_KEY = "ERR The XGROUP subcommand requires the key to exist"
NO_GROUP = "NOGROUP No such consumer group 'x' for key name 's'"
BUSY = "BUSYGROUP Consumer Group name already exists"


@pytest.fixture
def house() -> House:
    return House(domains=(OPEN,))


@pytest.fixture
def guest(house: House) -> Guest:
    return house.guest()


def new(guest: Guest, group: str = "g", consumer: str = "c") -> list[str]:
    found: Any = guest.ask("XREADGROUP", "GROUP", group, consumer, "STREAMS", "s", ">")
    return [] if found is None else [id for id, _ in found[0][1]]


def add(guest: Guest, *fields: str) -> str:
    id: str = guest.ask("XADD", "s", "*", *(fields or ("a", "1")))
    return id


def test_a_group_is_made_once(guest: Guest) -> None:
    """Check 20."""
    assert guest.ask("XGROUP", "CREATE", "s", "g", "$").startswith(NO_KEY)
    assert guest.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM") == "OK"
    assert guest.ask("XGROUP", "CREATE", "s", "g", "0") == BUSY
    assert guest.ask("XGROUP", "CREATE", "s", "", "0") == "ERR the name of a group is empty"
    assert "not valid UTF-8" in guest.ask("XGROUP", "CREATE", "s", b"\xff", "0")
    assert guest.ask("XGROUP", "CREATE", "s", "h", "0") == "OK"
    assert guest.ask("XGROUP", "CREATE", "s", "i", "0") == "OK"
    assert "limit max_groups of 3 reached: destroy" in guest.ask("XGROUP", "CREATE", "s", "j", "0")


def test_a_group_begins_where_it_is_told(guest: Guest) -> None:
    """Check 21: of what is there and of what is kept."""
    first, second, third = (add(guest) for _ in range(3))
    guest.ask("XGROUP", "CREATE", "s", "g", "0")
    assert new(guest) == [first, second, third]
    assert guest.ask("XACK", "s", "g", first, second) == 2
    guest.ask("XGROUP", "CREATE", "s", "h", first)
    assert new(guest, "h") == [second, third]
    guest.ask("XGROUP", "CREATE", "s", "i", "$")
    assert new(guest, "i") == []
    assert [add(guest)] == new(guest, "i")


def test_a_group_that_is_destroyed_is_gone(house: House, guest: Guest) -> None:
    """Checks 23 and 52."""
    guest.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    guest.ask("XGROUP", "CREATE", "s", "h", "$")
    id = add(guest)
    assert new(guest) == [id]
    waiting = house.guest()
    assert waiting.raw("XREADGROUP", "GROUP", "g", "d", "BLOCK", 0, "STREAMS", "s", ">") == b""
    assert guest.ask("XGROUP", "DESTROY", "s", "g") == 1
    gone = b"-NOGROUP the consumer group this client was blocked on no longer exists\r\n"
    assert waiting.raw() == gone
    assert guest.ask("XGROUP", "DESTROY", "s", "g") == 0
    assert guest.ask("XGROUP", "DESTROY", "t", "g").startswith("ERR no domain takes")
    assert guest.ask("XGROUP", "DESTROY", "s2", "g").startswith(NO_KEY)
    assert new(guest, "h") == [id]
    assert guest.ask("XREADGROUP", "GROUP", "g", "c", "BLOCK", 5, "STREAMS", "s", ">") == (
        "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
    )
    assert guest.ask("XACK", "s", "g", id) == 0


def test_a_group_goes_on_from_another_place(guest: Guest) -> None:
    first, second, third = (add(guest) for _ in range(3))
    guest.ask("XGROUP", "CREATE", "s", "g", "$")
    assert guest.ask("XGROUP", "SETID", "s", "x", "0") == NO_GROUP
    assert guest.ask("XGROUP", "SETID", "s", "g", second) == "OK"
    assert new(guest) == [third]
    assert guest.ask("XGROUP", "SETID", "s", "g", "0") == "OK"
    assert new(guest) == [first, second]  # the third is still held
    assert guest.ask("XGROUP", "SETID", "s", "g", "-") == "OK"
    assert new(guest) == []
    assert guest.ask("XACK", "s", "g", first, second, third) == 3
    assert guest.ask("XGROUP", "SETID", "s", "g", "0") == "OK"
    assert guest.ask("XGROUP", "SETID", "s", "g", "$") == "OK"
    assert new(guest) == []


def test_a_group_that_wants_a_part(guest: Guest) -> None:
    """Check 63."""
    words = ("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM", "WHERE")
    assert guest.ask(*words, "kind = 1").startswith("ERR bad expression at")
    before = add(guest, "kind", "x", "n", "1")
    assert guest.ask(*words, 'kind == "x"') == "OK"
    add(guest, "kind", "y", "n", "1")
    assert new(guest) == [before]
    assert new(guest) == []
    assert [add(guest, "kind", "x", "n", "1")] == new(guest)


def test_consumers_of_a_group_that_is_not_there(guest: Guest) -> None:
    for word in ("CREATECONSUMER", "DELCONSUMER"):
        assert guest.ask("XGROUP", word, "s", "x", "c").startswith(NO_KEY)
    add(guest)
    for word in ("CREATECONSUMER", "DELCONSUMER"):
        assert guest.ask("XGROUP", word, "s", "x", "c") == NO_GROUP
    assert guest.ask("XINFO", "CONSUMERS", "s", "x") == NO_GROUP
    assert guest.ask("XPENDING", "s", "x") == "NOGROUP No such key 's' or consumer group 'x'"


def test_what_is_told_in_full(guest: Guest) -> None:
    """Check 65."""
    guest.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    assert guest.ask("XINFO", "STREAM", "s")[-4:] == ["first-entry", None, "last-entry", None]
    ids = [add(guest) for _ in range(3)]
    new(guest)
    guest.ask("XACK", "s", "g", ids[0])
    told = guest.ask("XINFO", "STREAM", "s")
    about = dict(zip(told[::2], told[1::2], strict=True))
    assert (about["length"], about["groups"], about["entries-added"]) == (3, 1, 3)
    assert about["first-entry"] == [ids[0], ["a", "1"]]
    assert about["last-entry"] == [ids[2], ["a", "1"]]
    assert about["recorded-first-entry-id"] == ids[0]
    told = guest.ask("XINFO", "STREAM", "s", "FULL", "COUNT", "1")
    about = dict(zip(told[::2], told[1::2], strict=True))
    assert about["entries"] == [[ids[0], ["a", "1"]]]
    [group] = about["groups"]
    known = dict(zip(group[::2], group[1::2], strict=True))
    assert (known["name"], known["last-delivered-id"], known["lag"]) == ("g", ids[2], 0)
    assert known["pel-count"] == 2
    assert [each[0] for each in known["pending"]] == ids[1:]
    assert len(told) == 18
    assert "wrong number of arguments" in guest.ask("XINFO", "STREAM", "s", "WHAT")
