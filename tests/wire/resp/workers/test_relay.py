"""Several workers are one Redis server to their clients."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.channels.audience import Kind
from headgate.core.model.limits import Limits
from headgate.wire.resp import session
from headgate.wire.resp.codec.replies import bulk
from headgate.wire.resp.workers import link_frames as frames
from headgate.wire.resp.workers import questions, relay
from tests.support.resp_crew import Crew, CrewGuest, CrewHouse, CrewLink

# No two patterns match one channel: in which order their copies come is nobody's promise.
WORDS = (
    ("SUBSCRIBE", "a"),
    ("SUBSCRIBE", "a", "b", "a"),
    ("PSUBSCRIBE", "[ab]"),
    ("PSUBSCRIBE", "c*", "x"),
    ("SSUBSCRIBE", "a"),
    ("UNSUBSCRIBE",),
    ("UNSUBSCRIBE", "a", "nothing"),
    ("PUNSUBSCRIBE", "[ab]"),
    ("SUNSUBSCRIBE",),
    ("PUBLISH", "a", "1"),
    ("PUBLISH", "b", "2"),
    ("PUBLISH", "c", "3"),
    ("SPUBLISH", "a", "4"),
    ("PUBSUB", "NUMSUB", "a", "b", "c"),
    ("PUBSUB", "NUMPAT"),
    ("PUBSUB", "CHANNELS"),
    ("PUBSUB", "SHARDNUMSUB", "a"),
    ("RESET",),
    ("HELLO", "3"),
    ("SET", "k", "1"),
    ("GET", "k"),
    ("INCR", "k"),
    ("SELECT", "1"),
    ("WATCH", "k"),
    ("MULTI",),
    ("EXEC",),
    ("DISCARD",),
    ("CLIENT", "SETNAME", "me"),
    ("CLIENT", "GETNAME"),
    ("CLIENT", "REPLY", "SKIP"),
    ("CONFIG", "SET", "slow-timeout", "7"),
    ("CONFIG", "GET", "slow-timeout"),
    ("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "&*"),
    ("ACL", "USERS"),
    ("ACL", "DELUSER", "u"),
    ("AUTH", "u", ""),
    ("ACL", "WHOAMI"),
)


def transcript(workers: int, steps: list[tuple[int, int]], places: list[int]) -> list[object]:
    """What each client hears after each step, with sets where there is no order."""
    crew = Crew(workers)
    guests = [crew.guest(place) for place in places]
    found: list[object] = []
    for who, what in steps:
        guest = guests[who % len(guests)]
        if guest.ended:
            continue
        words = WORDS[what]
        answer: object = guest.raw(*words)
        if words == ("PUBSUB", "CHANNELS"):
            answer = sorted(bytes(answer).split(b"\r\n"))  # type: ignore[call-overload]
        for house in crew.houses:
            house.pass_time()  # a wrong password is answered late
        crew.settle()
        found.append(_without_id(answer))
        found += [(each.heard(), each.ended) for each in guests]
    return found


def _without_id(answer: object) -> object:
    """HELLO tells the number of the session."""
    if isinstance(answer, bytes) and b"$2\r\nid\r\n" in answer:
        return answer.partition(b"$2\r\nid\r\n")[0]
    return answer


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, len(WORDS) - 1)), max_size=40),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
def test_drawn_transcripts_are_those_of_one_process(
    steps: list[tuple[int, int]], places: list[int]
) -> None:
    one = transcript(1, steps, places)
    assert transcript(2, steps, places) == one
    assert transcript(4, steps, places) == one


@pytest.mark.parametrize("seed", range(20))
def test_long_transcripts_are_those_of_one_process(seed: int) -> None:
    random = Random(seed)
    steps = [(random.randrange(4), random.randrange(len(WORDS))) for _ in range(200)]
    places = [random.randrange(4) for _ in range(4)]
    assert transcript(3, steps, places) == transcript(1, steps, places)


# What must hold while it is not quiet.


def test_a_subscription_is_confirmed_when_every_worker_knows_it() -> None:
    crew = Crew(3)
    subscriber, publisher = crew.guest(1), crew.guest(2)
    held = crew.links[2, 1]  # what worker 2 says to worker 1
    subscriber.session.receive(b"SUBSCRIBE news\r\n")
    confirmed_at = None
    for step in range(20):
        publisher.session.receive(b"PUBLISH news %d\r\n" % step)
        crew.step()
        if subscriber.received and confirmed_at is None:
            confirmed_at = step
        if held.session.is_synced and confirmed_at is not None:
            break
    crew.settle()
    assert confirmed_at is not None
    assert subscriber.received.startswith(b"*3\r\n$9\r\nsubscribe\r\n")
    for number in range(confirmed_at + 1, step + 1):
        assert bulk(b"%d" % number) in subscriber.received


@given(st.data())
def test_nothing_is_missed_after_a_confirmation_however_slow_links_are(data: st.DataObject) -> None:
    """Links carry over what was sent when they like; a PUBLISH that begins after the confirmation
    arrives, and the messages of each publisher come in their order."""
    crew = Crew(3)
    subscriber = crew.guest(0)
    publishers = [crew.guest(1), crew.guest(2)]
    subscriber.session.receive(b"SUBSCRIBE news\r\n")
    sent: list[bytes] = []
    due: list[bytes] = []
    for number in range(data.draw(st.integers(1, 25))):
        for house in crew.houses:
            house.end_pass()
        for link in crew.links.values():
            if data.draw(st.booleans()):
                link.carry()
        which = data.draw(st.integers(0, 1))
        body = b"%d-%d" % (which, number)
        if b"subscribe" in subscriber.received:
            due.append(body)
        sent.append(body)
        publishers[which].session.receive(b"PUBLISH news " + body + b"\r\n")
    crew.settle()
    heard = [body for body in sent if bulk(body) in subscriber.received]
    assert set(due) <= set(heard)
    for publisher in (b"0", b"1"):
        mine = [body for body in heard if body.startswith(publisher)]
        places = [subscriber.received.index(bulk(body)) for body in mine]
        assert places == sorted(places)
        assert all(subscriber.received.count(bulk(body)) == 1 for body in mine)


def test_who_subscribes_in_a_pipeline_waits_once() -> None:
    crew = Crew(2)
    client = crew.guest(1)
    before = crew.houses[1].relay.announcements.number
    client.session.receive(b"".join(b"SUBSCRIBE c%d\r\n" % n for n in range(200)))
    crew.settle()
    assert client.received.count(b"subscribe") == 200
    assert crew.houses[1].relay.announcements.number - before <= 3
    assert crew.guest(0).ask("PUBSUB", "NUMSUB", "c0", "c199") == ["c0", 1, "c199", 1]


def test_a_long_pipeline_of_subscriptions_is_known_before_each_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if others get their turn in the midst of it, and wishes are tidied up then."""
    monkeypatch.setattr(session, "SLICE_SECONDS", -1.0)
    crew = Crew(2)
    client, other = crew.guest(1), crew.houses[0].hub.channels
    client.session.receive(b"".join(b"SUBSCRIBE c%d\r\n" % n for n in range(50)))
    while crew.step():
        for house in crew.houses:
            house.relay.settle()
        confirmed = client.received.count(b"subscribe")
        known = sum(other.subscribers(Kind.EXACT, b"c%d" % n) for n in range(50))
        assert known >= confirmed
    assert client.received.count(b"subscribe") == 50


