"""The scripts of redis-py's Lock, and no others."""

from __future__ import annotations

from hashlib import sha1

import pytest
from redis.lock import Lock

from headgate.wire.resp.commands.scripting import LOCKS, SCRIPT_BYTES
from tests.support.resp_hub import Guest, House

SCRIPTS = {
    "release": Lock.LUA_RELEASE_SCRIPT,
    "extend": Lock.LUA_EXTEND_SCRIPT,
    "reacquire": Lock.LUA_REACQUIRE_SCRIPT,
}
ONLY = "there is no Lua here; the only scripts that are known are those of redis-py's Lock"


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def guest(house: House) -> Guest:
    found = house.guest()
    assert found.ask("SET", "k", "token", "PX", 1000) == "OK"
    return found


def digest(name: str) -> str:
    return sha1(SCRIPTS[name].encode()).hexdigest()


def test_all_scripts_of_the_lock_are_known(guest: Guest) -> None:
    assert {digest(name).encode() for name in SCRIPTS} == LOCKS.keys()
    for name, script in SCRIPTS.items():
        assert len(script) <= SCRIPT_BYTES
        assert guest.ask("SCRIPT", "LOAD", script) == digest(name)
    assert guest.ask("SCRIPT", "EXISTS", *map(digest, SCRIPTS), "0" * 40) == [1, 1, 1, 0]
    assert guest.ask("SCRIPT", "FLUSH") == "OK"
    assert guest.ask("EVALSHA", digest("release").upper(), 1, "k", "token") == 1


@pytest.mark.parametrize("name", ["EVAL", "EVALSHA"])
def test_only_the_holder_releases(guest: Guest, name: str) -> None:
    script = SCRIPTS["release"] if name == "EVAL" else digest("release")
    assert guest.ask(name, script, 1, "k", "another") == 0
    assert guest.ask("GET", "k") == "token"
    assert guest.ask(name, script, 1, "k", "token") == 1
    assert guest.ask(name, script, 1, "k", "token") == 0


def test_a_lock_is_held_for_longer(guest: Guest) -> None:
    extend, reacquire = digest("extend"), digest("reacquire")
    assert guest.ask("EVALSHA", extend, 1, "k", "another", 500, "0") == 0
    assert guest.ask("EVALSHA", extend, 1, "k", "token", 500, "0") == 1
    assert guest.ask("PTTL", "k") == 1500
    assert guest.ask("EVALSHA", extend, 1, "k", "token", 700, "1") == 1
    assert guest.ask("PTTL", "k") == 700
    assert guest.ask("EVALSHA", reacquire, 1, "k", "token", 900) == 1
    assert guest.ask("PTTL", "k") == 900


def test_a_lock_without_an_end_is_not_extended(house: House, guest: Guest) -> None:
    guest.ask("PERSIST", "k")
    assert guest.ask("EVALSHA", digest("extend"), 1, "k", "token", 500, "0") == 0
    guest.ask("PEXPIRE", "k", 1000)
    house.now += 2
    assert guest.ask("EVALSHA", digest("extend"), 1, "k", "token", 500, "0") == 0


def test_a_time_that_is_none_is_refused(guest: Guest) -> None:
    error = guest.ask("EVALSHA", digest("reacquire"), 1, "k", "token", "x")
    assert error == "ERR value is not an integer or out of range"
    error = guest.ask("EVALSHA", digest("extend"), 1, "k", "token", 2**63 - 1, "0")
    assert error == "ERR invalid expire time in 'pexpire' command"
    assert guest.ask("PTTL", "k") == 1000


def test_other_scripts_are_refused(guest: Guest) -> None:
    for script in ("return 1", "x" * (SCRIPT_BYTES + 1)):
        for command in (("EVAL", script, 0), ("SCRIPT", "LOAD", script)):
            assert guest.ask(*command) == f"ERR this script cannot be run: {ONLY}"
    error = f"NOSCRIPT No matching script: {ONLY}"
    assert guest.ask("EVALSHA", "0" * 40, 0) == error


@pytest.mark.parametrize("words", ["0", "1 k", "2 k l token", "1 k token more", "x k token"])
def test_a_script_wants_its_arguments(guest: Guest, words: str) -> None:
    error = guest.ask("EVALSHA", digest("release"), *words.split())
    assert error == "ERR a script of redis-py's Lock has one key, and 1 more"


def test_scripts_in_a_transaction(guest: Guest) -> None:
    guest.ask("MULTI")
    guest.ask("EVALSHA", digest("release"), 1, "k", "token")
    assert guest.ask("EXEC") == [1]


def test_rights_hold_for_the_key_of_a_script(guest: Guest) -> None:
    guest.ask("ACL", "SETUSER", "default", "resetkeys", "~mine*")
    assert guest.ask("EVALSHA", digest("release"), 1, "k", "token").startswith("NOPERM")
    guest.ask("SET", "mine", "t")
    assert guest.ask("EVALSHA", digest("release"), 1, "mine", "t") == 1
    guest.ask("ACL", "SETUSER", "default", "-@scripting")
    assert guest.ask("EVALSHA", digest("release"), 1, "mine", "t").startswith("NOPERM")
