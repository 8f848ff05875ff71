"""One client: the order of checks, runs of PUBLISHes, waiting, and what is written when."""

from __future__ import annotations

import pytest

from headgate.core.channels.audience import Kind
from headgate.core.model.limits import Limits
from headgate.wire.resp.codec.replies import bulk
from headgate.wire.resp.reply_buffer import JOINED_BYTES
from tests.support.resp_hub import Guest, House


def request(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def message(channel: bytes, body: bytes, mark: bytes = b"*") -> bytes:
    return mark + request(b"message", channel, body)[1:]


def publish(channel: bytes, *bodies: bytes) -> bytes:
    return b"".join(request(b"PUBLISH", channel, body) for body in bodies)


def send(guest: Guest, data: bytes) -> bytes:
    """What comes back at once; the pass of the loop is not over yet."""
    guest.session.receive(data)
    received, guest.received = guest.received, b""
    return received


@pytest.fixture
def house() -> House:
    return House()


def test_a_run_of_publishes_is_one_call_and_one_blob(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, publisher = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    calls: list[int] = []
    plain = house.hub.channels.publish_all

    def counted(kind: Kind, channel: bytes, bodies: list[bytes]) -> int:
        calls.append(len(bodies))
        return plain(kind, channel, bodies)

    monkeypatch.setattr(house.hub.channels, "publish_all", counted)
    assert send(publisher, publish(b"c", b"1", b"2", b"3")) == b":1\r\n:1\r\n:1\r\n"
    assert calls == [3]
    assert reader.received == b""
    house.end_pass()
    assert reader.received == b"".join(message(b"c", b) for b in (b"1", b"2", b"3"))


def test_other_commands_between_publishes_keep_their_place(house: House) -> None:
    publisher = house.guest()
    data = publish(b"c", b"1") + request(b"PING") + publish(b"c", b"2") + request(b"ECHO", b"x")
    data += request(b"PUBLISH", b"c") + publish(b"c", b"3")
    assert send(publisher, data) == (
        b":0\r\n+PONG\r\n:0\r\n$1\r\nx\r\n"
        b"-ERR wrong number of arguments for 'publish' command\r\n:0\r\n"
    )


def test_what_was_published_before_a_command_comes_before_its_answer(house: House) -> None:
    """RESP-45, S002-42: also the confirmation of an UNSUBSCRIBE in the same pass of the loop."""
    reader, publisher = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    send(publisher, publish(b"c", b"1"))
    left = b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"
    assert send(reader, request(b"UNSUBSCRIBE", b"c")) == message(b"c", b"1") + left
    send(publisher, publish(b"c", b"2"))
    house.end_pass()
    assert reader.received == b""


def test_who_hears_itself_is_answered_first(house: House) -> None:
    """RESP-44."""
    guest = house.guest(protocol=3)
    guest.raw("SUBSCRIBE", "c")
    assert guest.raw("PUBLISH", "c", "1") == b":1\r\n" + message(b"c", b"1", b">")
    guest.raw("MULTI")
    guest.raw("PUBLISH", "c", "2")
    assert guest.raw("EXEC") == b"*1\r\n:1\r\n" + message(b"c", b"2", b">")
    both = publish(b"c", b"3") + request(b"PING") + publish(b"c", b"4")
    assert send(guest, both) == (
        b":1\r\n" + message(b"c", b"3", b">") + b"+PONG\r\n:1\r\n" + message(b"c", b"4", b">")
    )


def test_who_does_not_hear_itself_leaves_the_others_to_the_end_of_the_pass(house: House) -> None:
    """RESP-44: only what it hears itself is written between its commands."""
    listener, publisher = house.guest(), house.guest()
    listener.ask("SUBSCRIBE", "c")
    both = request(b"PING") + publish(b"c", b"1") + request(b"PING")
    assert send(publisher, both) == b"+PONG\r\n:1\r\n+PONG\r\n"
    assert listener.received == b""
    house.end_pass()
    assert listener.received == message(b"c", b"1")


def test_a_publisher_waits_for_who_is_stuck_and_the_rest_of_its_commands_with_it(
    house: House,
) -> None:
    """RESP-59, RESP-61, S002-58, S002-60, S002-62."""
    reader, publisher, other = house.guest(), house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 100
    reader.is_stuck = True
    body = b"x" * 200
    assert send(publisher, publish(b"c", body)) == b":1\r\n"
    house.end_pass()
    assert reader.mailbox.bytes > 100
    assert send(publisher, publish(b"c", b"1") + request(b"PING")) == b""
    assert publisher.paused
    assert send(other, publish(b"d", b"1") + request(b"PING")) == b":0\r\n+PONG\r\n"
    held = reader.mailbox.bytes
    reader.take()
    house.end_pass()
    assert publisher.received == b":1\r\n+PONG\r\n"
    assert not publisher.paused
    house.end_pass()
    assert 0 < reader.mailbox.bytes < held


def test_a_mailbox_goes_over_its_limit_by_one_message(house: House) -> None:
    """S002-58, RESP-62: a run that finds somebody stuck is judged message by message."""
    reader, publisher = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    house.hub.budget.mailbox_soft, house.hub.budget.mailbox_hard = 500, 1000
    reader.is_stuck = True
    send(publisher, publish(b"c", b"first"))
    house.end_pass()
    send(publisher, publish(b"c", *[b"x" * 100] * 50))
    frame = len(message(b"c", b"x" * 100))
    assert 1000 < reader.mailbox.bytes <= 1000 + frame
    assert len(publisher.session.pending) > 30


@pytest.mark.parametrize(
    ("subscribe", "word", "rules"),
    [("SSUBSCRIBE", b"SPUBLISH", "+@all"), ("SUBSCRIBE", b"PUBLISH", "-flushall")],
)
def test_what_is_published_one_by_one_is_charged_before_the_next(
    house: House, subscribe: str, word: bytes, rules: str
) -> None:
    """S002-58: on sharded channels, and by users whose rights are looked at each time."""
    reader, publisher = house.guest(), house.guest()
    reader.ask(subscribe, "c")
    reader.ask("ACL", "SETUSER", "bob", "on", "nopass", "~*", "&*", "+@all", rules)
    publisher.ask("AUTH", "bob", "x")
    house.hub.budget.mailbox_soft, house.hub.budget.mailbox_hard = 500, 1000
    reader.is_stuck = True
    send(publisher, request(word, b"c", b"first"))
    house.end_pass()
    send(publisher, request(word, b"c", b"x" * 100) * 50)
    house.end_pass()
    frame = len(message(b"c", b"x" * 100)) + len("s")
    assert 1000 < reader.mailbox.bytes <= 1000 + frame
    assert len(publisher.session.pending) > 30


def test_who_is_stuck_on_another_channel_costs_a_publisher_nothing(house: House) -> None:
    """S002-61: its run stays one call."""
    stuck, publisher = house.guest(), house.guest()
    stuck.ask("SUBSCRIBE", "other")
    stuck.is_stuck = True
    send(publisher, publish(b"other", b"x" * 100))
    house.end_pass()
    house.hub.budget.mailbox_hard = house.hub.budget.mailbox_soft = 10
    assert send(publisher, publish(b"c", *[b"x"] * 10)) == b":0\r\n" * 10


def test_policies_that_do_not_wait_never_keep_a_publisher(house: House) -> None:
    """RESP-64."""
    reader, publisher = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 10
    house.hub.settings.slow_session = "drop-oldest"
    reader.is_stuck = True
    for _ in range(3):
        assert send(publisher, publish(b"c", b"x" * 100)) == b":1\r\n"
        house.end_pass()


def test_the_checks_come_in_the_order_of_redis() -> None:
    """Unknown, arity, authentication, rules, subscriber mode."""
    house = House(password="secret")
    guest = house.guest()
    assert guest.ask("NOSUCH").startswith("ERR unknown command")
    assert guest.ask("GET").startswith("ERR wrong number")
    assert guest.ask("GET", "k") == "NOAUTH Authentication required."
    assert guest.ask("AUTH", "secret") == "OK"
    guest.ask("SUBSCRIBE", "c")
    assert guest.ask("NOSUCH").startswith("ERR unknown command")
    assert guest.ask("GET").startswith("ERR wrong number")
    assert guest.ask("GET", "k").startswith("ERR Can't execute 'get'")


def test_what_comes_after_a_protocol_error_is_not_carried_out(house: House) -> None:
    guest = house.guest()
    received = send(guest, request(b"PING") + b"*x\r\n" + request(b"PING"))
    assert received == b"+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"
    assert guest.ended == "protocol error: invalid multibulk length"


def test_a_browser_is_sent_away_without_a_word(house: House) -> None:
    guest = house.guest()
    assert send(guest, b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
    assert guest.ended.startswith("protocol error")


def test_a_limit_that_is_reached_is_an_error_and_a_fact(house: House) -> None:
    guest = house.guest()
    names = [b"%d" % n for n in range(house.hub.broker.limits.channels_per_session + 1)]
    guest.session.receive(request(b"SUBSCRIBE", *names))
    assert guest.received.startswith(b"-ERR limit channels_per_session")
    assert [fact.name for fact in house.facts_of("LimitReached")] == ["channels_per_session"]
    guest.received = b""
    assert guest.ask("PUBSUB", "CHANNELS") == []


def test_client_reply_silences_answers_and_no_messages(house: House) -> None:
    """RESP-35."""
    guest = house.guest()
    assert guest.raw("CLIENT", "REPLY", "SKIP") == b""
    assert guest.raw("PING") == b""
    assert guest.raw("PING") == b"+PONG\r\n"
    assert guest.raw("CLIENT", "REPLY", "OFF") == b""
    assert guest.raw("GET", "k") == b""
    assert guest.raw("SUBSCRIBE", "c") == b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
    assert house.guest().raw("PUBLISH", "c", "1") == b":1\r\n"
    assert guest.received == message(b"c", b"1")


def test_a_session_takes_its_messages_in_the_version_it_speaks(house: House) -> None:
    guest, publisher = house.guest(protocol=3), house.guest()
    guest.raw("SUBSCRIBE", "c")
    publisher.raw("PUBLISH", "c", "1")
    assert guest.received == message(b"c", b"1", b">")
    guest.raw("HELLO", "2")
    guest.received = b""
    publisher.raw("PUBLISH", "c", "2")
    assert guest.received == message(b"c", b"2")


def test_requests_that_are_not_whole_are_bounded_over_all_sessions() -> None:
    """The limit input_bytes, at and one above: who goes on beyond it is closed."""
    start = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1000\r\n"
    house = House(limits=Limits(input_bytes=2 * (len(start) + 500)))
    one, two = house.guest(), house.guest()
    for guest in (one, two):
        guest.session.receive(start + b"x" * 500)
    assert house.hub.input_bytes == house.hub.broker.limits.input_bytes
    two.session.receive(b"x")
    assert (one.ended, two.ended) == ("", "over the limit input_bytes")
    assert [fact.name for fact in house.facts_of("LimitReached")] == ["input_bytes"]
    one.session.receive(b"x" * 500 + b"\r\n")
    assert (one.received, house.hub.input_bytes) == (b":0\r\n", 0)


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(transaction_commands=2), "transaction_commands"),
        (Limits(transaction_bytes=2 * (len(b"ECHOxx") + 2 * 64)), "transaction_bytes"),
    ],
)
def test_a_transaction_is_bounded(limits: Limits, name: str) -> None:
    """The limits transaction_commands and transaction_bytes, at and one above."""
    guest = House(limits=limits).guest()
    guest.ask("MULTI")
    assert guest.ask("ECHO", "xx") == guest.ask("ECHO", "xx") == "QUEUED"
    assert guest.ask("ECHO", "xx").startswith(f"ERR limit {name}")
    assert guest.ask("EXEC") == "EXECABORT Transaction discarded because of previous errors."