NAMES = [f"c{n}" for n in range(9)]


def test_many_names_are_known_elsewhere_before_they_are_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In several passes; and so they are gone before that is confirmed."""
    monkeypatch.setattr(relay, "AT_ONCE", 2)
    crew = Crew(2)
    client, other = crew.guest(1), crew.houses[0].hub.channels

    def known() -> int:
        return sum(other.subscribers(Kind.EXACT, name.encode()) for name in NAMES)

    for command, counted in (("SUBSCRIBE", 9), ("UNSUBSCRIBE", 0), ("SUBSCRIBE", 9), ("RESET", 0)):
        client.heard()
        words = NAMES if command == "SUBSCRIBE" else []
        client.session.receive(" ".join([command, *words]).encode() + b"\r\n")
        passes = 0
        while crew.step():
            passes += 1
            assert not client.received or known() == counted
        assert passes > len(NAMES) / 2
        assert client.received
        assert known() == counted


def test_many_names_are_known_to_a_new_worker_in_several_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those that change meanwhile, and a worker that is gone is not counted in the end."""
    monkeypatch.setattr(relay, "AT_ONCE", 2)
    crew = Crew(2)
    client = crew.guest(0)
    crew.guest(1).raw("SUBSCRIBE", *(f"gone{n}" for n in range(9)))
    client.raw("SUBSCRIBE", *NAMES)
    new = with_a_new_worker(crew)
    link = new.links[1, 0].session
    client.session.receive(b"UNSUBSCRIBE c8 c0\r\nSUBSCRIBE late\r\n")
    counted = new.houses[1].hub.channels
    passes = 0
    while not link.is_synced:
        assert new.step()
        passes += 1
    assert passes > 3
    assert all(counted.subscribers(Kind.EXACT, name.encode()) for name in NAMES[1:8])
    new.settle()
    numbers = new.guest(1).ask("PUBSUB", "NUMSUB", "c0", "c1", "c7", "c8", "late")
    assert numbers == ["c0", 0, "c1", 1, "c7", 1, "c8", 0, "late", 1]
    assert sorted(new.guest(0).ask("PUBSUB", "CHANNELS")) == sorted([*NAMES[1:8], "late"])


