"""CLIENT: what a session says about itself, and what it may ask about the others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resp_hub import Guest, House

SYNTAX = "ERR syntax error"
FIELDS = (
    "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem"
    " rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver"
)


def rows(text: str) -> list[dict[str, str]]:
    lines = text.splitlines()
    return [dict(pair.split("=", 1) for pair in line.split(" ")) for line in lines]


def row(guest: Guest, asker: Guest | None = None) -> dict[str, str]:
    [found] = rows((asker or guest).ask("CLIENT", "LIST", "ID", guest.id))
    return found


# About oneself.


def test_numbers_rise_and_are_never_used_again() -> None:
    """RESP-18."""
    house = House()
    first = house.guest()
    first.ask("QUIT")
    second, third = house.guest(), house.guest()
    assert first.id < second.ask("CLIENT", "ID") < third.ask("CLIENT", "ID")


def test_a_session_can_be_named_and_named_again() -> None:
    """RESP-18."""
    guest = House().guest()
    assert guest.ask("CLIENT", "GETNAME") is None
    assert guest.ask("CLIENT", "SETNAME", "ada") == "OK"
    assert guest.ask("CLIENT", "GETNAME") == "ada"
    assert guest.ask("CLIENT", "SETNAME", "") == "OK"
    assert guest.ask("CLIENT", "GETNAME") is None


@pytest.mark.parametrize("name", ["a b", "a\nb", "é", "\x7f"])
def test_a_name_that_would_break_a_list_is_refused(name: str) -> None:
    """RESP-18."""
    guest = House().guest()
    guest.ask("CLIENT", "SETNAME", "ada")
    assert guest.ask("CLIENT", "SETNAME", name) == (
        "ERR Client names cannot contain spaces, newlines or special characters."
    )
    assert guest.ask("CLIENT", "GETNAME") == "ada"


def test_libraries_introduce_themselves() -> None:
    """RESP-17."""
    guest = House().guest()
    assert guest.ask("CLIENT", "SETINFO", "LIB-NAME", "redis-py") == "OK"
    assert guest.ask("CLIENT", "SETINFO", "lib-ver", "8.1.0") == "OK"
    assert (row(guest)["lib-name"], row(guest)["lib-ver"]) == ("redis-py", "8.1.0")
    assert guest.ask("CLIENT", "SETINFO", "colour", "red") == "ERR Unrecognized option 'colour'"
    assert guest.ask("CLIENT", "SETINFO", "lib-ver", "8 1") == (
        "ERR lib-ver cannot contain spaces, newlines or special characters."
    )
    assert row(guest)["lib-ver"] == "8.1.0"


def test_what_is_unknown_is_an_error_and_the_session_goes_on() -> None:
    """RESP-17."""
    guest = House().guest(3)
    reply = guest.ask(
        "CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-fqdn"
    )
    assert reply == "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."
    assert guest.ask("PING") == "PONG"


# Lists.


def test_a_line_has_the_fields_of_redis_in_their_order() -> None:
    guest = House().guest()
    text = guest.ask("CLIENT", "INFO")
    assert text.endswith("\n")
    [fields] = rows(text)
    assert list(fields) == FIELDS.split()


def test_a_line_tells_the_state_of_a_session() -> None:
    house = House()
    guest, other = house.guest(3), house.guest()
    guest.ask("CLIENT", "SETNAME", "ada")
    guest.ask("SELECT", "5")
    guest.ask("MULTI")
    guest.ask("PING")
    house.now += 90.5
    fields = row(guest, other)
    told = {"addr": guest.peer, "laddr": "127.0.0.1:6379", "name": "ada", "age": "90", "db": "5"}
    told |= {"flags": "x", "multi": "1", "cmd": "ping", "user": "default", "resp": "3"}
    assert fields == fields | told
    assert row(other)["multi"] == "-1"


def test_subscribers_are_listed_with_their_counts() -> None:
    """RESP-19."""
    house = House()
    plain, many, shard = house.guest(), house.guest(), house.guest()
    many.raw("SUBSCRIBE", "a", "b")
    many.raw("PSUBSCRIBE", "*")
    shard.raw("SSUBSCRIBE", "a")
    listed = rows(plain.ask("CLIENT", "LIST", "TYPE", "pubsub"))
    assert [(r["id"], r["flags"], r["sub"], r["psub"], r["ssub"]) for r in listed] == [
        (str(many.id), "P", "2", "1", "0"),
        (str(shard.id), "P", "0", "0", "1"),
    ]
    many.raw("UNSUBSCRIBE")
    many.raw("PUNSUBSCRIBE")
    assert {r["id"] for r in rows(plain.ask("CLIENT", "LIST", "TYPE", "Normal"))} == {
        str(plain.id),
        str(many.id),
    }


def test_types_that_nobody_is_of_are_empty() -> None:
    guest = House().guest()
    for name in ("master", "replica", "slave"):
        assert guest.ask("CLIENT", "LIST", "TYPE", name) == ""


def test_sessions_are_listed_by_number() -> None:
    house = House()
    guests = [house.guest() for _ in range(4)]
    listed = rows(guests[0].ask("CLIENT", "LIST", "ID", guests[2].id, 99, guests[1].id))
    assert [int(r["id"]) for r in listed] == [guests[2].id, guests[1].id]
    assert [int(r["id"]) for r in rows(guests[0].ask("CLIENT", "LIST"))] == [g.id for g in guests]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["TYPE", "x"], "ERR Unknown client type 'x'"),
        (["TYPE"], SYNTAX),
        (["ID"], SYNTAX),
        (["ID", "x"], "ERR Invalid client ID"),
        (["x"], SYNTAX),
        (["TYPE", "normal", "ID", "1"], SYNTAX),
    ],
)
def test_a_list_of_nonsense_is_refused(words: list[str], error: str) -> None:
    assert House().guest().ask("CLIENT", "LIST", *words) == error


def test_what_waits_for_a_subscriber_is_counted_with_it() -> None:
    """S002-55."""
    house = House()
    slow, publisher = house.guest(), house.guest()
    slow.raw("SUBSCRIBE", "c")
    slow.is_stuck = True
    publisher.ask("PUBLISH", "c", "x" * 1000)
    fields = row(slow, publisher)
    assert int(fields["omem"]) == slow.mailbox.bytes > 1000
    assert (fields["oll"], row(publisher)["omem"]) == ("1", "0")


def test_a_publisher_that_waits_is_listed_as_blocked() -> None:
    house = House()
    slow, publisher, guest = house.guest(), house.guest(), house.guest()
    slow.raw("SUBSCRIBE", "c")
    slow.is_stuck = True
    guest.ask("CONFIG", "SET", "mailbox-hard", "100")
    publisher.ask("PUBLISH", "c", "x" * 1000)
    assert row(publisher, guest)["flags"] == "N"
    assert publisher.raw("PUBLISH", "c", "y") == b""
    assert row(publisher, guest)["flags"] == "b"


# Ending sessions.


def test_a_killed_session_is_gone_with_its_subscriptions() -> None:
    """RESP-20."""
    house = House()
    victim, killer = house.guest(), house.guest()
    victim.raw("SUBSCRIBE", "a")
    assert killer.ask("CLIENT", "KILL", "ID", victim.id) == 1
    assert victim.ended == "killed by a client"
    assert killer.ask("PUBLISH", "a", "x") == 0
    assert killer.ask("CLIENT", "KILL", "ID", victim.id) == 0


def test_subscribers_are_killed_by_their_type() -> None:
    """RESP-20."""
    house = House()
    victims, killer = [house.guest(), house.guest()], house.guest()
    for victim in victims:
        victim.raw("PSUBSCRIBE", "*")
    assert killer.ask("CLIENT", "KILL", "TYPE", "pubsub") == 2
    assert all(victim.ended for victim in victims)
    assert not killer.ended
    assert killer.ask("PUBSUB", "NUMPAT") == 0


def test_a_session_is_killed_by_its_address() -> None:
    """RESP-20."""
    house = House()
    victim, killer = house.guest(), house.guest()
    assert killer.ask("CLIENT", "KILL", victim.peer) == "OK"
    assert victim.ended
    assert killer.ask("CLIENT", "KILL", victim.peer) == "ERR No such client"


def test_all_filters_have_to_match() -> None:
    """RESP-20."""
    house = House()
    old = house.guest()
    house.now += 100
    young, killer = house.guest(), house.guest()
    assert killer.ask("CLIENT", "KILL", "MAXAGE", "50", "ADDR", young.peer) == 0
    assert killer.ask("CLIENT", "KILL", "MAXAGE", "50", "USER", "default", "TYPE", "normal") == 1
    assert (bool(old.ended), bool(young.ended)) == (True, False)
    assert killer.ask("CLIENT", "KILL", "LADDR", "127.0.0.1:6379") == 1
    assert young.ended


def test_who_kills_itself_is_answered_first_and_does_nothing_more() -> None:
    """RESP-20."""
    guest = House().guest()
    assert guest.ask("CLIENT", "KILL", "ID", guest.id) == 0
    guest.session.receive(b"CLIENT KILL ID %d SKIPME NO\r\nSET k v\r\n" % guest.id)
    assert guest.received == b":1\r\n"
    assert guest.ended
    other = guest.house.guest()
    assert other.ask("GET", "k") is None
    assert other.raw("CLIENT", "KILL", other.peer) == b"+OK\r\n"
    assert other.ended


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["ID", "x"], "ERR client-id should be greater than 0"),
        (["ID", "0"], "ERR client-id should be greater than 0"),
        (["TYPE", "x"], "ERR Unknown client type 'x'"),
        (["USER", "nobody"], "ERR No such user 'nobody'"),
        (["SKIPME", "x"], SYNTAX),
        (["MAXAGE", "x"], "ERR maxage is not an integer or out of range"),
        (["MAXAGE", "0"], "ERR maxage should be greater than 0"),
        (["ID", "1", "ADDR"], SYNTAX),
        (["NOSUCH", "x"], SYNTAX),
        (["SKIPME", "no", "TYPE", "x"], "ERR Unknown client type 'x'"),
    ],
)
def test_a_wrong_kill_kills_nobody(words: list[str], error: str) -> None:
    """RESP-20."""
    house = House()
    other, guest = house.guest(), house.guest()
    assert guest.ask("CLIENT", "KILL", *words) == error
    assert not other.ended
    assert not guest.ended


# Silence.


def test_answers_can_be_switched_off_and_skipped() -> None:
    """RESP-35."""
    guest = House().guest()
    guest.session.receive(
        b"CLIENT REPLY SKIP\r\nPING a\r\nPING b\r\n"
        b"CLIENT REPLY OFF\r\nPING c\r\nCLIENT REPLY SKIP\r\nPING d\r\nPING e\r\n"
        b"CLIENT REPLY ON\r\nPING f\r\n"
        b"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING g\r\nPING h\r\n"
        b"CLIENT REPLY OFF\r\nCLIENT REPLY LOUD\r\nCLIENT REPLY ON\r\n"
    )
    assert guest.received == b"$1\r\nb\r\n+OK\r\n$1\r\nf\r\n$1\r\nh\r\n+OK\r\n"


def test_silence_keeps_confirmations_and_messages() -> None:
    """RESP-35."""
    house = House()
    quiet, publisher = house.guest(3), house.guest()
    assert quiet.raw("CLIENT", "REPLY", "OFF") == b""
    assert quiet.raw("SUBSCRIBE", "a") == b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
    publisher.ask("PUBLISH", "a", "x")
    assert quiet.raw("PING") == b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"
    assert quiet.raw("CLIENT", "REPLY", "ON") == b"+OK\r\n"


def test_how_to_be_silent_has_three_words() -> None:
    assert House().guest().ask("CLIENT", "REPLY", "LOUD") == SYNTAX


# Small talk.


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (["NO-EVICT", "on"], "OK"),
        (["NO-EVICT", "x"], SYNTAX),
        (["NO-TOUCH", "OFF"], "OK"),
        (["PAUSE", "10"], "OK"),
        (["PAUSE", "10", "write"], "OK"),
        (["PAUSE", "x"], "ERR timeout is not an integer or out of range"),
        (["PAUSE", "-1"], "ERR timeout is negative"),
        (["PAUSE", "1", "x"], "ERR CLIENT PAUSE mode must be WRITE or ALL"),
        (["PAUSE", "1", "ALL", "x"], SYNTAX),
        (["UNPAUSE"], "OK"),
        (["GETREDIR"], -1),
        (["TRACKING", "off"], "OK"),
        (["TRACKING", "ON"], "ERR client side caching is not supported"),
        (["TRACKING", "x"], SYNTAX),
        (["TRACKINGINFO"], ["flags", ["off"], "redirect", -1, "prefixes", []]),
    ],
)
def test_what_tools_say_is_answered(words: list[str], reply: Any) -> None:  # noqa: ANN401
    assert House().guest().ask("CLIENT", *words) == reply


def test_there_is_help_and_no_caching() -> None:
    guest = House().guest()
    assert guest.ask("CLIENT", "CACHING", "YES").startswith("ERR CLIENT CACHING can be called only")
    assert guest.ask("CLIENT", "HELP")[0].startswith("CLIENT <subcommand>")