def test_names_are_bounded() -> None:
    """The limit client_name_bytes, at and one above."""
    guest = House(limits=Limits(client_name_bytes=4)).guest()
    assert guest.ask("CLIENT", "SETNAME", "abcd") == "OK"
    assert guest.ask("CLIENT", "SETNAME", "abcde").startswith("ERR limit client_name_bytes")
    assert guest.ask("CLIENT", "SETINFO", "LIB-NAME", "abcde").startswith("ERR limit")


def test_who_does_not_take_its_answers_waits_for_the_rest_of_its_commands(house: House) -> None:
    """One read with many commands that have large answers, and a client that reads none."""
    guest = house.guest()
    guest.ask("SET", "k", "x" * 100_000)
    guest.is_stuck = True
    guest.answers_max = 150_000
    guest.session.receive(request(b"GET", b"k") * 50)
    assert guest.mailbox.answers < 300_000
    assert len(guest.session.pending) == 48
    while guest.mailbox.take(house.now) is not None:
        pass
    guest.is_stuck = False
    guest.session.go_on()
    assert guest.received.count(b"$100000\r\n") == 48
    assert guest.session.pending == []


def test_a_message_and_a_protocol_error_in_one_read_are_both_answered(house: House) -> None:
    guest = house.guest()
    received = send(guest, publish(b"c", b"1") + b"*x\r\n")
    assert received == b":0\r\n-ERR Protocol error: invalid multibulk length\r\n"


