"""HELLO, AUTH, PING, ECHO, SELECT, RESET, QUIT."""

from __future__ import annotations

import pytest

from headgate.core.model.limits import Limits
from headgate.wire.resp.session import FORM_STEPS
from tests.support.resp_hub import House


@pytest.fixture
def house() -> House:
    return House()


def test_hello_tells_seven_things_in_the_version_it_asks_for(house: House) -> None:
    """RESP-13."""
    guest = house.guest()
    assert guest.raw("HELLO").startswith(b"*14\r\n$6\r\nserver\r\n")
    assert guest.raw("HELLO", "3").startswith(b"%7\r\n")
    told = guest.ask("HELLO")
    assert (told["proto"], told["mode"], told["role"], told["modules"]) == (
        3,
        "standalone",
        "master",
        [],
    )
    assert guest.raw("HELLO", "2").startswith(b"*14\r\n")


def test_hello_changes_the_version_of_so_many_subscriptions() -> None:
    """RESP-13: the limit command_steps, at and one above."""
    house = House(limits=Limits(command_steps=2 * FORM_STEPS))
    guest = house.guest(protocol=3)
    guest.raw("SUBSCRIBE", "a", "b", "c")
    assert guest.raw("HELLO", "2").startswith(b"-ERR")
    guest.raw("UNSUBSCRIBE", "c")
    assert guest.raw("HELLO", "2").startswith(b"*14\r\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("4",), "NOPROTO unsupported protocol version"),
        (("03",), "ERR Protocol version is not an integer or out of range"),
        (("3", "FOO"), "ERR Syntax error in HELLO option 'FOO'"),
        (("3", "SETNAME"), "ERR Syntax error in HELLO option 'SETNAME'"),
        (("3", "AUTH", "nobody", "x"), "WRONGPASS invalid username-password pair or user"),
        (("3", "SETNAME", "a b"), "ERR Client names cannot contain spaces"),
    ],
)
def test_a_hello_that_is_refused_changes_nothing(
    house: House, words: tuple[str, ...], error: str
) -> None:
    """RESP-14, RESP-15."""
    guest = house.guest()
    assert guest.ask("HELLO", *words).startswith(error)
    assert guest.session.protocol == 2
    assert guest.session.name == b""


def test_with_a_password_everything_else_waits_for_it() -> None:
    """RESP-15, RESP-16."""
    house = House(password="secret")
    guest = house.guest()
    assert guest.ask("PING") == "NOAUTH Authentication required."
    assert guest.ask("HELLO", "3").startswith("NOAUTH HELLO must be called")
    assert guest.ask("AUTH", "wrong").startswith("WRONGPASS")
    assert guest.ask("HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me")["proto"] == 3
    assert guest.ask("CLIENT", "GETNAME") == "me"
    assert guest.ask("RESET") == "RESET"
    assert guest.ask("PING") == "NOAUTH Authentication required."
    assert guest.ask("AUTH", "default", "secret") == "OK"
    assert guest.session.protocol == 2


def test_the_options_of_hello_may_come_in_any_order() -> None:
    """RESP-15, RESP-16: who is named before it proves itself is who it says."""
    guest = House(password="secret").guest()
    assert guest.ask("HELLO", "3", "SETNAME", "me", "AUTH", "default", "secret")["proto"] == 3
    assert guest.ask("CLIENT", "GETNAME") == "me"


def test_a_password_that_nobody_asked_for_is_an_error(house: House) -> None:
    guest = house.guest()
    assert guest.ask("AUTH", "x").startswith("ERR AUTH <password> called without any password")
    assert guest.ask("AUTH", "default", "anything") == "OK"
    assert guest.ask("AUTH", "a", "b", "c") == "ERR syntax error"


def test_ping_and_echo(house: House) -> None:
    """RESP-1, RESP-33."""
    guest = house.guest()
    assert guest.ask("PING") == "PONG"
    assert guest.ask("PING", "x") == guest.ask("ECHO", "x") == "x"
    assert guest.ask("PING", "x", "y").startswith("ERR wrong number")
    guest.raw("SUBSCRIBE", "c")
    assert guest.ask("PING") == ["pong", ""]
    assert guest.ask("PING", "x") == ["pong", "x"]


def test_there_are_sixteen_databases(house: House) -> None:
    guest = house.guest()
    assert guest.ask("SELECT", "15") == "OK"
    assert guest.ask("SELECT", "16") == "ERR DB index is out of range"
    assert guest.ask("SELECT", "x") == "ERR value is not an integer or out of range"
    assert guest.ask("SELECT", "3000000000").startswith("ERR value is out of range")
    assert guest.session.db == 15


def test_reset_leaves_nothing_behind(house: House) -> None:
    """RESP-25."""
    guest, other = house.guest(protocol=3), house.guest()
    guest.raw("SUBSCRIBE", "a")
    guest.raw("PSUBSCRIBE", "b*")
    guest.raw("SSUBSCRIBE", "c")
    guest.raw("SELECT", "3")
    guest.raw("CLIENT", "SETNAME", "me")
    guest.raw("MULTI")
    assert guest.raw("RESET") == b"+RESET\r\n"
    session = guest.session
    assert (session.protocol, session.db, session.name, session.queued) == (2, 0, b"", None)
    assert other.ask("PUBLISH", "a", "x") == other.ask("PUBLISH", "b1", "x") == 0


@pytest.mark.parametrize("answers", ["ON", "OFF", "SKIP"])
def test_reset_is_answered_unless_it_is_the_one_to_be_skipped(house: House, answers: str) -> None:
    """RESP-25: and so is what comes after it, as in Redis."""
    guest = house.guest(protocol=3)
    guest.raw("SUBSCRIBE", "a")
    guest.raw("CLIENT", "REPLY", answers)
    assert guest.raw("RESET") == (b"" if answers == "SKIP" else b"+RESET\r\n")
    assert guest.ask("PING") == "PONG"


def test_what_comes_after_quit_is_not_carried_out(house: House) -> None:
    """RESP-24."""
    guest = house.guest()
    guest.raw("SUBSCRIBE", "c")
    guest.session.receive(b"QUIT\r\nPUBLISH c x\r\n")
    assert guest.received == b"+OK\r\n"
    assert guest.ended == "quit"
    assert house.guest().ask("PUBSUB", "CHANNELS") == []
