"""CONFIG: what can be asked about settings, and what can be changed."""

from __future__ import annotations

import pytest

from tests.support.resp_hub import Guest, House

MIB = 1024 * 1024


def value(guest: Guest, name: str) -> str:
    told = guest.ask("CONFIG", "GET", name)
    assert told[0] == name
    text: str = told[1]
    return text


def test_what_benchmarks_ask_is_answered() -> None:
    """RESP-21."""
    guest = House().guest()
    assert guest.raw("CONFIG", "GET", "save") == b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n"
    assert guest.ask("CONFIG", "GET", "appendonly") == ["appendonly", "no"]
    assert guest.ask("CONFIG", "GET", "nosuch") == []


def test_patterns_may_be_several_and_have_no_case() -> None:
    """RESP-21."""
    guest = House().guest(3)
    assert guest.ask("CONFIG", "GET", "SAV?", "append*", "save") == {"save": "", "appendonly": "no"}
    assert guest.ask("CONFIG", "GET", "nosuch") == {}
    everything = guest.ask("CONFIG", "GET", "*")
    assert everything.keys() >= {"port", "databases", "maxclients", "cluster-enabled", "bind"}
    assert (everything["port"], everything["cluster-enabled"]) == ("6379", "no")


def test_what_is_set_is_told() -> None:
    guest = House().guest()
    for name, given, told in (
        ("maxclients", "500", "500"),
        ("publish-buffer-limit", "64mb", str(64 * MIB)),
        ("async-dispatch-quota", "4", "4"),
        ("slow-session", "CLOSE", "close"),
        ("slow-timeout", "1.5", "1.5"),
        ("mailbox-soft", "1k", "1000"),
        ("mailbox-hard", "0", "0"),
        ("notify-keyspace-events", "Ex", "xE"),
    ):
        assert guest.ask("CONFIG", "SET", name, given) == "OK"
        assert value(guest, name) == told


def test_what_is_set_takes_effect() -> None:
    """RESP-70."""
    house = House()
    guest, hub = house.guest(), house.hub
    guest.ask(
        "CONFIG", "SET", "publish-buffer-limit", "100", "mailbox-hard", "5", "slow-timeout", "2"
    )
    guest.ask("CONFIG", "SET", "slow-session", "drop-oldest", "notify_keyspace_events", "EX")
    assert (hub.budget.limit, hub.budget.mailbox_hard, hub.settings.slow_timeout) == (100, 5, 2.0)
    assert hub.settings.slow_session == "drop-oldest"
    assert hub.settings.notifies_expired
    guest.ask("CONFIG", "SET", "notify-keyspace-events", "")
    assert not hub.settings.notifies_expired


def test_a_name_may_have_underscores_and_is_told_as_it_was_asked() -> None:
    guest = House().guest()
    assert guest.ask("CONFIG", "SET", "Notify_Keyspace_Events", "ex") == "OK"
    assert value(guest, "notify_keyspace_events") == "xE"
    assert value(guest, "notify-keyspace-events") == "xE"


def test_other_events_are_refused_and_the_old_ones_stay() -> None:
    """RESP-70, S002-77."""
    guest = House().guest()
    guest.ask("CONFIG", "SET", "notify-keyspace-events", "Ex")
    for wrong in ("nonsense", "KEA", "E"):
        assert guest.ask("CONFIG", "SET", "notify-keyspace-events", wrong).startswith(
            "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - "
        )
    assert value(guest, "notify-keyspace-events") == "xE"


def test_all_are_set_or_none() -> None:
    guest = House().guest()
    for wrong in (("slow-session", "x"), ("nosuch", "1"), ("databases", "17")):
        assert guest.ask("CONFIG", "SET", "maxclients", "7", *wrong).startswith("ERR ")
        assert value(guest, "maxclients") != "7"
    assert guest.ask("CONFIG", "SET", "maxclients", "7", "slow-session", "close") == "OK"
    assert (value(guest, "maxclients"), value(guest, "slow-session")) == ("7", "close")