def test_who_publishes_to_itself_waits_for_itself(house: House) -> None:
    """Its mailbox is written while it waits, and bounded like any other."""
    guest = house.guest(protocol=3)
    guest.raw("SUBSCRIBE", "c")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 1000
    guest.is_stuck = True
    guest.answers_max = 10**9
    for _ in range(30):
        send(guest, publish(b"c", b"x" * 100))
        house.end_pass()
    assert guest.mailbox.bytes - guest.mailbox.answers < 1200
    assert guest.paused
    while len(guest.mailbox):
        guest.take()
    house.end_pass()
    assert not guest.paused


def test_a_message_to_a_session_that_is_gone_by_now_is_skipped(house: House) -> None:
    """S002-9: it was there when the message was published, and is not when that is written."""
    before, gone, after = house.guest(), house.guest(), house.guest()
    publisher = house.guest()
    for listener in (before, gone, after):
        listener.ask("SUBSCRIBE", "c")
    assert send(publisher, publish(b"c", b"1")) == b":3\r\n"
    gone.close("lost")
    house.end_pass()
    assert before.received == after.received == message(b"c", b"1")
    assert gone.received == b""
    assert send(publisher, publish(b"c", b"2")) == b":2\r\n"
    after.close("lost")
    house.hub.flush()
    assert before.received == message(b"c", b"1") + message(b"c", b"2")
    assert after.received == message(b"c", b"1")


