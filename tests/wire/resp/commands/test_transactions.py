"""MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from __future__ import annotations

import pytest

from headgate.core.model.limits import Limits
from headgate.wire.resp.reply_buffer import JOINED_BYTES
from headgate.wire.resp.settings import SlowPolicy
from tests.support.resp_hub import Guest, House


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


def test_a_subscribe_whose_answer_is_too_large_leaves_the_others() -> None:
    """S002-87: it is refused in its place, names and what is written around them counted; those
    before it are not taken back."""
    guest = House(limits=Limits(reply_bytes=300)).guest(protocol=3)
    guest.raw("MULTI")
    guest.raw("SUBSCRIBE", "a")
    guest.raw("SUBSCRIBE", *(f"b{number}" for number in range(9)))
    guest.raw("SUBSCRIBE", "c")
    assert b"reply_bytes" in guest.raw("EXEC")
    assert sorted(guest.ask("PUBSUB", "CHANNELS")) == ["a", "c"]
    assert guest.ask("PUBSUB", "CHANNELS", "[bc]*") == ["c"]


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


def test_a_transaction_that_publishes_more_than_a_mailbox_holds_is_refused(house: House) -> None:
    """RESP-62: nobody can be asked in the midst of it."""
    house.hub.budget.mailbox_hard = 1000
    reader, guest = house.guest(), house.guest()
    reader.raw("SUBSCRIBE", "c")
    reader.is_stuck = True
    for count, is_refused in ((2, False), (8, True)):
        guest.ask("MULTI")
        for _ in range(count):
            guest.ask("PUBLISH", "c", "x" * 150)
        reply = guest.raw("EXEC")
        assert reply.startswith(b"-EXECABORT") == is_refused
        if is_refused:
            assert b"mailbox_hard" in reply
        house.end_pass()
        assert reader.mailbox.bytes <= 1000
    assert guest.ask("PING") == "PONG"
    assert guest.ask("EXEC") == "ERR EXEC without MULTI"


def test_what_comes_after_a_refused_transaction_is_carried_out(house: House) -> None:
    """RESP-62: in the same line, and at once; so is a transaction that nobody stuck hears."""
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 1000
    reader, guest = house.guest(), house.guest()
    reader.raw("SUBSCRIBE", "c")
    reader.is_stuck = True
    guest.ask("PUBLISH", "c", "x")
    guest.ask("MULTI")
    for _ in range(8):
        guest.ask("PUBLISH", "c", "x" * 150)
    lines = b"EXEC\r\nPING\r\nMULTI\r\nPUBLISH d 1\r\nEXEC\r\n"
    guest.received = b""
    guest.session.receive(lines)
    refused, *rest = guest.received.split(b"\r\n")
    assert refused.startswith(b"-EXECABORT")
    assert rest == [b"+PONG", b"+OK", b"+QUEUED", b"*1", b":0", b""]


def test_a_transaction_waits_until_all_that_it_publishes_has_room(house: House) -> None:
    """RESP-62, RESP-63: in the mailbox of each who hears it."""
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 1000
    reader, other, guest = house.guest(), house.guest(), house.guest()
    reader.raw("SUBSCRIBE", "c")
    other.raw("SUBSCRIBE", "d")
    reader.is_stuck = other.is_stuck = True
    guest.ask("PUBLISH", "c", "x" * 500)
    guest.ask("MULTI")
    for _ in range(2):
        guest.ask("PUBLISH", "c", "x" * 150)
    guest.ask("PUBLISH", "d", "")
    assert guest.raw("EXEC") == b""
    assert guest.paused
    assert other.mailbox.bytes == 0
    reader.mailbox.take(house.now)
    house.hub.wake_all()
    house.end_pass()
    house.end_pass()
    assert guest.received == b"*3\r\n:1\r\n:1\r\n:1\r\n"
    assert not guest.paused
    assert 300 < reader.mailbox.bytes < 1000


def test_a_transaction_does_not_wait_for_who_is_not_slow(house: House) -> None:
    """RESP-63: somebody stuck for good with a few bytes is never closed for being slow."""
    house.hub.budget.mailbox_soft, house.hub.budget.mailbox_hard = 500, 2000
    reader, guest = house.guest(), house.guest()
    reader.raw("SUBSCRIBE", "c")
    reader.is_stuck = True
    guest.ask("PUBLISH", "c", "x" * 400)
    guest.ask("MULTI")
    for _ in range(6):
        guest.ask("PUBLISH", "c", "x" * 150)
    assert guest.ask("EXEC") == [1] * 6
    assert reader.mailbox.bytes <= 2000


@pytest.mark.parametrize("policy", ["close", "drop-oldest"])
def test_where_nobody_waits_a_transaction_does_not(house: House, policy: SlowPolicy) -> None:
    house.hub.budget.mailbox_hard = 100
    house.hub.settings.slow_session = policy
    guest = house.guest()
    guest.ask("MULTI")
    for _ in range(8):
        guest.ask("PUBLISH", "c", "x" * 150)
    assert guest.ask("EXEC") == [0] * 8


def test_an_answer_that_is_skipped_inside_of_a_transaction_is_the_one_after_it(
    house: House,
) -> None:
    """As Redis does it, whose array then lacks an item."""
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("CLIENT", "REPLY", "SKIP")
    guest.ask("SET", "k", "v")
    assert guest.raw("EXEC") == b"*2\r\n+OK\r\n"
    assert guest.raw("PING") == b""
    assert guest.ask("PING") == "PONG"


def test_answers_end_where_they_are_switched_off_and_go_on_where_they_are_on(house: House) -> None:
    """RESP-35: the array of a transaction lacks the answers that nobody wanted."""
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("SET", "k", "v")
    guest.ask("CLIENT", "REPLY", "OFF")
    guest.ask("GET", "k")
    assert guest.raw("EXEC") == b"*3\r\n+OK\r\n"
    assert guest.raw("PING") == b""
    assert guest.raw("MULTI") == guest.raw("CLIENT", "REPLY", "ON") == guest.raw("GET", "k") == b""
    assert guest.raw("EXEC") == b"+OK\r\n$1\r\nv\r\n"
    assert guest.ask("PING") == "PONG"


def test_who_wants_no_answers_is_told_what_a_transaction_subscribed_to(house: House) -> None:
    """RESP-35: and nothing else of it, not even what was refused."""
    guest = house.guest()
    guest.raw("CLIENT", "REPLY", "OFF")
    for command in (("MULTI",), ("SUBSCRIBE", "c"), ("SSUBSCRIBE", "d"), ("PING",)):
        assert guest.raw(*command) == b""
    assert guest.raw("EXEC") == b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"


def test_a_transaction_without_a_word_says_nothing(house: House) -> None:
    guest = house.guest()
    guest.raw("CLIENT", "REPLY", "OFF")
    guest.raw("MULTI")
    guest.raw("PING")
    assert guest.raw("EXEC") == b""


def test_a_skipped_answer_stays_skipped_if_answers_are_switched_on_behind_it(house: House) -> None:
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("CLIENT", "REPLY", "SKIP")
    guest.ask("CLIENT", "REPLY", "ON")
    assert guest.raw("EXEC") == b"*2\r\n+OK\r\n"
    assert guest.raw("PING") == b""
    assert guest.ask("PING") == "PONG"


def test_who_asks_for_itself_in_a_transaction_is_in_one(house: House) -> None:
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("CLIENT", "INFO")
    guest.ask("PING")
    line, _ = guest.ask("EXEC")
    assert " flags=x " in line
    assert " multi=2 " in line
    assert " multi=-1 " in guest.ask("CLIENT", "INFO")


def test_a_missing_key_that_is_watched_is_not_changed_by_a_flush(house: House) -> None:
    """Unless it came before, and went with the others."""
    guest, other = house.guest(), house.guest()
    for changes, answer in (
        ([("SET", "other", "1"), ("FLUSHALL",)], b"*0\r\n"),
        ([("SET", "k", "1"), ("FLUSHALL",)], b"*-1\r\n"),
    ):
        guest.ask("WATCH", "k")
        for change in changes:
            other.ask(*change)
        guest.ask("MULTI")
        assert guest.raw("EXEC") == answer


def test_an_answer_in_parts_that_fails_is_the_failure_of_its_command(house: House) -> None:
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("CLIENT", "KILL", "1.2.3.4:5")
    guest.ask("SET", "k", "v")
    refused, answer = guest.ask("EXEC")
    assert (str(refused), answer) == ("ERR No such client", "OK")
    assert not guest.session.is_executing


def test_who_ends_itself_in_a_transaction_is_told_nothing_after_it(house: House) -> None:
    """But what comes after it is carried out, as Redis does it."""
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("CLIENT", "KILL", "ID", guest.id, "SKIPME", "no")
    guest.ask("SET", "k", "v")
    assert guest.raw("EXEC") == b"*2\r\n:1\r\n"
    house.end_pass()
    assert guest.ended
    assert house.guest().ask("GET", "k") == "v"


def test_large_answers_are_not_copied_once_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is written as it was made; short ones are written together."""
    guest = house.guest()
    value = b"v" * JOINED_BYTES
    guest.ask("SET", "k", value)
    guest.ask("MULTI")
    for word in (*("PING",) * 3, *("GET",) * 2, *("PING",) * 3):
        guest.ask(word, *("k",) * (word == "GET"))
    written: list[bytes] = []
    monkeypatch.setattr(guest, "write", written.append)
    guest.raw("EXEC")
    pong, large = b"+PONG\r\n", b"$%d\r\n%b\r\n" % (len(value), value)
    assert written == [b"*8\r\n" + pong * 3, large, large, pong * 3]