FAILED = "ERR CONFIG SET failed (possibly related to argument '{}') - {}"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nosuch", "1"], "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
        (["maxclients"], "ERR wrong number of arguments for 'config|set' command"),
        (["maxclients", "1", "save"], "ERR syntax error"),
        (
            ["maxclients", "1", "MAXCLIENTS", "2"],
            FAILED.format("MAXCLIENTS", "duplicate parameter"),
        ),
        (
            ["maxclients", "x"],
            FAILED.format("maxclients", "argument couldn't be parsed into an integer"),
        ),
        (
            ["maxclients", "0"],
            FAILED.format("maxclients", "argument must be between 1 and 4294967295 inclusive"),
        ),
        (["databases", "3"], FAILED.format("databases", "can't set immutable config")),
        (["mailbox-soft", "1zb"], FAILED.format("mailbox-soft", "argument must be a memory value")),
        (
            ["client-output-buffer-limit", "pubsub 1 2"],
            FAILED.format(
                "client-output-buffer-limit",
                "Wrong number of arguments in buffer limit configuration.",
            ),
        ),
    ],
)
def test_what_cannot_be_set_is_refused_in_the_words_of_redis(words: list[str], error: str) -> None:
    assert House().guest().ask("CONFIG", "SET", *words) == error


def test_what_is_fixed_may_be_set_to_what_it_is() -> None:
    guest = House().guest()
    assert guest.ask("CONFIG", "SET", "save", "", "appendonly", "no", "maxmemory", "0") == "OK"


def test_limits_of_output_are_those_of_mailboxes() -> None:
    """RESP-64."""
    house = House()
    guest, hub = house.guest(), house.hub
    name = "client-output-buffer-limit"
    assert value(guest, name) == (
        f"normal 0 0 0 slave {256 * MIB} {64 * MIB} 60 pubsub {32 * MIB} {8 * MIB} 60"
    )
    assert guest.ask("CONFIG", "SET", name, "pubsub 1mb 2k 70") == "OK"
    assert (hub.budget.mailbox_hard, hub.budget.mailbox_soft) == (MIB, 2000)
    assert hub.settings.slow_timeout == 70
    assert guest.ask("CONFIG", "SET", name, "normal 1 2 3 replica 4 5 6") == "OK"
    assert value(guest, name) == f"normal 1 2 3 slave 4 5 6 pubsub {MIB} 2000 70"


def test_limits_of_nothing_are_none() -> None:
    house = House()
    slow, guest = house.guest(), house.guest()
    slow.raw("SUBSCRIBE", "c")
    slow.is_stuck = True
    name = "client-output-buffer-limit"
    assert guest.ask("CONFIG", "SET", name, "pubsub 0 0 0") == "OK"
    assert value(guest, name).endswith("pubsub 0 0 0")
    for _ in range(3):
        assert guest.ask("PUBLISH", "c", "x" * 1000) == 1
    assert not house.hub.budget.slow


def test_a_raised_limit_lets_waiting_publishers_go_on() -> None:
    """RESP-64."""
    house = House()
    slow, publisher, admin = house.guest(), house.guest(), house.guest()
    slow.raw("SUBSCRIBE", "c")
    slow.is_stuck = True
    admin.ask("CONFIG", "SET", "mailbox-hard", "100")
    assert publisher.ask("PUBLISH", "c", "x" * 1000) == 1
    assert publisher.raw("PUBLISH", "c", "y") == b""
    assert admin.ask("CONFIG", "SET", "mailbox-hard", "1mb") == "OK"
    assert publisher.received == b":1\r\n"


def test_the_password_is_that_of_the_default_user() -> None:
    house = House()
    guest = house.guest()
    assert value(guest, "requirepass") == ""
    assert guest.ask("CONFIG", "SET", "requirepass", "sesame") == "OK"
    assert "sesame" not in value(guest, "requirepass")
    other = house.guest()
    assert other.ask("PING") == "NOAUTH Authentication required."
    assert other.ask("AUTH", "sesame") == "OK"
    assert other.ask("CONFIG", "SET", "requirepass", "") == "OK"
    assert house.guest().ask("PING") == "PONG"


def test_counting_can_start_again() -> None:
    house = House()
    guest = house.guest()
    guest.ask("PING")
    assert guest.ask("CONFIG", "RESETSTAT") == "OK"
    assert (house.hub.connections, house.hub.commands) == (0, 1), "this one counts"


def test_there_is_no_file_to_rewrite() -> None:
    guest = House().guest()
    assert guest.ask("CONFIG", "REWRITE") == "ERR The server is running without a config file"
    assert guest.ask("CONFIG", "HELP")[0].startswith("CONFIG <subcommand>")
    assert guest.ask("CONFIG", "FOO") == "ERR unknown subcommand 'FOO'. Try CONFIG HELP."