def test_a_publisher_that_is_woken_looks_at_the_limit_again(house: House) -> None:
    """S002-64: two are woken together, and the first leaves no room for the second."""
    reader, first, second = house.guest(), house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 100
    reader.is_stuck = True
    send(first, publish(b"c", b"x" * 200))
    house.end_pass()
    for publisher in (first, second):
        assert send(publisher, publish(b"c", b"y" * 200)) == b""
    reader.take(but=50)
    assert len(house.hub.waiting) == 0
    house.end_pass()
    assert (first.received, second.received) == (b":1\r\n", b"")
    assert (first.paused, second.paused) == (False, True)
    assert list(house.hub.waiting) == [(second.id, reader.id)]
    assert len(reader.mailbox) == 2
    reader.take()
    reader.take()
    house.end_pass()
    assert second.received == b":1\r\n"


@pytest.mark.parametrize("leaving", [("UNSUBSCRIBE", "c"), ("RESET",)])
def test_nobody_waits_for_who_no_longer_hears(house: House, leaving: tuple[str, ...]) -> None:
    """S002-63: the blocker left the channel, though it still does not read."""
    reader, publisher = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 100
    reader.is_stuck = True
    send(publisher, publish(b"c", b"x" * 200))
    house.end_pass()
    assert send(publisher, publish(b"c", b"1")) == b""
    reader.raw(*leaving)
    house.end_pass()
    assert publisher.received == b":0\r\n"


def test_the_policy_of_the_moment_counts_for_who_waits(house: House) -> None:
    reader, publisher, admin = house.guest(), house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 100
    reader.is_stuck = True
    send(publisher, publish(b"c", b"x" * 200))
    house.end_pass()
    assert send(publisher, publish(b"c", b"1")) == b""
    admin.ask("CONFIG", "SET", "slow-session", "drop-oldest")
    house.end_pass()
    assert publisher.received == b":1\r\n"


def test_a_long_line_of_commands_lets_others_have_their_turn(house: House) -> None:
    guest = house.guest()
    ticks = iter(range(10**6))
    house.clock = lambda: next(ticks) / 1000  # type: ignore[method-assign]
    received = send(guest, request(b"PING") * 100)
    assert 0 < received.count(b"+PONG") < 100
    assert guest.paused
    while guest.paused:
        house.end_pass()
    assert received.count(b"+PONG") + guest.received.count(b"+PONG") == 100


def test_what_is_published_before_a_command_goes_on_comes_before_its_answer(house: House) -> None:
    """RESP-45: also if the command had to wait for the client to take its answers."""
    reader, publisher = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "d")
    reader.session.pending = [[b"UNSUBSCRIBE", b"d"]]
    send(publisher, publish(b"d", b"1"))
    reader.session.go_on()
    left = b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nd\r\n:0\r\n"
    assert reader.received == message(b"d", b"1") + left


