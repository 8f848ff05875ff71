"""What a command costs is charged before it is carried out, and what is long takes turns."""

from __future__ import annotations

import pytest

from headgate.core.channels.audience import Kind
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.core.redis.keyspace import Keyspace
from headgate.wire.resp.codec.replies import bulk
from headgate.wire.resp.commands.all_commands import COMMANDS
from tests.support.resp_hub import Guest, House

STEPS = "ERR limit command_steps of"
BYTES = "ERR limit reply_bytes of"


def command(*words: str | bytes | int) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts))


def made_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the values that are read from now on."""
    sizes: list[int] = []
    get = Keyspace.get

    def counted(self: Keyspace, db: int, key: bytes, now: float) -> bytes | None:
        value = get(self, db, key, now)
        sizes.append(len(value or b""))
        return value

    monkeypatch.setattr(Keyspace, "get", counted)
    return sizes


def test_one_value_of_the_largest_size_is_answered() -> None:
    guest = House().guest()
    guest.ask("SET", "k", b"x" * (16 * MiB))
    assert len(guest.raw("GET", "k")) > 16 * MiB


def test_an_answer_that_would_be_too_large_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit reply_bytes."""
    guest = House(limits=Limits(reply_bytes=10 * KiB)).guest()
    guest.ask("SET", "k", b"x" * KiB)
    sizes = made_by(monkeypatch)
    assert len(guest.ask("MGET", *["k"] * 9)) == 9
    assert sizes == [KiB] * 9
    del sizes[:]
    assert guest.ask("MGET", *["k"] * 11).startswith(BYTES)
    assert sizes == []


def test_the_answers_of_a_transaction_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit reply_bytes: of what is there when each command has its turn."""
    guest = House(limits=Limits(reply_bytes=10 * KiB)).guest()
    guest.ask("MULTI")
    guest.ask("SET", "k", b"x" * KiB)
    for _ in range(20):
        guest.ask("GET", "k")
    guest.ask("SET", "k", "short", "GET")
    guest.ask("GET", "k")
    sizes = made_by(monkeypatch)
    answers = guest.raw("EXEC")
    assert answers.startswith(b"*23\r\n+OK\r\n$1024\r\n")
    assert sum(sizes) <= 10 * KiB
    assert answers.count(b"-" + BYTES.encode()) == 20 - 9 + 2


@pytest.mark.parametrize(
    "words",
    [
        ("MGET", "{}"),
        ("EXISTS", "{}"),
        ("DEL", "{}"),
        ("UNLINK", "{}"),
        ("TOUCH", "{}"),
        ("WATCH", "{}"),
        ("MSET", "{}", "v"),
        ("MSETNX", "{}", "v"),
        ("CONFIG", "GET", "{}"),
        ("CONFIG", "SET", "{}", "v"),
        ("COMMAND", "INFO", "get"),
        ("COMMAND", "DOCS", "get"),
        ("INFO", "{}"),
        ("ACL", "DELUSER", "{}"),
        ("LATENCY", "RESET", "{}"),
        ("SCAN", "0", "COUNT", "1"),
        ("HELLO", "3", "SETNAME", "x"),
    ],
    ids=" ".join,
)
def test_many_arguments_are_refused_before_anything_is_done(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit command_steps: no command of one piece takes more."""
    house = House(limits=Limits(command_steps=1000))
    guest = house.guest()
    entry = COMMANDS.find([word.encode() for word in words])
    head = [word for word in words[:2] if word.upper() == word] if "|" in entry.name else words[:1]
    rest = words[len(head) :]
    many = [word.format(number) for number in range(1001) for word in rest]
    assert guest.ask(*head, *many).startswith(STEPS)
    assert guest.ask("DBSIZE") == 0
    assert [fact.name for fact in house.facts_of("LimitReached")] == ["command_steps"]


def test_the_default_allows_what_clients_do() -> None:
    """Some ten thousand keys at once, and pipelines of as many commands as a transaction."""
    guest = House().guest()
    keys = [f"key:{number}" for number in range(10_000)]
    assert guest.ask("MSET", *[word for key in keys for word in (key, "v")]) == "OK"
    assert guest.ask("MGET", *keys) == ["v"] * len(keys)
    assert guest.ask("DEL", *keys) == len(keys)
    guest.session.receive(b"MULTI\r\n" + command("SET", "k", "v") * 5000 + b"EXEC\r\n")
    house = guest.house
    while house.calls:
        house.end_pass()
    assert guest.received.endswith(b"*5000\r\n" + b"+OK\r\n" * 5000)


