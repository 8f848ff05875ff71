"""Commands on streams, over a core without a process. The numbers are those of the checks in
docs/design/streams.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate.core.commands import Interest, Open, Reconfigure, Tick
from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.wire.resp.codec.replies import bulk
from headgate.wire.resp.streams.awaited import AGAIN_SECONDS, UNDER_WAY_MAX
from tests.support.resp_hub import Guest, House

JOBS = Domain.fanout("jobs", "g", "h", streams=("s*",))
WORK = Domain.priority("work", streams=("w*",), group="team")
NEWS = Domain.broadcast("news", streams=("n*",))


@pytest.fixture
def house() -> House:
    return House(domains=(JOBS, WORK, NEWS))


@pytest.fixture
def guest(house: House) -> Guest:
    return house.guest()


def add(guest: Guest, key: str = "s", **fields: object) -> str:
    words = [str(word) for pair in fields.items() for word in pair] or ["a", "1"]
    id: str = guest.ask("XADD", key, "*", *words)
    assert "-" in id
    return id


def read(guest: Guest, *words: object, group: str = "g", consumer: str = "c") -> Any:  # noqa: ANN401
    return guest.ask("XREADGROUP", "GROUP", group, consumer, *map(str, words))


def new(guest: Guest, key: str = "s", group: str = "g", consumer: str = "c", count: int = 0) -> Any:  # noqa: ANN401
    """The ids of what is new."""
    options = ("COUNT", count) if count else ()
    found = read(guest, *options, "STREAMS", key, ">", group=group, consumer=consumer)
    return [] if found is None else [id for id, _ in found[0][1]]


def wait(guest: Guest, *words: str, block: int = 0, consumer: str = "c") -> None:
    """Begin a read that waits."""
    streams = words or ("s", ">")
    assert (
        guest.raw("XREADGROUP", "GROUP", "g", consumer, "BLOCK", block, "STREAMS", *streams) == b""
    )


def test_ids_grow(house: House, guest: Guest) -> None:
    """Check 1."""
    ids = [add(guest) for _ in range(3)]
    house.now -= 10
    ids.append(add(guest))
    pairs = [tuple(map(int, id.split("-"))) for id in ids]
    assert pairs == sorted(set(pairs))


@pytest.mark.parametrize("id", ["5-5", "5", "5-*"])
def test_ids_are_not_the_clients(guest: Guest, id: str) -> None:
    """Check 3."""
    assert guest.ask("XADD", "s", id, "a", "1") == "ERR ids are given by the router here: use *"
    assert guest.ask("XLEN", "s") == 0


def test_a_stream_that_is_not_to_be_made(guest: Guest) -> None:
    """Check 12."""
    assert guest.ask("XADD", "s", "NOMKSTREAM", "*", "a", "1") is None
    add(guest)
    assert guest.ask("XADD", "s", "NOMKSTREAM", "*", "a", "1") is not None


def test_a_producer_that_adds_a_message_again_is_told_its_first_id(
    house: House, guest: Guest
) -> None:
    """Check 16: whether it is in line, was acknowledged, or the producer says something else."""
    id = guest.ask("XADD", "s", "IDMP", "p", "1", "*", "a", "1")
    assert guest.ask("XADD", "s", "IDMP", "p", "1", "MAXLEN", "5", "*", "b", "2") == id
    others = {
        guest.ask("XADD", key, "IDMP", producer, own, "*", "a", "1")
        for key, producer, own in (
            ("s", "p", "2"),
            ("s", "q", "1"),
            ("s", "1", "p"),
            ("t", "p", "1"),
        )
    }
    assert len(others - {id}) == 4
    assert guest.ask("XLEN", "s") == 4
    for group in "gh":
        new(guest, group=group)
        assert guest.ask("XACK", "s", group, id) == 1
    assert guest.ask("XADD", "s", "NOMKSTREAM", "IDMP", "p", "1", "*", "a", "1") == id
    assert guest.ask("XLEN", "s") == 3
    house.now += JOBS.deduplication_time + 1
    assert guest.ask("XADD", "s", "IDMP", "p", "1", "*", "a", "1") not in {id, *others}


def test_a_producer_may_leave_the_id_of_its_messages_to_their_fields(guest: Guest) -> None:
    """Check 16."""
    id = guest.ask("XADD", "s", "IDMPAUTO", "p", "*", "a", "1", "data", "x")
    assert guest.ask("XADD", "s", "idmpauto", "p", "*", "a", "1", "data", "x") == id
    others = (
        ("p", "a", "1", "data", "y"),
        ("q", "a", "1", "data", "x"),
        ("p", "a", "1data", "", "x"),
    )
    for producer, *fields in others:
        assert guest.ask("XADD", "s", "IDMPAUTO", producer, "*", *fields) != id
    assert guest.ask("XADD", "s", "*", "a", "1", "data", "x") != id
    assert "not empty" in guest.ask("XADD", "s", "IDMPAUTO", "", "*", "a", "1")


def test_a_message_that_is_repeated_is_not_refused_by_a_full_stream() -> None:
    """Check 16."""
    house = House(domains=[Domain.fanout("jobs", "g", streams=("s",), max_messages=1)])
    guest = house.guest()
    id = guest.ask("XADD", "s", "IDMP", "p", "1", "*", "a", "1")
    assert guest.ask("XADD", "s", "IDMP", "p", "1", "*", "a", "1") == id
    assert "the queue is full" in guest.ask("XADD", "s", "IDMP", "p", "2", "*", "a", "1")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            "MAXLEN 1 LIMIT 5 * a 1",
            "ERR syntax error, LIMIT cannot be used without the special ~ option",
        ),
        (
            "LIMIT 5 * a 1",
            "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
        ),
        (
            "MAXLEN 1 MINID 1 * a 1",
            "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
        ),
        ("MAXLEN -1 * a 1", "ERR The MAXLEN argument must be >= 0."),
        ("MAXLEN ~ 5 LIMIT -1 * a 1", "ERR The LIMIT argument must be >= 0."),
        ("MAXLEN x * a 1", "ERR value is not an integer or out of range"),
        ("* a", "ERR wrong number of arguments for 'xadd' command"),
        ("FOO * a 1", "ERR Invalid stream ID specified as stream command argument"),
    ],
)
def test_wrong_options(guest: Guest, words: str, error: str) -> None:
    """Check 13."""
    assert guest.ask("XADD", "s", *words.split()) == error


def test_a_full_stream_takes_one_more_after_an_ack() -> None:
    """Check 14."""
    house = House(domains=[Domain.fanout("jobs", "g", streams=("s",), max_messages=1)])
    guest = house.guest()
    add(guest)
    error = guest.ask("XADD", "s", "*", "a", "1")
    assert error == "OOM the queue is full: max_messages 1"
    [id] = new(guest)
    assert guest.ask("XACK", "s", "g", id) == 1
    add(guest)


def test_deleted_entries_are_gone_for_every_group(guest: Guest) -> None:
    """And nothing of them is pending, whoever had them."""
    pending, line, kept = add(guest), add(guest), add(guest)
    assert new(guest, count=1) == [pending]
    assert guest.ask("XDEL", "s", pending, line, "1-1") == 2
    assert guest.ask("XDEL", "s", pending) == 0
    assert guest.ask("XPENDING", "s", "g")[0] == 0
    assert (new(guest), new(guest, group="h")) == ([kept], [kept])
    assert guest.ask("XDEL", "s2", "1-1") == 0


def test_trimming_takes_nothing_that_was_not_read(guest: Guest) -> None:
    """Check 15."""
    for _ in range(3):
        guest.ask("XADD", "s", "MAXLEN", "1", "*", "a", "1")
    assert guest.ask("XTRIM", "s", "MAXLEN", "0") == 0
    assert guest.ask("XLEN", "s") == 3


@pytest.mark.parametrize("protocol", [2, 3])
def test_shapes(house: House, protocol: int) -> None:
    guest = house.guest(protocol)
    nothing = b"*-1\r\n" if protocol == 2 else b"_\r\n"
    words = ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s")
    assert guest.raw(*words, ">") == nothing
    id = guest.ask("XADD", "s", "*", "a", "1").encode()
    entry = b"*2\r\n" + bulk(id) + b"*2\r\n$1\r\na\r\n$1\r\n1\r\n"
    head = b"*1\r\n*2\r\n" if protocol == 2 else b"%1\r\n"
    told = head + bulk(b"s") + b"*1\r\n" + entry
    assert guest.raw(*words, ">") == told
    assert guest.raw(*words, "0") == told
    assert guest.raw(*words, id) == head + bulk(b"s") + b"*0\r\n"
    assert guest.raw("XPENDING", "s", "g") == (
        b"*4\r\n:1\r\n" + bulk(id) + bulk(id) + b"*1\r\n*2\r\n$1\r\nc\r\n$1\r\n1\r\n"
    )
    assert guest.raw("XPENDING", "s", "g", "-", "+", "9") == (
        b"*1\r\n*4\r\n" + bulk(id) + b"$1\r\nc\r\n:0\r\n:2\r\n"
    )
    assert guest.raw("XAUTOCLAIM", "s", "g", "d", "0", "0") == (
        b"*3\r\n$3\r\n0-0\r\n*1\r\n" + entry + b"*0\r\n"
    )
    assert guest.raw("XAUTOCLAIM", "s", "g", "d", "0", "0", "JUSTID") == (
        b"*3\r\n$3\r\n0-0\r\n*1\r\n" + bulk(id) + b"*0\r\n"
    )
    assert guest.raw("XCLAIM", "s", "g", "c", "0", id) == b"*1\r\n" + entry
    assert guest.ask("XACK", "s", "g", id) == 1
    nil = b"$-1\r\n" if protocol == 2 else b"_\r\n"
    assert guest.raw("XPENDING", "s", "g") == b"*4\r\n:0\r\n" + nil + nil + nothing
    assert guest.raw("XPENDING", "s", "g", "-", "+", "9") == b"*0\r\n"


def test_pending_entries_by_consumer_and_time(house: House, guest: Guest) -> None:
    """Check 41."""
    add(guest)
    new(guest)
    house.now += 5
    add(guest)
    new(guest, consumer="d")
    listed = guest.ask("XPENDING", "s", "g", "-", "+", "9")
    assert [(name, idle) for _, name, idle, _ in listed] == [("c", 5000), ("d", 0)]
    assert len(guest.ask("XPENDING", "s", "g", "IDLE", "5000", "-", "+", "9")) == 1
    assert len(guest.ask("XPENDING", "s", "g", "-", "+", "9", "d")) == 1
    assert guest.ask("XPENDING", "s", "g", "-", "+", "9", "nobody") == []
    assert guest.ask("XPENDING", "s", "g", "-", "+", "0") == []
    assert guest.ask("XPENDING", "s", "g", "-", "+") == "ERR syntax error"
    assert guest.ask("XPENDING", "s", "x") == "NOGROUP No such key 's' or consumer group 'x'"


def test_claiming(house: House, guest: Guest) -> None:
    """Check 42."""
    id = add(guest)
    new(guest)
    house.now += 1
    assert guest.ask("XCLAIM", "s", "g", "d", "2000", id) == []
    assert guest.ask("XCLAIM", "s", "g", "d", "1000", id, "JUSTID") == [id]
    assert guest.ask("XPENDING", "s", "g", "-", "+", "9") == [[id, "d", 0, 1]]
    house.now += 1
    guest.ask("XCLAIM", "s", "g", "e", "0", id, "IDLE", "500", "RETRYCOUNT", "7", "LASTID", "5")
    assert guest.ask("XPENDING", "s", "g", "-", "+", "9") == [[id, "e", 500, 7]]
    guest.ask("XCLAIM", "s", "g", "e", "0", id, "TIME", str(int((house.now - 3) * 1000)))
    assert guest.ask("XPENDING", "s", "g", "-", "+", "9")[0][2] == 3000
    second = add(guest)
    assert guest.ask("XCLAIM", "s", "g", "e", "0", second, "1-1") == []
    assert [each[0] for each in guest.ask("XCLAIM", "s", "g", "e", "0", second, "FORCE")] == [
        second
    ]
    assert guest.ask("XCLAIM", "s", "g", "e", "0", id, "FOO") == (
        "ERR Unrecognized XCLAIM option 'FOO'"
    )
    assert guest.ask("XCLAIM", "s", "g", "e", "x", id) == (
        "ERR Invalid min-idle-time argument for XCLAIM"
    )
    assert guest.ask("XAUTOCLAIM", "s", "g", "e", "0", "0", "COUNT", "0") == "ERR COUNT must be > 0"


def test_what_another_wire_holds_is_told(house: House, guest: Guest) -> None:
    """Check 45."""
    other = house.rig.session()
    house.rig.do(Open(other, 1, QueueId(b"bmq://jobs/s"), "jobs", "g", interests=(Interest(),)))
    id = add(guest)
    assert guest.ask("XPENDING", "s", "g", "-", "+", "9") == [[id, f"bmq:{other}", 0, 1]]
    assert guest.ask("XPENDING", "s", "g")[3] == [[f"bmq:{other}", "1"]]
    assert guest.ask("XCLAIM", "s", "g", "c", "0", id) == []


# Waiting.


def test_one_that_waits_is_woken(house: House, guest: Guest) -> None:
    """Check 48."""
    other = house.guest()
    wait(guest)
    id = add(other)
    assert id.encode() in guest.received
    assert house.delayed == []


def test_one_that_waits_gives_up(house: House, guest: Guest) -> None:
    """Check 49."""
    wait(guest, block=200)
    assert house.pass_time() == [0.2]
    house.end_pass()
    assert guest.received == b"*-1\r\n"
    guest.received = b""
    add(house.guest())
    assert new(guest) != []


def test_a_clock_that_nobody_needs_is_stopped(house: House, guest: Guest) -> None:
    wait(guest, block=60_000)
    assert len(house.delayed) == 1
    add(house.guest())
    assert house.delayed == []


def test_what_is_behind_one_that_waits_waits(house: House, guest: Guest) -> None:
    """Check 50."""
    wait(guest)
    assert guest.raw("PING") == b""
    assert guest.paused
    add(house.guest())
    house.end_pass()
    assert guest.received.endswith(b"+PONG\r\n")
    assert not guest.paused


@pytest.mark.parametrize("how", ["", "TIMEOUT", "ERROR"])
def test_somebody_else_ends_a_wait(house: House, guest: Guest, how: str) -> None:
    """Check 51."""
    other = house.guest()
    words = [how] if how else []
    unblock: list[str | int] = ["CLIENT", "UNBLOCK", guest.id, *words]
    assert other.ask(*unblock) == 0
    wait(guest)
    assert "flags=b" in other.ask("CLIENT", "LIST", "ID", guest.id)
    assert other.ask(*unblock) == 1
    error = b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
    assert guest.received == (error if how == "ERROR" else b"*-1\r\n")
    assert other.ask(*unblock) == 0
    assert other.ask("CLIENT", "UNBLOCK", guest.id, "NOW") == (
        "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
    )


def test_a_group_that_is_gone_ends_a_wait(house: House, guest: Guest) -> None:
    """Check 52."""
    wait(guest)
    house.submitted.append(Reconfigure(replace(JOBS, apps=("h",))))
    house.end_pass()
    assert guest.received == (
        b"-NOGROUP the consumer group this client was blocked on no longer exists\r\n"
    )


def test_in_a_transaction_nothing_waits(guest: Guest) -> None:
    """Check 53."""
    guest.ask("MULTI")
    guest.ask("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
    assert guest.ask("EXEC") == [None]


def test_several_streams(house: House, guest: Guest) -> None:
    """Check 54."""
    other = house.guest()
    wait(guest, "s1", "s2", ">", ">")
    id = add(other, "s2")
    assert guest.received.count(b"s2") == 1
    assert b"s1" not in guest.received
    guest.received = b""
    ids = [add(other, "s1"), add(other, "s2")]
    found = read(guest, "STREAMS", "s1", "s2", ">", ">")
    assert [(key, [each[0] for each in some]) for key, some in found] == [
        ("s1", [ids[0]]),
        ("s2", [ids[1]]),
    ]
    mixed = read(guest, "STREAMS", "s1", "s2", ">", "0")
    assert [(key, [each[0] for each in some]) for key, some in mixed] == [("s2", [id, ids[1]])]


def test_who_leaves_while_it_waits_leaves_nothing(house: House, guest: Guest) -> None:
    """Check 56."""
    wait(guest, block=1000)
    guest.close("gone")
    house.end_pass()
    assert house.delayed == []
    other = house.guest()
    id = add(other)
    assert new(other, consumer="other") == [id]


def test_pushes_come_through_while_one_waits(house: House) -> None:
    """Check 57."""
    guest, other = house.guest(3), house.guest()
    guest.ask("SUBSCRIBE", "news")
    wait(guest)
    other.ask("PUBLISH", "news", "x")
    assert guest.received.startswith(b">3\r\n$7\r\nmessage")


def test_a_subscriber_of_resp2_reads_no_streams(guest: Guest) -> None:
    guest.ask("SUBSCRIBE", "news")
    assert "Can't execute 'xadd'" in guest.ask("XADD", "s", "*", "a", "1")


# Order.


def words(*commands: str) -> bytes:
    parts = [command.split() for command in commands]
    return b"".join(
        b"*%d\r\n" % len(each) + b"".join(bulk(word.encode()) for word in each) for each in parts
    )


def test_answers_are_in_order_and_others_wait(house: House, guest: Guest) -> None:
    """Checks 18, 19: whoever hears the message finds the entry."""
    hearing = house.guest()
    hearing.ask("SUBSCRIBE", "c")
    guest.session.receive(words("XADD s * a 1", "XADD s 5-5 a 1", "XLEN s", "PUBLISH c x", "PING"))
    assert guest.received == b""
    assert hearing.received == b""
    house.end_pass()
    lines = guest.received.split(b"\r\n")
    assert lines[2].startswith(b"-ERR ids are given")
    assert lines[3:6] == [b":1", b":1", b"+PONG"]
    house.end_pass()
    assert b"message" in hearing.received


def test_many_in_one_write_are_one_turn(house: House, guest: Guest) -> None:
    """Check 18."""
    count = 300
    guest.session.receive(words(*["XADD s * a 1"] * count))
    assert len(house.submitted) == count
    asked = len(house.rig.asked)
    house.end_pass()
    assert guest.received.count(b"$") == count
    batches = [each for each in house.rig.asked[asked:] if type(each).__name__ == "Batch"]
    assert len(batches) == 1


def test_only_so_many_are_under_way(house: House, guest: Guest) -> None:
    guest.session.receive(words(*["XLEN s"] * (UNDER_WAY_MAX + 10)))
    assert len(house.submitted) == UNDER_WAY_MAX
    while guest.session.is_busy:
        house.end_pass()
    assert guest.received == b":0\r\n" * (UNDER_WAY_MAX + 10)


def test_without_room_in_line_it_is_tried_again(house: House, guest: Guest) -> None:
    house.has_room = False
    assert guest.raw("XLEN", "s") == b""
    house.has_room = True
    assert house.pass_time() == [AGAIN_SECONDS]
    house.end_pass()
    assert guest.received == b":0\r\n"


def test_answers_that_are_not_wanted_are_not_sent(guest: Guest) -> None:
    guest.raw("CLIENT", "REPLY", "OFF")
    assert guest.raw("XADD", "s", "*", "a", "1") == b""
    guest.raw("CLIENT", "REPLY", "ON")
    assert guest.ask("XLEN", "s") == 1


def test_a_transaction_is_one_commit(house: House, guest: Guest) -> None:
    """Check 66."""
    id = add(guest)
    new(guest)
    for command in (
        "MULTI",
        "XADD s * a 2",
        "SET k v",
        f"XACK s g {id}",
        "GET k",
        "XADD s 1-1 a 1",
    ):
        guest.ask(*command.split())
    asked = len(house.rig.asked)
    added, ok, acked, value, error = guest.ask("EXEC")
    assert (ok, acked, value) == ("OK", 1, "v")
    assert "-" in added
    assert "use *" in str(error)
    batches = [each for each in house.rig.asked[asked:] if type(each).__name__ == "Batch"]
    assert len(batches) == 1


def test_a_failed_store_fails_the_whole_transaction(house: House, guest: Guest) -> None:
    """Check 66."""
    add(guest)
    for command in ("MULTI", "XADD s * a 2", "SET k v", "XACK s g 1-1", "GET k"):
        guest.ask(*command.split())
    house.rig.fail_at = 0
    found = guest.ask("EXEC")
    assert len(found) == 4
    assert all("the store failed" in str(each) for each in found)
    assert guest.ask("GET", "k") is None
    assert guest.ask("XLEN", "s") == 1


def test_a_failed_store_is_told(house: House, guest: Guest) -> None:
    add(guest)
    house.rig.fail_at = 0
    assert guest.ask("XADD", "s", "*", "a", "1").startswith("ERR the store failed")


# Groups.


def test_groups_are_the_apps(guest: Guest) -> None:
    """Check 20, of fixed groups."""
    assert guest.ask("XGROUP", "CREATE", "s", "g", "$").startswith(
        "ERR The XGROUP subcommand requires"
    )
    assert guest.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM") == "OK"
    busy = "BUSYGROUP Consumer Group name already exists"
    assert guest.ask("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM") == busy
    assert guest.ask("XGROUP", "CREATE", "s", "h", "0") == busy
    assert guest.ask("XGROUP", "CREATE", "s", "x", "0", "MKSTREAM") == (
        "ERR the domain 'jobs' has no app 'x'; its apps are g, h"
    )
    assert "only group is team" in guest.ask("XGROUP", "CREATE", "w", "x", "0", "MKSTREAM")
    assert "are those of its configuration" in guest.ask("XGROUP", "DESTROY", "s", "g")


def test_the_group_of_a_domain_without_apps(guest: Guest) -> None:
    id = add(guest, "w")
    assert new(guest, "w", "team") == [id]
    assert read(guest, "STREAMS", "w", ">", group="g") == (
        "NOGROUP No such key 'w' or consumer group 'g' in XREADGROUP with GROUP option"
    )


def test_consumers_come_and_go(guest: Guest) -> None:
    """Check 35."""
    assert guest.ask("XGROUP", "CREATECONSUMER", "s", "g", "c") == 1
    assert guest.ask("XGROUP", "CREATECONSUMER", "s", "g", "c") == 0
    ids = [add(guest), add(guest)]
    new(guest)
    assert guest.ask("XGROUP", "DELCONSUMER", "s", "g", "c") == 2
    assert guest.ask("XGROUP", "DELCONSUMER", "s", "g", "c") == 0
    assert new(guest, consumer="d") == ids
    assert guest.ask("XGROUP", "CREATECONSUMER", "s", "x", "c") == (
        "NOGROUP No such consumer group 'x' for key name 's'"
    )


def test_what_is_told_of_a_stream(house: House, guest: Guest) -> None:
    """Check 65, as far as it goes."""
    assert guest.ask("XINFO", "GROUPS", "s") == "ERR no such key"
    add(guest)
    id = add(guest)
    new(guest, count=1)
    house.now += 2
    names = [
        dict(zip(each[::2], each[1::2], strict=True)) for each in guest.ask("XINFO", "GROUPS", "s")
    ]
    assert [(each["name"], each["consumers"], each["pending"], each["lag"]) for each in names] == [
        ("g", 1, 1, 1),
        ("h", 0, 0, 2),
    ]
    [consumer] = guest.ask("XINFO", "CONSUMERS", "s", "g")
    assert consumer == ["name", "c", "pending", 1, "idle", 2000, "inactive", 2000]
    new(guest, consumer="d", count=1)
    house.now += 1
    assert new(guest, consumer="d") == []
    new(guest, consumer="e")
    consumers = guest.ask("XINFO", "CONSUMERS", "s", "g")
    times = {each[1]: each[4:] for each in consumers}
    assert times["d"] == ["idle", 0, "inactive", 1000]
    assert times["e"] == ["idle", 0, "inactive", -1], "it was given nothing so far"
    told = guest.ask("XINFO", "STREAM", "s")
    assert told[:2] == ["length", 2]
    assert told[6:8] == ["last-generated-id", id]


# Predicates.


def test_the_name_of_a_consumer_says_what_it_wants(guest: Guest) -> None:
    """Check 58."""
    slow, express = add(guest, kind="slow", n=1), add(guest, kind="express", n=20)
    assert new(guest, consumer='e?where=kind == "express" && n > 10') == [express]
    assert new(guest) == [slow]
    assert guest.ask("XPENDING", "s", "g", "-", "+", "9", "e?where=x == 1")[0][1] == "e"


def test_words_say_it_as_well(guest: Guest) -> None:
    """Check 58."""
    add(guest, kind="slow", n=1)
    express = add(guest, kind="express", n=2)
    found = read(guest, "WHERE", 'kind == "express"', "PRIORITY", "3", "STREAMS", "s", ">")
    assert [id for id, _ in found[0][1]] == [express]


def test_a_wrong_expression_is_told_with_its_place(guest: Guest) -> None:
    """Check 60."""
    error = read(guest, "STREAMS", "s", ">", consumer="e?where=kind ==")
    assert error.startswith("ERR bad expression at ")


# What is refused.


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("XADD x * a 1", "no domain takes the stream 'x'"),
        (f"XREADGROUP GROUP g c STREAMS {'s ' * 51}{'> ' * 51}", "at most 50 streams in one read"),
        ("XREAD STREAMS s 0", "the domain 'jobs' keeps nothing: read by a group"),
        ("XREAD STREAMS s >", "The > ID can be specified only when calling XREADGROUP"),
        ("XDEL s x", "Invalid stream ID"),
        ("XSETID s 1-1", "cannot be set"),
        ("XREADGROUP GROUP g c STREAMS n >", "NOGROUP"),
        ("XREADGROUP GROUP default c STREAMS n >", "a broadcast queue keeps nothing"),
        ("XREADGROUP GROUP g c STREAMS s $", "The $ ID is meaningless"),
        ("XREADGROUP GROUP g c BLOCK -1 STREAMS s >", "timeout is negative"),
        ("XREADGROUP GROUP g c BLOCK x STREAMS s >", "timeout is not an integer or out of range"),
        ("XREADGROUP GROUP g c STREAMS s t >", "Unbalanced"),
        ("XREADGROUP COUNT 1 NOACK STREAMS s >", "Missing GROUP option"),
        ("XREADGROUP GROUP g c FOO STREAMS s >", "ERR syntax error"),
        ("XADD s IDMP p i 5-5 a 1", "ids are given by the router here: use *"),
        ("XADD s IDMP p i IDMPAUTO p * a 1", "ERR syntax error"),
        ("XADD s IDMPAUTO p IDMPAUTO p * a 1", "ERR syntax error"),
        ("XTRIM s FOO 1", "ERR syntax error"),
        ("XACK s g x", "Invalid stream ID"),
    ],
)
def test_what_is_refused_says_why(guest: Guest, command: str, text: str) -> None:
    assert text in guest.ask(*command.split())


def test_other_commands_know_streams_and_leave_them(guest: Guest) -> None:
    """Check 67."""
    assert (guest.ask("TYPE", "s"), guest.ask("EXISTS", "s")) == ("none", 0)
    assert guest.ask("DEL", "s") == 0
    add(guest)
    guest.ask("SET", "k", "v")
    assert (guest.ask("TYPE", "s"), guest.ask("EXISTS", "s", "k", "x")) == ("stream", 2)
    for command in ("DEL k s", "UNLINK s", "EXPIRE s 5", "PERSIST s", "RENAME s t"):
        assert "a stream is durable" in guest.ask(*command.split())
    assert "cannot be watched" in guest.ask("WATCH", "s")
    guest.ask("FLUSHALL")
    assert guest.ask("XLEN", "s") == 1
    guest.ask("SELECT", "1")
    assert guest.ask("XLEN", "s") == 1


def test_a_string_is_no_stream(guest: Guest) -> None:
    guest.ask("SET", "s", "x")
    assert guest.ask("XADD", "s", "*", "a", "1").startswith("WRONGTYPE")


def test_acks_of_no_group_count_nothing(guest: Guest) -> None:
    assert guest.ask("XACK", "s", "x", "1-1") == 0
    assert guest.ask("XACK", "s", "g", "1-1") == 0


def test_rights(house: House, guest: Guest) -> None:
    """Check 76: by category and by key, also inside of EXEC."""
    guest.ask("ACL", "SETUSER", "u", "on", "nopass", "~s*", "+@all", "-@stream")
    guest.ask("ACL", "SETUSER", "v", "on", "nopass", "~s*", "+@all")
    other = house.guest()
    other.ask("AUTH", "u", "x")
    assert "NOPERM" in other.ask("XADD", "s", "*", "a", "1")
    other.ask("AUTH", "v", "x")
    add(other)
    for command in ("XADD w * a 1", "XREADGROUP GROUP g c STREAMS s w > >", "XGROUP CREATE w g 0"):
        assert "NOPERM" in other.ask(*command.split())
    other.ask("MULTI")
    other.ask("XADD", "s", "*", "a", "1")
    guest.ask("ACL", "SETUSER", "v", "-xadd")
    assert "NOPERM" in str(other.ask("EXEC")[0])
    assert house.hub.table.get(b"xreadgroup") is not None
    assert guest.ask(
        "COMMAND", "GETKEYS", "XREADGROUP", "GROUP", "g", "c", "STREAMS", "a", "b", "0", "0"
    ) == ["a", "b"]


def test_the_lists_of_a_domain_hold_for_users() -> None:
    """A domain that names its readers lets nobody else in, by whatever wire."""
    house = House(domains=[Domain.fanout("jobs", "g", streams=("s",), readers=("alice",))])
    guest = house.guest()
    add(guest)
    assert read(guest, "STREAMS", "s", ">").startswith("NOPERM client default may not read")


def test_more_than_the_limits_is_refused() -> None:
    """Check 10."""
    house = House(domains=[JOBS], limits=Limits(body_bytes=10, properties_bytes=20))
    guest = house.guest()
    assert "body_bytes" in guest.ask("XADD", "s", "*", "data", "x" * 11)
    assert "properties_bytes" in guest.ask("XADD", "s", "*", "data", "x", "name", "y" * 20)


def test_other_commands_wait_until_all_is_answered(house: House, guest: Guest) -> None:
    guest.session.receive(words("XADD s * a 1"))
    guest.session.receive(words("PING"))
    assert guest.paused
    house.end_pass()
    house.end_pass()
    assert guest.received.endswith(b"+PONG\r\n")
    assert not guest.paused


# Claiming with a read.


def test_a_read_that_claims_tells_of_each_entry_what_became_of_it(
    house: House, guest: Guest
) -> None:
    """Milliseconds for which somebody held it, and how often it was given before."""
    held, fresh = add(guest), add(guest, a="2")
    new(guest, count=1)
    house.now += 5
    claim = ("GROUP", "g", "d", "COUNT", "5", "CLAIM", "5000", "STREAMS", "s", ">")
    assert guest.raw("XREADGROUP", *claim) == (
        b"*1\r\n*2\r\n$1\r\ns\r\n*2\r\n"
        b"*4\r\n%b*2\r\n$1\r\na\r\n$1\r\n1\r\n:5000\r\n:1\r\n"
        b"*4\r\n%b*2\r\n$1\r\na\r\n$1\r\n2\r\n:0\r\n:0\r\n"
    ) % (bulk(held.encode()), bulk(fresh.encode()))
    assert guest.raw("XREADGROUP", *claim) == b"*-1\r\n"
    # By an id it has no meaning.
    again = read(guest, "CLAIM", "0", "STREAMS", "s", "0", consumer="d")
    assert [len(entry) for entry in again[0][1]] == [2, 2]


def test_a_read_that_waits_claims_what_is_due_by_then(house: House, guest: Guest) -> None:
    other = house.guest()
    id = add(guest)
    assert new(guest) == [id]
    read = ("GROUP", "g", "d", "BLOCK", 0, "CLAIM", 5000, "STREAMS", "s", ">")
    assert other.raw("XREADGROUP", *read) == b""
    house.now += 6
    house.submitted.append(Tick())
    house.end_pass()
    assert other.received.endswith(b":6000\r\n:1\r\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("CLAIM x STREAMS s >", "ERR Invalid min-idle-time argument for XREADGROUP"),
        ("CLAIM STREAMS s >", "ERR Invalid min-idle-time argument for XREADGROUP"),
        ("MAXCOUNT 5 STREAMS s >", "ERR MAXCOUNT is not there yet: use COUNT"),
    ],
)
def test_claims_that_are_refused(guest: Guest, words: str, error: str) -> None:
    assert guest.ask("XREADGROUP", "GROUP", "g", "c", *words.split()) == error