def test_who_does_not_read_loses_events_and_nothing_else(house: House) -> None:
    """S002-81: time cannot be made to wait. What is lost is counted, and the session stays."""
    house.hub.settings.notify_keyspace_events = "xE"
    reader, other = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "__keyevent@0__:expired")
    house.hub.budget.mailbox_soft = house.hub.budget.mailbox_hard = 100
    reader.is_stuck = True
    for number in range(5):
        other.ask("SET", f"{number}" + "x" * 80, "", "PX", "1")
        house.now += 1
        house.hub.sweep()
        house.end_pass()
    assert not reader.ended
    assert reader.mailbox.bytes < 300
    lost = sum(fact.count for fact in house.facts_of("MessagesDiscarded"))
    assert lost == 5 - len(reader.mailbox) > 0
    while reader.mailbox.take(house.now):
        pass
    other.ask("SET", "k", "", "PX", "1")
    house.now += 1
    house.hub.sweep()
    house.end_pass()
    assert len(reader.mailbox) == 1


def test_a_session_that_is_over_holds_nothing(house: House) -> None:
    guest = house.guest()
    guest.ask("MULTI")
    guest.ask("SET", "k", "x" * 1000)
    assert house.hub.input_bytes > 1000
    session = guest.session
    guest.close("gone")
    assert (house.hub.input_bytes, session.queued, session.pending) == (0, None, [])


def test_who_holds_most_is_closed_and_not_who_speaks() -> None:
    start = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1000\r\n"
    house = House(limits=Limits(input_bytes=1000))
    greedy, modest = house.guest(), house.guest()
    greedy.session.receive(start + b"x" * 900)
    modest.session.receive(start + b"x" * 100)
    assert (greedy.ended, modest.ended) == ("over the limit input_bytes", "")
    modest.session.receive(b"x" * 900 + b"\r\n")
    assert modest.received == b":0\r\n"


def test_names_that_are_used_are_bounded() -> None:
    """The limit name_bytes, at and one above."""
    guest = House(limits=Limits(name_bytes=10)).guest(protocol=3)
    assert b"subscribe" in guest.raw("SUBSCRIBE", "x" * 10)
    for command in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "WATCH"):
        assert guest.ask(command, "x" * 11).startswith("ERR limit name_bytes")
    for command in ("PUBLISH", "SPUBLISH", "SET", "APPEND", "INCRBY"):
        value = "1" if command == "INCRBY" else "m"
        assert guest.ask(command, "x" * 11, value).startswith("ERR limit name_bytes")
    assert guest.ask("MSET", "y", "1", "x" * 11, "2").startswith("ERR limit name_bytes")
    assert guest.ask("GET", "y") is None
    assert guest.ask("WATCH", "x" * 10) == "OK"


def test_a_name_that_is_too_long_costs_its_own_message_alone() -> None:
    """The limit name_bytes, in every way that a read of PUBLISHes can go."""
    for limits in (Limits(name_bytes=10), Limits(name_bytes=5000)):
        house = House(limits=limits)
        listener, guest, other = house.guest(), house.guest(), house.guest()
        listener.raw("PSUBSCRIBE", "*[a-z]*")
        long = b"x" * (limits.name_bytes + 1)
        runs = (
            [(b"PUBLISH", b"a", b"1"), (b"PUBLISH", long, b"2"), (b"PUBLISH", b"b", b"3")],
            [(b"PUBLISH", long, b"1"), (b"PUBLISH", long, b"2")],
            [(b"PUBLISH", b"a", b"1"), (b"SPUBLISH", long, b"2"), (b"PING",)],
        )
        for is_stuck in (False, True):
            other.is_stuck = is_stuck
            other.session.receive(b"PING\r\n")
            for run in runs:
                read = [b"*%d\r\n" % len(each) + b"".join(map(bulk, each)) for each in run]
                guest.session.receive(b"".join(read))
                house.end_pass()
                lines = guest.received.split(b"\r\n")[:-1]
                guest.received = b""
                assert [line[:1] for line in lines] == [
                    b"-" if long in each else b"+" if each == (b"PING",) else b":" for each in run
                ]
        assert listener.received.count(b"pmessage") == 2 * (2 + 0 + 1)
        assert long not in listener.received