def test_a_transaction_shares_one_allowance() -> None:
    """The limit command_steps: refused when the command that is too many is queued."""
    guest = House(limits=Limits(command_steps=100)).guest()
    guest.ask("MULTI")
    answers = [guest.ask("PUBLISH", "c", "x") for _ in range(21)]
    assert answers[:20] == ["QUEUED"] * 20
    assert answers[20].startswith(STEPS)
    assert guest.ask("EXEC").startswith("EXECABORT")


def test_what_answers_in_parts_is_charged_inside_of_a_transaction() -> None:
    """The limit command_steps: nobody gets a turn there."""
    house = House(limits=Limits(command_steps=400))
    guest, other = house.guest(protocol=3), house.guest(protocol=3)
    for number in range(300):
        other.raw("SET", f"k{number}", "v")
        other.raw("SUBSCRIBE", f"c{number}")
    for words in (("KEYS", "*"), ("PUBSUB", "CHANNELS"), ("CLIENT", "LIST")):
        assert not str(guest.ask(*words)).startswith(STEPS)
    guest.ask("MULTI")
    refused = [guest.ask("KEYS", "*"), guest.ask("PUBSUB", "CHANNELS")]
    assert all(answer.startswith(STEPS) for answer in refused)
    assert guest.ask("DISCARD") == "OK"
    guest.ask("MULTI")
    assert guest.ask("SUBSCRIBE", *range(60)).startswith(STEPS)


# Work in parts.


def in_slices(guest: Guest, *words: str | int) -> tuple[int, bytes]:
    """How many times others had their turn, and what was answered."""
    house = guest.house
    house.step = 0.001
    guest.session.receive(command(*words))
    turns = 0
    while guest.session.is_busy:
        assert guest.paused
        turns += 1
        house.end_pass()
    house.step = 0.0
    received, guest.received = guest.received, b""
    return turns, received


@pytest.mark.parametrize("word", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
def test_many_names_are_subscribed_to_and_left_in_slices(word: str) -> None:
    """The confirmations are those of one piece."""
    house = House()
    guest, other = house.guest(), house.guest()
    names = [f"name:{number}" for number in range(10_000)]
    turns, received = in_slices(guest, word, *names)
    assert turns > 10
    assert received == b"".join(
        b"*3\r\n%b%b:%d\r\n" % (bulk(word.lower().encode()), bulk(name.encode()), count)
        for count, name in enumerate(names, start=1)
    )
    leave = word.replace("SUB", "UNSUB")
    turns, received = in_slices(guest, leave)
    assert turns > 10
    assert received.count(leave.lower().encode()) == len(names)
    assert received.endswith(b":0\r\n")
    assert not guest.session.interests
    turns, received = in_slices(other, leave, *names)
    assert turns > 10
    assert received.count(b"\r\n:0\r\n") == len(names)


def test_a_name_is_subscribed_to_when_it_is_confirmed() -> None:
    """Those of the rest are not heard yet."""
    house = House()
    guest, other = house.guest(), house.guest()
    house.step = 0.001
    guest.session.receive(command("SUBSCRIBE", *range(5000)))
    house.step = 0.0
    assert guest.session.is_busy
    other.session.receive(command("PUBLISH", 0, "early") + command("PUBLISH", 4999, "too early"))
    while house.calls:
        house.end_pass()
    assert other.received == b":1\r\n:0\r\n"
    assert guest.received.count(b"$9\r\nsubscribe\r\n") == 5000
    assert guest.received.index(b"early") < guest.received.index(b"$4\r\n4999\r\n")
    assert b"too early" not in guest.received


def test_what_a_client_sends_behind_a_long_command_waits_for_it() -> None:
    house = House()
    guest = house.guest(protocol=3)
    house.step = 0.001
    guest.session.receive(command("SUBSCRIBE", *range(2000)) + b"PING\r\nQUIT\r\nPING\r\n")
    while house.calls:
        house.end_pass()
    assert guest.received.endswith(b":2000\r\n+PONG\r\n+OK\r\n")
    assert guest.ended


def test_a_client_may_vanish_amid_a_long_command() -> None:
    house = House()
    guest = house.guest()
    house.step = 0.001
    guest.session.receive(command("SUBSCRIBE", *range(2000)))
    assert guest.session.is_busy
    guest.close("gone")
    while house.calls:
        house.end_pass()
    assert house.hub.channels.count(Kind.EXACT) == 0
    assert house.hub.input_bytes == 0


def test_too_many_names_are_refused_before_the_first_is_confirmed() -> None:
    """The limits channels_per_session and name_bytes: all or none, however many they are."""
    guest = House(limits=Limits(channels_per_session=150, name_bytes=100)).guest()
    assert guest.ask("SUBSCRIBE", *range(151)).startswith("ERR limit channels_per_session")
    assert guest.ask("SUBSCRIBE", *range(100), "x" * 101).startswith("ERR limit name_bytes")
    assert not guest.session.interests
    assert guest.raw("SUBSCRIBE", *range(150), *range(10)).endswith(b":150\r\n")


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (("KEYS", "*"), 3000),
        (("KEYS", "*[0-4]"), 1500),
        (("PUBSUB", "CHANNELS"), 3000),
        (("PUBSUB", "CHANNELS", "*[0-4]"), 1500),
        (("PUBSUB", "NUMSUB", *range(3000)), 6000),
    ],
    ids=["KEYS", "KEYS class", "CHANNELS", "CHANNELS class", "NUMSUB"],
)
def test_long_lists_are_made_in_slices(words: tuple[str | int, ...], rows: int) -> None:
    house = House()
    guest, other = house.guest(), house.guest()
    for number in range(3000):
        guest.raw("SET", f"k{number}", "v")
        house.hub.subscribe(other.session, Kind.EXACT, [b"%d" % number])
    turns, received = in_slices(guest, *words)
    assert turns > 2
    assert received.startswith(b"*%d\r\n" % rows)