@pytest.mark.parametrize(
    ("commands", "counts"),
    [
        (b"SUBSCRIBE a\r\nPSUBSCRIBE a\r\nUNSUBSCRIBE a\r\n", 1),
        (b"SUBSCRIBE a\r\nUNSUBSCRIBE\r\nSUBSCRIBE a\r\n", 1),
        (b"SSUBSCRIBE a\r\n", 0),
        (b"SUBSCRIBE a a\r\nPSUBSCRIBE [a]\r\n", 2),
    ],
)
def test_counts_are_right_when_a_transaction_is_answered(commands: bytes, counts: int) -> None:
    """And not only a moment later."""
    crew = Crew(2)
    client, other = crew.guest(1), crew.guest(0)
    client.ask("MULTI")
    client.session.receive(commands)
    client.heard()
    client.session.receive(b"EXEC\r\n")
    for _ in range(20):
        if client.received:
            break
        crew.step()
    other.session.receive(b"PUBLISH a x\r\n")
    other.house.end_pass()
    assert other.received == b":%d\r\n" % counts


def test_a_subscription_that_will_be_refused_is_not_announced() -> None:
    """Who may not subscribe is not counted, however it asks."""
    crew = Crew(2)
    client, other = crew.guest(1), crew.guest(0)
    other.ask("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "&news.*")
    client.ask("AUTH", "u", "")
    client.session.receive(b"SUBSCRIBE news.1\r\nSUBSCRIBE else\r\n")
    for _ in range(20):
        crew.step()
        assert crew.houses[0].hub.channels.subscribers(Kind.EXACT, b"else") == 0
    assert b"NOPERM" in client.received
    assert other.ask("PUBLISH", "news.1", "x") == 1
    assert len(crew.houses[1].facts_of("AccessDenied")) == 1, "which is told once"


def in_a_transaction(client: CrewGuest, *lines: bytes) -> bytes:
    """What is answered to a transaction with a key, which is worker 0's."""
    client.heard()
    client.session.receive(b"\r\n".join((b"MULTI", b"SET k v", *lines, b"EXEC\r\n")))
    client.crew.settle()
    return client.heard()


def test_a_transaction_that_worker_0_carries_out_is_silent_where_it_is_to_be() -> None:
    """RESP-35: an error is no confirmation; and what is not answered is done."""
    answers = []
    for workers in (1, 2):
        crew = Crew(workers)
        client, other = crew.guest(1), crew.guest(0)
        other.ask("SUBSCRIBE", "a")
        lines = b"CLIENT REPLY OFF", b"SSUBSCRIBE a", b"SUBSCRIBE b", b"PUBLISH a x"
        answers.append((in_a_transaction(client, *lines), other.heard()))
    assert answers[0] == answers[1]
    assert b"message" in answers[0][1]


def test_a_transaction_that_worker_0_carries_out_lists_channels_at_its_point() -> None:
    client = Crew(2).guest(1)
    lines = b"PUBSUB CHANNELS", b"PUBSUB NUMSUB a", b"PUBSUB NUMPAT", b"SUBSCRIBE a"
    answer = in_a_transaction(client, *lines, b"PSUBSCRIBE b", b"PUBSUB NUMPAT")
    _, _, found = answer.partition(b"*7\r\n")
    assert found.startswith(b"+OK\r\n*0\r\n*2\r\n$1\r\na\r\n:0\r\n:0\r\n*3\r\n")
    assert found.endswith(b":1\r\n")


@pytest.mark.parametrize("place", [0, 1])
def test_what_a_transaction_did_not_change_is_not_changed_elsewhere(place: int) -> None:
    """It is not carried out if a watched key changed, and a command of it may be refused."""
    crew = Crew(3)
    client, admin, user = crew.guest(place), crew.guest(0), crew.guest(2)
    for name in ("u", "poor"):
        admin.ask("ACL", "SETUSER", name, "on", "nopass", "+@all", "~*", "&*")
    user.ask("AUTH", "u", "")
    client.ask("WATCH", "k")
    client.raw("MULTI")
    client.raw("ACL", "DELUSER", "u")
    admin.ask("SET", "k", "1")
    assert client.raw("EXEC") == b"*-1\r\n"
    client.ask("AUTH", "poor", "")
    client.raw("MULTI")
    client.raw("ACL", "DELUSER", "u")
    client.raw("CONFIG", "SET", "slow-timeout", "3")
    admin.ask("ACL", "SETUSER", "poor", "-acl")
    assert b"NOPERM" in client.raw("EXEC")
    assert not user.ended
    assert [house.hub.settings.slow_timeout for house in crew.houses] == [3.0] * 3


def limits() -> Limits:
    return Limits(mailbox_bytes_soft=500, mailbox_bytes_hard=1000)


def fill(publisher: CrewGuest, channel: str = "news") -> int:
    """Publish until one has to wait; return how many that were, with the one that waits."""
    for number in range(1, 10):
        if publisher.raw("PUBLISH", channel, "x" * 500) == b"":
            assert publisher.paused
            return number
    raise AssertionError("nobody has to wait")


def test_a_publisher_waits_for_a_session_of_another_worker() -> None:
    """S002-58, S002-62: and goes on when that reads, or leaves, or unsubscribes."""
    for end in ("reads", "leaves", "unsubscribes"):
        crew = Crew(2, limits())
        slow, publisher, stranger = crew.guest(1), crew.guest(0), crew.guest(0)
        slow.ask("SUBSCRIBE", "news")
        slow.is_stuck = True
        fill(publisher)
        assert slow.mailbox.bytes < 2000
        assert stranger.ask("PUBLISH", "other", "x") == 0
        if end == "reads":
            while len(slow.mailbox):
                slow.take()
        elif end == "leaves":
            slow.close("gone")
        else:
            slow.session.receive(b"UNSUBSCRIBE\r\n")
        crew.settle()
        assert publisher.received == (b":1\r\n" if end == "reads" else b":0\r\n"), end
        assert not publisher.paused


def test_a_pattern_that_blocks_blocks_every_channel_that_it_matches() -> None:
    crew = Crew(2, limits())
    slow, publisher = crew.guest(1), crew.guest(0)
    slow.ask("PSUBSCRIBE", "n*")
    slow.is_stuck = True
    fill(publisher, "news")
    other = crew.guest(0)
    assert other.raw("PUBLISH", "never before", "x") == b""
    assert crew.guest(0).ask("PUBLISH", "else", "x") == 0
    assert slow.mailbox.bytes < 2000


@pytest.mark.parametrize("policy", ["wait", "close", "drop-oldest"])
def test_a_link_that_is_held_makes_publishers_wait_as_a_session_does(policy: str) -> None:
    """RESP-64: also where nobody waits for a slow session, since those behind a link are not."""
    crew = Crew(2, limits())
    subscriber, publisher, stranger = crew.guest(1), crew.guest(0), crew.guest(0)
    stranger.ask("CONFIG", "SET", "slow-session", policy)
    queuing = crew.guest(0)
    subscriber.ask("SUBSCRIBE", "news")
    link = crew.links[0, 1]
    link.is_held = True
    sent = fill(publisher)
    assert link.mailbox.bytes < 2000
    for words in (("MULTI",), ("PUBLISH", "news", "in a transaction"), ("EXEC",)):
        queuing.raw(*words)
    assert queuing.paused
    assert stranger.ask("PUBLISH", "other", "x") == 0
    link.release()
    crew.settle()
    assert publisher.received == b":1\r\n"
    assert queuing.received == b"*1\r\n:1\r\n"
    assert subscriber.received.count(b"message") == sent + 1


def test_what_waits_for_a_worker_goes_on_without_it() -> None:
    """A SUBSCRIBE, a publisher, a question."""
    crew = Crew(3, limits())
    slow, publisher, subscriber = crew.guest(1), crew.guest(0), crew.guest(0)
    slow.ask("SUBSCRIBE", "news")
    for link in (crew.links[0, 1], crew.links[2, 1]):
        link.is_held = True
    fill(publisher)
    assert subscriber.raw("SUBSCRIBE", "a") == b""
    crew.links[0, 1].cut()
    crew.settle()
    assert b":0\r\n" in publisher.received
    assert b"subscribe" in subscriber.received


def test_answers_that_a_worker_does_not_take_are_no_more_than_one_answer_may_be() -> None:
    """Each session has a question under way, and each answer may be a large value."""
    crew = Crew(2, Limits(reply_bytes=5000))
    crew.guest(0).ask("SET", "k", "v" * 4000)
    clients = [crew.guest(1) for _ in range(20)]
    link = crew.links[0, 1]
    link.is_held = True
    for client in clients:
        client.session.receive(b"GET k\r\n")
    crew.settle()
    assert link.mailbox.bytes < 5000 + 5000
    link.release()
    crew.settle()
    assert [client.received for client in clients] == [b"$4000\r\n%b\r\n" % (b"v" * 4000)] * 20


def test_questions_of_a_worker_leave_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass answers some, at least one, in the order in which they came."""
    monkeypatch.setattr(questions, "SLICE_SECONDS", -1.0)
    crew = Crew(2)
    home, clients = crew.houses[0], [crew.guest(1) for _ in range(5)]
    for client in clients:
        client.session.receive(b"INCR k\r\n")
    crew.links[1, 0].carry()
    seen: list[bytes | None] = []
    while not seen or seen[-1] != b"5":
        seen.append(home.hub.keys.get(0, b"k", home.now))
        home.end_pass()
    assert [*dict.fromkeys(seen)] == [b"1", b"2", b"3", b"4", b"5"]
    crew.settle()
    assert [client.received for client in clients] == [b":%d\r\n" % n for n in range(1, 6)]


def test_answers_in_parts_are_made_one_after_another() -> None:
    """Each is in memory until all of it is made."""
    crew = Crew(2)
    home, clients = crew.houses[0], [crew.guest(1) for _ in range(3)]
    for number in range(1000):
        crew.guest(0).ask("SET", f"k{number}", "v")
    home.step = 0.003  # so that each is made in many passes
    for client in clients:
        client.session.receive(b"KEYS *\r\n")
    crew.links[1, 0].carry()
    while not clients[0].received:
        assert crew.step()
    assert [client.received for client in clients[1:]] == [b"", b""]
    crew.settle()
    assert [client.received[:7] for client in clients] == [b"*1000\r\n"] * 3


def test_keys_are_missed_while_worker_0_is_gone() -> None:
    crew = Crew(2)
    client = crew.guest(1)
    assert client.ask("SET", "k", "v") == "OK"
    crew.links[1, 0].is_held = True
    assert client.raw("GET", "k") == b""
    crew.links[1, 0].cut()
    crew.settle()
    assert client.received.startswith(b"-LOADING")
    assert client.heard()
    assert client.ask("GET", "k").startswith("LOADING")
    assert client.ask("PUBLISH", "news", "x") == 0


def test_channels_are_served_while_worker_0_is_gone() -> None:
    """S002-86: keys are loading then, and the nine commands of channels do not wait for them."""
    crew = Crew(2)
    client, publisher = crew.guest(1), crew.guest(1)
    client.ask("HELLO", "3")
    crew.links[1, 0].cut()
    crew.settle()
    assert client.ask("GET", "k").startswith("LOADING")
    for command, *names in (
        ("SUBSCRIBE", "a", "b"),
        ("PSUBSCRIBE", "[ab]", "c*"),
        ("SSUBSCRIBE", "a"),
        ("UNSUBSCRIBE", "b"),
        ("PUNSUBSCRIBE", "c*"),
    ):
        assert client.raw(command, *names).count(command.lower().encode()) == len(names)
    assert publisher.ask("PUBSUB", "NUMSUB", "a", "b") == ["a", 1, "b", 0]
    assert publisher.ask("PUBSUB", "NUMPAT") == 1
    assert publisher.ask("PUBLISH", "a", "x") == 2
    assert publisher.ask("SPUBLISH", "a", "x") == 1
    assert client.raw("SUNSUBSCRIBE", "a").count(b"sunsubscribe") == 1


def test_a_worker_that_says_something_else_is_cut_off() -> None:
    crew = Crew(2)
    link = crew.links[0, 1]
    link.session.receive(frames.frame(b"WHAT"))
    assert "not the words of a worker" in link.ended


def test_a_worker_of_another_version_is_cut_off() -> None:
    crew = Crew(1)
    house = crew.houses[0]
    stranger = CrewLinkless(house)
    session = house.relay.join(stranger, 1, 1)
    session.receive(frames.frame(frames.HELLO, b"99", b"1", b"1"))
    assert "version 99" in stranger.ended


class CrewLinkless:
    """A link whose other end is a test."""

    unwritten = 0

    def __init__(self, house: CrewHouse) -> None:
        self.ended = ""
        self.id = house.hub.broker.sessions.next_id()

    def write(self, frame: bytes) -> None:
        pass

    def deliver(self, blob: bytes, messages: int) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.ended = reason


# Commands that concern all.


def listed(guest: CrewGuest) -> list[str]:
    text = guest.ask("CLIENT", "LIST")
    return [line.partition(" ")[0] for line in text.splitlines()]


def test_sessions_have_numbers_of_their_own_on_all_workers() -> None:
    crew = Crew(3)
    guests = [crew.guest(worker) for worker in (2, 0, 1, 2)]
    ids = [guest.ask("CLIENT", "ID") for guest in guests]
    assert len({*ids}) == 4
    assert [id % 3 for id in ids] == [2, 0, 1, 2]
    for guest in guests:
        assert sorted(listed(guest)) == sorted(f"id={id}" for id in ids)


def test_a_client_is_ended_by_whoever_asks() -> None:
    crew = Crew(3)
    asking, other, third = crew.guest(0), crew.guest(1), crew.guest(2)
    assert asking.ask("CLIENT", "KILL", "ID", other.id) == 1
    assert other.ended
    assert asking.ask("CLIENT", "KILL", third.session.peer) == "OK"
    assert third.ended
    assert asking.ask("CLIENT", "KILL", "1.2.3.4:5") == "ERR No such client"
    assert asking.ask("CLIENT", "KILL", "ID", 999_999) == 0


def test_a_monitor_overhears_every_worker() -> None:
    crew = Crew(2)
    monitor, other, home = crew.guest(1), crew.guest(1), crew.guest(0)
    assert monitor.ask("MONITOR") == "OK"
    home.raw("PUBLISH", "news", "1")
    home.raw("SET", "k", "1")
    other.raw("SET", "k", "2")
    heard = monitor.heard()
    for words in (b'"PUBLISH" "news" "1"', b'"SET" "k" "1"', b'"SET" "k" "2"'):
        assert heard.count(words) == 1, words
    monitor.close("gone")
    for house in crew.houses:
        house.relay.settle()
    crew.settle()
    assert not crew.houses[0].hub.monitors


def test_info_adds_up() -> None:
    crew = Crew(2)
    for worker in (0, 0, 1):
        guest = crew.guest(worker)
    assert "connected_clients:3\r\n" in guest.ask("INFO", "clients")


def test_users_are_the_same_everywhere_when_the_change_is_answered() -> None:
    crew = Crew(3)
    admin, other = crew.guest(1), crew.guest(2)
    assert admin.ask("ACL", "SETUSER", "ann", "on", ">pw", "+@all", "~*", "&*") == "OK"
    assert other.ask("AUTH", "ann", "pw") == "OK"
    assert admin.ask("ACL", "DELUSER", "ann") == 1
    assert other.ended
    assert "WRONGPASS" in crew.guest(0).ask("AUTH", "ann", "pw")


def with_a_new_worker(crew: Crew) -> Crew:
    """A crew of two whose worker 1 is gone, and another one linked."""
    crew.links[0, 1].cut()
    new = Crew(2)
    new.houses[0] = crew.houses[0]
    # Its life begins with what worker 0 says when they are linked.
    ends = CrewLink(crew.houses[0], 1), CrewLink(new.houses[1], 0)
    ends[0].other, ends[1].other = ends[1], ends[0]
    new.links = {(0, 1): ends[0], (1, 0): ends[1]}
    return new


def test_a_worker_that_is_new_is_told_users_and_settings() -> None:
    crew = Crew(2)
    admin = crew.guest(0)
    admin.ask("ACL", "SETUSER", "ann", "on", ">pw", "+@all", "~*", "&*")
    admin.ask("CONFIG", "SET", "slow-timeout", "7")
    new = with_a_new_worker(crew)
    new.settle()
    client = new.guest(1)
    assert client.ask("AUTH", "ann", "pw") == "OK"
    assert new.houses[1].hub.settings.slow_timeout == 7.0


@pytest.mark.parametrize("command", [("CLIENT", "LIST"), ("CLIENT", "KILL", "ID", "1"), ("INFO",)])
def test_what_asks_everybody_is_not_for_transactions(command: tuple[str, ...]) -> None:
    crew = Crew(2)
    client = crew.guest(1)
    client.ask("MULTI")
    assert "not for transactions" in client.ask(*command)
    assert client.ask("EXEC").startswith("EXECABORT")