def test_many_new_channels_in_one_read_let_others_have_their_turn(house: House) -> None:
    """To find who hears a channel may take long. What comes behind keeps its place."""
    listener, guest = house.guest(), house.guest()
    listener.ask("PSUBSCRIBE", "c*")
    house.step = 0.001
    messages = [publish(b"c%d" % number, b"x") for number in range(100)]
    received = send(guest, b"".join(messages) + request(b"PING") + messages[0][:20])
    assert 0 < received.count(b":1\r\n") < 20
    assert guest.paused
    passes = 0
    while guest.paused:
        house.end_pass()
        passes += 1
    assert passes > 3
    received += guest.received
    assert received == b":1\r\n" * 100 + b"+PONG\r\n"
    guest.received = b""
    assert send(guest, messages[0][20:]) == b":1\r\n"
    assert listener.received.count(b"pmessage") == 100


def test_known_channels_are_published_to_in_one_go(house: House) -> None:
    guest = house.guest()
    messages = b"".join(publish(b"c%d" % number, b"x") for number in range(100))
    send(guest, messages)
    house.end_pass()
    house.step = 0.001
    assert send(guest, messages) == b":0\r\n" * 100


@pytest.fixture
def crowd(house: House) -> list[Guest]:
    """Ten who hear a channel, of whom three are written to in a row."""
    house.hub.flushed_most = 3
    guests = [house.guest(protocol=3) for _ in range(10)]
    for guest in guests:
        guest.raw("SUBSCRIBE", "c")
    return guests


def test_a_crowd_is_written_to_in_parts(house: House, crowd: list[Guest]) -> None:
    publisher = house.guest()
    assert send(publisher, publish(b"c", b"1")) == b":10\r\n"
    house.end_pass()
    heard = [sum(bool(guest.received) for guest in crowd)]
    while house.delayed:
        house.pass_time()
        heard.append(sum(bool(guest.received) for guest in crowd))
    assert heard == [3, 6, 9, 10]
    assert {guest.received for guest in crowd} == {message(b"c", b"1", b">")}


@pytest.mark.parametrize("word", [b"PUBLISH", b"SPUBLISH", b"EXEC"])
def test_nothing_more_is_published_before_a_crowd_has_what_was(
    house: House, crowd: list[Guest], word: bytes
) -> None:
    """What waits to be written would grow without bounds."""
    first, second = house.guest(), house.guest()
    if word == b"EXEC":
        second.ask("MULTI")
        second.ask("PUBLISH", "d", "2")
    send(first, publish(b"c", b"1"))
    house.end_pass()
    words = (word,) if word == b"EXEC" else (word, b"d", b"2")
    assert send(second, request(*words) + request(b"PING")) == b""
    assert second.paused
    while house.delayed:
        assert second.received == b""
        house.pass_time()
    house.end_pass()
    assert second.received.endswith(b":0\r\n+PONG\r\n")
    assert not second.paused


def test_one_of_a_crowd_hears_what_was_published_before_its_answer(
    house: House, crowd: list[Guest]
) -> None:
    """RESP-45: and once."""
    publisher = house.guest()
    send(publisher, publish(b"c", b"1"))
    house.end_pass()
    last = crowd[-1]
    told = message(b"c", b"1", b">")
    assert send(last, request(b"PING")) == told + b"+PONG\r\n"
    while house.delayed:
        house.pass_time()
    assert [guest.received for guest in crowd] == [told] * 9 + [b""]


def test_one_who_left_a_crowd_is_passed_over(house: House, crowd: list[Guest]) -> None:
    publisher, waiting = house.guest(), house.guest()
    send(publisher, publish(b"c", b"1"))
    house.end_pass()
    send(waiting, publish(b"c", b"2"))
    crowd[-1].close("gone")
    waiting.close("gone")
    while house.delayed:
        house.pass_time()
        house.end_pass()
    assert [guest.received.count(b"message") for guest in crowd] == [1] * 9 + [0]


def test_large_values_are_not_copied_once_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = house.guest()
    value = b"v" * JOINED_BYTES
    guest.ask("SET", "k", value)
    written: list[bytes] = []
    monkeypatch.setattr(guest, "write", written.append)
    guest.raw("MGET", "k", "k", "x")
    assert written == [b"*3\r\n", bulk(value), bulk(value), b"$-1\r\n"]


@pytest.mark.parametrize("command", ["ACL CAT", "CLIENT SETINFO", "CONFIG SET"])
def test_an_error_quotes_the_beginning_of_what_was_named(house: House, command: str) -> None:
    more = () if command == "ACL CAT" else ("1",)
    told = house.guest().raw(*command.split(), "x" * 100_000, *more)
    assert told.startswith(b"-ERR Un")
    assert len(told) < 300