def test_a_list_of_keys_has_what_is_there_all_the_time() -> None:
    """Others go on: what died or came meanwhile may be missing."""
    house = House()
    guest, other = house.guest(), house.guest()
    for number in range(3000):
        other.raw("SET", f"k{number}", "v")
    house.step = 0.001
    guest.session.receive(command("KEYS", "*"))
    house.step = 0.0
    assert guest.session.is_busy
    other.raw("DEL", "k2999", "k2998")
    other.raw("SET", "k2998", "again")
    other.raw("FLUSHALL")
    other.raw("SET", "new", "v")
    while house.calls:
        house.end_pass()
    names = guest.received.split(b"\r\n")[2::2]
    assert guest.received.startswith(b"*%d\r\n" % len(names))
    assert set(names) <= {b"k%d" % number for number in range(2998)}


def test_answers_in_parts_wait_for_the_client_to_take_them() -> None:
    """Nothing is made that nobody takes: the memory is that of the limit answer_bytes."""
    house = House()
    guest, other = house.guest(), house.guest()
    for number in range(3000):
        other.raw("SET", b"%d" % number + b"x" * KiB, "v")
    guest.is_stuck = True
    guest.answers_max = 100 * KiB
    guest.session.receive(command("KEYS", "*"))
    while house.calls:
        house.end_pass()
    assert guest.session.is_busy
    assert guest.mailbox.bytes < 2 * guest.answers_max
    taken = 0
    while guest.session.is_busy or guest.mailbox.bytes:
        while guest.mailbox.bytes:
            blob = guest.mailbox.take(house.now)
            assert isinstance(blob, bytes)
            taken += len(blob)
        guest.session.go_on()
        house.end_pass()
    assert taken > 3000 * KiB


def test_a_scan_looks_at_no_more_than_it_should() -> None:
    """Whatever COUNT says: it is a hint."""
    guest = House().guest()
    for number in range(3000):
        guest.raw("SET", f"k{number}", "v")
    cursor, names = guest.ask("SCAN", "0", "COUNT", 10**9)
    assert cursor != "0"
    assert len(names) == 1000
    seen = set(names)
    while cursor != "0":
        cursor, names = guest.ask("SCAN", cursor, "COUNT", 10**9)
        seen |= set(names)
    assert len(seen) == 3000
    for number in range(100):
        guest.raw("SET", b"%d" % number + b"x" * 8000, "v")
    cursor, names = guest.ask("SCAN", "0", "COUNT", 10**9)
    assert len(names) < 10


