"""MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from __future__ import annotations

import pytest

from headgate.core.limits import Limits
from tests.wire.resp.guests import Guest, House


@pytest.fixture
def house() -> House:
    return House()


def test_commands_are_carried_out_together(house: House) -> None:
    guest = house.guest()
    assert guest.ask("MULTI") == "OK"
    assert [guest.ask("SET", "k", "1"), guest.ask("GET", "k")] == ["QUEUED", "QUEUED"]
    assert house.guest().ask("GET", "k") is None
    assert guest.ask("EXEC") == ["OK", "1"]


def test_a_command_that_was_refused_spoils_the_transaction(house: House) -> None:
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("SET", "k", "1")
    assert guest.ask("NOSUCH").startswith("ERR unknown command")
    assert guest.ask("EXEC") == "EXECABORT Transaction discarded because of previous errors."
    assert guest.ask("GET", "k") is None


def test_an_error_of_one_command_leaves_the_others(house: House) -> None:
    """S002-87: a subscribe is not taken back by it."""
    guest = house.guest(protocol=3)
    guest.raw("MULTI")
    guest.raw("SUBSCRIBE", "c")
    guest.raw("INCRBY", "k", "x")
    reply = guest.raw("EXEC")
    assert reply.startswith(b"*2\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n-ERR value is not")
    assert guest.ask("PUBSUB", "CHANNELS") == ["c"]


def test_what_makes_no_sense_is_refused(house: House) -> None:
    guest = house.guest()
    assert guest.ask("EXEC") == "ERR EXEC without MULTI"
    assert guest.ask("DISCARD") == "ERR DISCARD without MULTI"
    guest.ask("MULTI")
    assert guest.ask("MULTI") == "ERR MULTI calls can not be nested"
    assert guest.ask("WATCH", "k") == "ERR WATCH inside MULTI is not allowed"
    assert guest.ask("DISCARD") == "OK"
    assert guest.ask("PING") == "PONG"


@pytest.mark.parametrize("change", [("SET", "k", "2"), ("DEL", "k"), ("EXPIRE", "k", "10")])
def test_a_watched_key_that_changed_ends_the_transaction(
    house: House, change: tuple[str, ...]
) -> None:
    guest, other = house.guest(), house.guest()
    other.ask("SET", "k", "1")
    guest.ask("WATCH", "k")
    other.ask(*change)
    guest.ask("MULTI")
    guest.ask("SET", "k", "3")
    assert guest.raw("EXEC") == b"*-1\r\n"
    guest.ask("MULTI")
    assert guest.raw("EXEC") == b"*0\r\n"


def test_a_watched_key_whose_time_is_over_changed(house: House) -> None:
    guest = house.guest()
    guest.ask("SET", "k", "1", "PX", "100")
    guest.ask("WATCH", "k")
    house.now += 1
    guest.ask("MULTI")
    assert guest.raw("EXEC") == b"*-1\r\n"


def test_unwatch_and_discard_forget_what_was_watched(house: House) -> None:
    guest, other = house.guest(protocol=3), house.guest()
    for forget in (("UNWATCH",), ("MULTI",)):
        guest.ask("WATCH", "k")
        other.ask("SET", "k", "2")
        guest.ask(*forget)
        if forget == ("MULTI",):
            guest.ask("DISCARD")
        guest.ask("MULTI")
        assert guest.raw("EXEC") == b"*0\r\n"


def test_only_so_many_keys_are_watched() -> None:
    """The limit watched_keys, at and one above."""
    house = House(limits=Limits(watched_keys=2))
    guest: Guest = house.guest()
    assert guest.ask("WATCH", "a", "b") == "OK"
    assert guest.ask("WATCH", "c").startswith("ERR limit watched_keys")
    guest.ask("UNWATCH")
    assert guest.ask("WATCH", "c") == "OK"


def test_an_exec_that_is_refused_ends_the_transaction(house: House) -> None:
    guest = house.guest(protocol=3)
    guest.raw("SUBSCRIBE", "c")
    guest.ask("MULTI")
    guest.raw("HELLO", "2")
    guest.raw("RESET")
    assert guest.ask("EXEC") == "ERR EXEC without MULTI"


def test_rights_are_those_of_the_moment(house: House) -> None:
    admin, guest = house.guest(), house.guest()
    admin.ask("ACL", "SETUSER", "bob", "on", "nopass", "+@all", "~*", "&*")
    guest.ask("AUTH", "bob", "x")
    guest.ask("MULTI")
    guest.ask("SET", "k", "1")
    guest.ask("GET", "k")
    admin.ask("ACL", "SETUSER", "bob", "-set")
    refused, answer = guest.ask("EXEC")
    assert str(refused).startswith("NOPERM")
    assert answer is None