@pytest.mark.parametrize(
    "words",
    [("KEYS",), ("SCAN", "0", "MATCH"), ("PUBSUB", "CHANNELS"), ("CONFIG", "GET")],
    ids=" ".join,
)
def test_patterns_to_look_with_are_bounded(words: tuple[str, ...]) -> None:
    guest = House(limits=Limits(name_bytes=1000)).guest()
    assert guest.ask(*words, "x" * 1001).startswith("ERR limit name_bytes")
    classes = "".join(f"[{chr(65 + number % 26)}{number}]" for number in range(100))
    assert "classes between the stars" in guest.ask(*words, f"*{classes}*")
    assert not str(guest.ask(*words, f"{classes}*")).startswith("ERR")


def test_the_same_id_is_listed_once() -> None:
    guest = House().guest()
    listed = guest.ask("CLIENT", "LIST", "ID", *[guest.id] * 1000)
    assert listed.count("\n") == 1


def test_a_list_of_clients_is_made_in_slices() -> None:
    """The limit reply_bytes holds for it."""
    house = House(limits=Limits(reply_bytes=100 * KiB))
    guests = [house.guest() for _ in range(300)]
    turns, received = in_slices(guests[0], "CLIENT", "LIST")
    assert turns > 0
    assert received.count(b"\n") > 300
    for _ in range(300):
        house.guest()
    assert in_slices(guests[0], "CLIENT", "LIST")[1].startswith(b"-" + BYTES.encode())


def test_a_crowd_is_killed_in_slices() -> None:
    house = House()
    crowd = [house.guest() for _ in range(1000)]
    for each in crowd:
        each.raw("SUBSCRIBE", "news")
    admin = house.guest()
    turns, received = in_slices(admin, "CLIENT", "KILL", "TYPE", "pubsub")
    assert turns > 5
    assert received == b":1000\r\n"
    assert all(each.ended for each in crowd)
    assert admin.ask("CLIENT", "KILL", *["ID", str(admin.id)] * 65).startswith("ERR more than 64")


def test_who_resets_is_taken_off_its_channels_in_slices() -> None:
    house = House()
    guest = house.guest()
    in_slices(guest, "SUBSCRIBE", *range(5000))
    turns, received = in_slices(guest, "RESET")
    assert turns > 3
    assert received == b"+RESET\r\n"
    assert not guest.session.interests


def test_messages_do_not_change_their_form_for_too_many_channels() -> None:
    """The limit command_steps: a part of them would come in one form, a part in the other."""
    house = House(limits=Limits(command_steps=1000))
    guest = house.guest()
    in_slices(guest, "SUBSCRIBE", *range(300))
    guest.session.protocol = 3
    guest.session.protocol = 2
    with pytest.raises(Exception, match="command_steps"):
        guest.session.speak(3)


def test_expired_keys_are_swept_without_a_pause() -> None:
    """The limit key_expiries is that of one slice; the rest follows as soon as others had their
    turn."""
    house = House(limits=Limits(key_expiries=100))
    guest = house.guest()
    for number in range(1000):
        guest.raw("SET", f"k{number}", "v", "PX", 1)
    house.now += 1
    house.hub.sweep()
    assert guest.ask("DBSIZE") < 1000
    passes = 0
    while house.calls:
        passes += 1
        house.end_pass()
    assert 8 <= passes <= 12
    assert house.hub.keys.count == 0
    assert house.hub.expired == 1000


# What was not taken.


def test_who_leaves_most_of_the_answers_is_closed_when_they_are_too_many() -> None:
    """The limit answers_bytes, of all sessions."""
    house = House(limits=Limits(answers_bytes=1 * MiB))
    small, large, third = house.guest(), house.guest(), house.guest()
    third.ask("SET", "k", b"x" * (300 * KiB))
    for guest in (small, large, third):
        guest.is_stuck = True
    small.session.receive(b"GET k\r\n")
    large.session.receive(b"GET k\r\n")
    large.session.receive(b"GET k\r\n")
    third.session.receive(b"GET k\r\n")
    assert [guest.ended for guest in (small, large, third)] == [
        "",
        "over the limit answers_bytes",
        "",
    ]
    assert house.hub.budget.answers < 1 * MiB
    assert [fact.name for fact in house.facts_of("LimitReached")] == ["answers_bytes"]


def test_answers_to_publishers_count_too() -> None:
    """The limit answers_bytes."""
    house = House(limits=Limits(answers_bytes=100))
    guest = house.guest()
    guest.is_stuck = True
    guest.session.receive(command("PUBLISH", "c", "x") * 30)
    assert guest.ended
