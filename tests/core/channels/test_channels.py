"""Publishing: one lookup per pass, one blob per audience, order kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.channels import channels as channels_module
from headgate.core.channels.audience import BARE, Form, Framing, Kind
from headgate.core.channels.channels import Channels
from headgate.core.channels.pattern_index import CROWD
from headgate.core.delivery.mailbox import Budget, Mailbox
from headgate.core.delivery.registry import Roster
from headgate.core.model.glob import Glob
from headgate.core.model.ids import Channel, SessionId
from headgate.core.model.limits import Limits
from headgate.errors import LimitReached

A, B, C = SessionId(1), SessionId(2), SessionId(3)
NEWS, SPORT = Channel(b"news"), Channel(b"sport")


class Colon:
    """Frames that name how they were subscribed to, and the channel."""

    def __init__(self, mark: bytes = b"") -> None:
        self.mark = mark

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        head = self.mark + (name + b"~" if kind is Kind.PATTERN else b"") + channel
        return Framing(lambda size: head + b":", b";")


FORM = Colon()
EXACT, PATTERN, SHARDED = Kind.EXACT, Kind.PATTERN, Kind.SHARDED


def heard(channels: Channels) -> dict[SessionId, bytes]:
    """Everything that is written, by session."""
    received: dict[SessionId, bytes] = {}
    for blob, sessions, _ in channels.take():
        for session in sessions:
            received[session] = received.get(session, b"") + blob
    return received


def test_publishing_to_nobody_answers_zero_and_writes_nothing() -> None:
    """S002-27."""
    channels = Channels(Limits())
    assert channels.publish(EXACT, [(NEWS, b"1")]) == [0]
    assert channels.publish(EXACT, [(NEWS, b"2"), (NEWS, b"3")]) == [0, 0]
    assert list(channels.take()) == []
    channels.subscribe(A, EXACT, [NEWS], FORM)
    assert channels.publish(EXACT, [(NEWS, b"4")]) == [1]


def test_what_is_published_is_counted_whoever_hears_it() -> None:
    """S002-2, S002-11, S002-27, S002-34, S002-39: each message once, with its bytes, whether the
    channel was known or its roster was another by then, and nobody waits for that."""
    channels = Channels(Limits(journal_channels_per_second=1))
    for _ in range(2):
        assert channels.publish(EXACT, [(NEWS, b"12"), (NEWS, b"345")]) == [0, 0]
    channels.subscribe(A, EXACT, [NEWS], FORM)
    assert channels.publish(EXACT, [(NEWS, b"6")]) == [1]
    channels.unsubscribe(A, EXACT, [NEWS])
    assert channels.publish(EXACT, [(NEWS, b"7"), (SPORT, b"8" * 100)]) == [0, 0]
    shown = {fact.channel: (fact.published, fact.size) for fact in channels.counted(1.0)}
    assert shown == {NEWS: (6, 12), b"*other*": (1, 100)}
    assert channels.counted(2.0) == []


def test_a_publisher_has_room_unless_somebody_stuck_hears_it() -> None:
    """RESP-59, RESP-61: and has it again when that one has read."""
    channels, budget = Channels(Limits()), Budget(100, 20, 30)
    mailbox = Mailbox(A, budget)
    channels.subscribe(A, EXACT, [NEWS], FORM)
    mailbox.offer("m", 15, 0.0)
    assert channels.has_room(EXACT, [SPORT], 1000, budget)
    assert channels.has_room(EXACT, [SPORT, NEWS], 5, budget)
    assert not channels.has_room(EXACT, [SPORT, NEWS], 6, budget)
    mailbox.take(1.0)
    assert channels.has_room(EXACT, [SPORT, NEWS], 6, budget)


def test_receivers_are_counted_and_share_one_blob() -> None:
    """S002-28, S002-30, S002-32: the very same bytes for everybody."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS], FORM)
    channels.subscribe(B, EXACT, [NEWS], FORM)
    assert channels.publish(EXACT, [(NEWS, b"1"), (NEWS, b"2")]) == [2, 2]
    [(blob, sessions, messages)] = list(channels.take())
    assert messages == 2
    assert blob == b"news:1;news:2;"
    assert set(sessions) == {A, B}


def test_each_message_is_encoded_once_whoever_hears_it() -> None:
    """S002-33."""
    channels = Channels(Limits())
    encoded = []

    class Counting(Colon):
        def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
            lead, tail, _ = super().framing(kind, name, channel)

            def counted(size: int) -> bytes:
                encoded.append(size)
                return lead(size)

            return Framing(counted, tail)

    counting = Counting()
    for number in range(1, 1001):
        channels.subscribe(SessionId(number), EXACT, [NEWS], counting)
    assert channels.publish(EXACT, [(NEWS, b"1")]) == [1000]
    assert encoded == [1]
    assert len(list(channels.take())) == 1


def test_several_messages_of_one_channel_keep_their_order_across_channels() -> None:
    """S002-31, S002-40."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    channels.subscribe(B, EXACT, [SPORT], FORM)
    channels.publish(EXACT, [(NEWS, b"1"), (SPORT, b"2"), (NEWS, b"3")])
    taken = {(blob, tuple(sessions), messages) for blob, sessions, messages in channels.take()}
    assert taken == {(b"news:1;sport:2;news:3;", (A,), 3), (b"sport:2;", (B,), 1)}


def test_what_was_published_before_a_change_goes_to_the_roster_before_it() -> None:
    """S002-2, S002-38: nobody misses what came before it left, or gets what came before it."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS], FORM)
    channels.publish(EXACT, [(NEWS, b"1")])
    channels.subscribe(B, EXACT, [NEWS], FORM)
    channels.publish(EXACT, [(NEWS, b"2")])
    channels.unsubscribe(A, EXACT, [NEWS])
    channels.publish(EXACT, [(NEWS, b"3")])
    assert heard(channels) == {A: b"news:1;news:2;", B: b"news:2;news:3;"}


def test_a_session_that_disconnects_leaves_no_channel_behind() -> None:
    """S002-26."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    channels.disconnect(A)
    channels.disconnect(A)
    assert list(channels.names(EXACT)) == []
    assert len(channels.of(A)) == 0
    assert channels.count(EXACT) == 0


def test_the_state_of_a_session_comes_with_its_first_channel_and_goes_with_its_last() -> None:
    """S002-10, S002-23, S002-24."""
    channels = Channels(Limits())
    channels.unsubscribe(A, EXACT, [NEWS])
    assert channels._by_session == {}
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    assert len(channels.of(A)) == 2
    channels.unsubscribe(A, EXACT, [NEWS])
    channels.unsubscribe(A, EXACT, [SPORT])
    assert channels._by_session == {}


def test_who_leaves_is_told_each_name_and_of_nothing_no_name() -> None:
    """RESP-28, RESP-29, RESP-30: with what remains after each; an unknown name changes nothing."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    assert channels.unsubscribe(A, EXACT, [b"unknown", NEWS]) == [(b"unknown", 2), (NEWS, 1)]
    assert channels.has(A)
    assert channels.unsubscribe(A, EXACT, None) == [(SPORT, 0)]
    assert channels.unsubscribe(A, EXACT, None) == [(None, 0)]
    assert channels.unsubscribe(A, EXACT, [NEWS]) == [(NEWS, 0)]
    assert not channels.has(A)


def test_nothing_published_after_an_unsubscribe_is_delivered() -> None:
    """S002-25: per channel, also while other subscriptions remain."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    channels.unsubscribe(A, EXACT, [NEWS])
    assert channels.publish(EXACT, [(NEWS, b"1"), (SPORT, b"2")]) == [0, 1]
    assert list(channels.take()) == [(b"sport:2;", (A,), 1)]


def test_who_leaves_most_of_its_patterns_hears_the_others() -> None:
    """S002-25: whatever is done to be rid of what was left."""
    channels = Channels(Limits())
    patterns = [b"n%03d*" % number for number in range(200)]
    channels.subscribe(A, PATTERN, patterns, FORM)
    for number, pattern in enumerate(patterns[:190]):
        channels.unsubscribe(A, PATTERN, [pattern])
        pairs = [(b"n%03d" % number, b"1"), (b"n%03d" % (number + 1), b"2"), (b"n199", b"3")]
        assert channels.publish(EXACT, pairs) == [0, 1, 1]


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_is_left_of_the_last_subscription_and_no_other_is_touched(kind: Kind) -> None:
    """S002-25: nothing more is heard, and there is room for as many as before."""
    channels = Channels(Limits(slow_patterns_per_session=1, slow_patterns=1))
    name, other = b"*", b"news"
    for _ in range(2):
        channels.subscribe(A, kind, [name, other], FORM)
        assert channels.unsubscribe(A, kind, [name]) == [(name, channels.of(A).count(kind))]
        assert channels.has(A)
        assert (channels.subscribers(kind, other), channels.of(A).weight) == (1, 0)
        channels.unsubscribe(A, kind, [other])
        assert not channels.has(A)
        assert (channels.count(kind), channels.of(A).weight) == (0, 0)
    assert channels.publish(EXACT, [(NEWS, b"1")]) == [0]


def test_a_publish_looks_up_its_own_channel_once_and_no_other() -> None:
    """S002-1, S002-4, S002-11, S002-34: whatever other channels there are, and nothing waits."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [Channel(b"%d" % n) for n in range(5000)], FORM)
    looked: list[bytes] = []
    registry = channels._registries[EXACT]
    roster = registry.roster

    def counted(channel: bytes) -> Roster[Form]:
        looked.append(channel)
        return roster(channel)

    registry.roster = counted  # type: ignore[method-assign,assignment]
    assert channels.publish(EXACT, [(NEWS, b"1"), (NEWS, b"2")]) == [0, 0]
    assert looked == [NEWS]
    assert channels.published == 2


def test_channels_and_their_subscribers_can_be_asked_for() -> None:
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS], FORM)
    channels.subscribe(B, EXACT, [NEWS, NEWS], FORM)
    assert channels.subscribers(EXACT, NEWS) == 2
    assert channels.subscribers(EXACT, SPORT) == 0
    assert set(channels.of(B).exact) == {NEWS}


def test_a_session_may_reach_its_limit_of_channels_and_not_pass_it() -> None:
    """The limit channels_per_session, at and one above; nothing of the command is done."""
    channels = Channels(Limits(channels_per_session=2))
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    with pytest.raises(LimitReached, match="channels_per_session"):
        channels.subscribe(A, EXACT, [Channel(b"third")], FORM)
    channels.subscribe(A, EXACT, [NEWS], FORM)
    assert set(channels.of(A).exact) == {NEWS, SPORT}


def test_all_channels_together_have_a_limit() -> None:
    """The limit channels, at and one above."""
    channels = Channels(Limits(channels=2))
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    with pytest.raises(LimitReached, match="channels of 2"):
        channels.subscribe(B, EXACT, [Channel(b"third")], FORM)
    channels.subscribe(B, EXACT, [NEWS], FORM)
    assert channels.subscribers(EXACT, NEWS) == 2


def test_a_long_log_is_flushed_early() -> None:
    """The limits publish_frames and publish_bytes, at and one above."""
    for limits in (Limits(publish_frames=3), Limits(publish_bytes=3 * len(b"news:1;"))):
        channels = Channels(limits)
        channels.subscribe(A, EXACT, [NEWS], FORM)
        channels.publish(EXACT, [(NEWS, b"1")] * 3)
        channels.publish(EXACT, [(NEWS, b"2")])
        channels.publish(EXACT, [(NEWS, b"3")])
        blobs = [blob for blob, _, _ in channels.take()]
        assert blobs == [b"news:1;news:1;news:1;news:2;", b"news:3;"]


def test_channels_that_are_published_to_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels_module, "AUDIENCES", 10)
    channels = Channels(Limits())
    channels.publish(EXACT, [(b"%d" % n, b"") for n in range(35)])
    assert len(channels._known[EXACT]) <= 10
    assert channels.published == 35
    assert list(channels.take()) == []


steps = st.lists(
    st.tuples(
        st.sampled_from(["publish", "subscribe", "unsubscribe", "disconnect", "take"]),
        st.sampled_from([A, B, C]),
        st.sampled_from([NEWS, SPORT]),
    ),
    max_size=40,
)


@given(steps)
def test_everybody_gets_exactly_what_was_published_while_subscribed_in_order(
    script: list[tuple[str, SessionId, Channel]],
) -> None:
    """S002-39, S002-40."""
    channels = Channels(Limits(publish_frames=5))
    subscribed: dict[SessionId, set[Channel]] = {A: set(), B: set(), C: set()}
    expected = {A: b"", B: b"", C: b""}
    received = {A: b"", B: b"", C: b""}

    def take() -> None:
        for session, blob in heard(channels).items():
            received[session] += blob

    for number, (kind, session, channel) in enumerate(script):
        match kind:
            case "publish":
                body = b"%d" % number
                [count] = channels.publish(EXACT, [(channel, body)])
                hearers = [s for s in subscribed if channel in subscribed[s]]
                assert count == len(hearers)
                for hearer in hearers:
                    expected[hearer] += channel + b":" + body + b";"
            case "subscribe":
                channels.subscribe(session, EXACT, [channel], FORM)
                subscribed[session].add(channel)
            case "unsubscribe":
                channels.unsubscribe(session, EXACT, [channel])
                subscribed[session].discard(channel)
            case "disconnect":
                channels.disconnect(session)
                subscribed[session].clear()
            case _:
                take()
    take()
    assert received == expected


def test_who_leaves_everything_still_gets_what_it_heard_on_several_channels() -> None:
    """S002-38, S002-40: also if one of them was put together for it before."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    channels.subscribe(B, EXACT, [NEWS], FORM)
    for first, second in ((b"1", b"2"), (b"3", b"4")):
        channels.publish(EXACT, [(NEWS, first), (SPORT, second)])
        if first == b"1":
            assert heard(channels) == {A: b"news:1;sport:2;", B: b"news:1;"}
    channels.disconnect(A)
    channels.publish(EXACT, [(NEWS, b"5")])
    assert heard(channels) == {A: b"news:3;sport:4;", B: b"news:3;news:5;"}


def test_who_leaves_while_it_is_written_to_still_has_its_place_in_later_passes() -> None:
    """S002-40: the others get what they heard in the same passes."""
    names = [Channel(b"c%d" % n) for n in range(4)]
    channels = Channels(Limits(publish_frames=1))
    channels.subscribe(A, EXACT, names, FORM)
    for name in names[::2]:
        channels.subscribe(B, EXACT, [name], FORM)
    channels.publish(EXACT, [(name, b"1") for name in names])
    received: dict[SessionId, bytes] = {A: b"", B: b""}
    for number, (blob, [session], _) in enumerate(channels.take()):
        received[session] += blob
        if not number:
            channels.disconnect(B)
    assert received == {A: b"c0:1;c1:1;c2:1;c3:1;", B: b"c0:1;c2:1;"}


def test_those_who_hear_the_same_share_a_blob_and_others_have_their_own() -> None:
    """S002-30: what is handed over does not grow with those who hear it alike."""
    channels = Channels(Limits())
    for session in (A, B):
        channels.subscribe(session, EXACT, [NEWS, SPORT], FORM)
    channels.publish(EXACT, [(NEWS, b"1"), (SPORT, b"2")])
    assert list(channels.take()) == [(b"news:1;sport:2;", (A, B), 2)]
    channels.subscribe(C, EXACT, [SPORT], FORM)
    channels.publish(EXACT, [(NEWS, b"3"), (SPORT, b"4")])
    channels.publish_all(EXACT, NEWS, [b"5", b"6"])
    assert sorted(channels.take()) == [
        (b"news:3;sport:4;news:5;news:6;", (A,), 4),
        (b"news:3;sport:4;news:5;news:6;", (B,), 4),
        (b"sport:4;", (C,), 1),
    ]


def test_a_blob_is_made_when_it_is_asked_for_and_order_survives_a_take_in_between() -> None:
    """What a write sets off may publish and take by itself: nobody gets anything twice, or late."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS, SPORT], FORM)
    channels.subscribe(B, EXACT, [NEWS], FORM)
    channels.publish(EXACT, [(NEWS, b"1"), (SPORT, b"2")])
    received: dict[SessionId, bytes] = {A: b"", B: b""}
    for blob, [session], _ in channels.take():
        received[session] += blob
        if session == A:
            channels.publish(EXACT, [(SPORT, b"3"), (NEWS, b"4")])
            for session, blob in heard(channels).items():
                received[session] += blob
    assert received == {A: b"news:1;sport:2;sport:3;news:4;", B: b"news:1;news:4;"}


def test_a_pattern_hears_what_it_matches_after_the_channel_itself() -> None:
    """S002-5, S002-35, S002-36: every matching pattern is a delivery of its own."""
    channels = Channels(Limits())
    channels.subscribe(A, PATTERN, [b"n*", b"*s"], FORM)
    channels.subscribe(A, EXACT, [NEWS], FORM)
    channels.subscribe(B, PATTERN, [b"N*"], FORM)
    assert channels.publish(EXACT, [(NEWS, b"1"), (SPORT, b"2")]) == [3, 0]
    assert heard(channels) == {A: b"news:1;n*~news:1;*s~news:1;"}


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        (b"*ew*", [b"ew", b"ews", b"new", b"news"], [b"EW", b"e", b"we"]),
        (b"n*s", [b"ns", b"news"], [b"n", b"Ns", b"nsx", b"xns"]),
        (b"n?ws", [b"news", b"nows"], [b"nws", b"neews", b"newsx"]),
        (b"news", [b"news"], [b"new", b"newss", b"News"]),
        (b"*", [b"n", b"news"], []),
    ],
)
def test_a_pattern_matches_the_whole_name_with_case(
    pattern: bytes, matched: list[bytes], others: list[bytes]
) -> None:
    """S002-35."""
    channels = Channels(Limits())
    channels.subscribe(A, PATTERN, [pattern], FORM)
    for channel in matched:
        assert channels.publish(EXACT, [(channel, b"1")]) == [1], channel
    for channel in others:
        assert channels.publish(EXACT, [(channel, b"1")]) == [0], channel


def test_a_channel_with_a_star_in_its_name_is_no_pattern() -> None:
    """S002-6."""
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [b"n*"], FORM)
    assert channels.publish(EXACT, [(NEWS, b"1"), (b"n*", b"2")]) == [0, 1]
    assert channels.count(PATTERN) == 0


def test_a_pattern_is_forgotten_with_its_last_subscriber() -> None:
    channels = Channels(Limits())
    channels.subscribe(A, PATTERN, [b"n*"], FORM)
    channels.subscribe(B, PATTERN, [b"n*"], FORM)
    channels.unsubscribe(A, PATTERN, None)
    assert channels.publish(EXACT, [(NEWS, b"1")]) == [1]
    channels.disconnect(B)
    assert channels.publish(EXACT, [(NEWS, b"2")]) == [0]
    assert (channels.count(PATTERN), len(channels._patterns)) == (0, 0)


def test_sharded_channels_are_a_world_of_their_own() -> None:
    """S002-71, RESP-42: apart from plain channels of the same name, and no pattern hears them."""
    channels = Channels(Limits())
    channels.subscribe(A, SHARDED, [NEWS], FORM)
    channels.subscribe(B, EXACT, [NEWS], FORM)
    channels.subscribe(C, PATTERN, [b"*", b"old*", b"*old", b"*old*"], FORM)
    assert channels.publish(SHARDED, [(NEWS, b"1")]) == [1]
    assert channels.publish(EXACT, [(NEWS, b"2")]) == [2]
    assert heard(channels) == {A: b"news:1;", B: b"news:2;", C: b"*~news:2;"}


def test_each_form_is_encoded_once_and_goes_to_those_who_want_it() -> None:
    channels = Channels(Limits())
    old, new = Colon(b"old "), Colon(b"new ")
    channels.subscribe(A, EXACT, [NEWS], old)
    channels.subscribe(B, EXACT, [NEWS], new)
    channels.subscribe(C, EXACT, [NEWS], new)
    assert channels.publish(EXACT, [(NEWS, b"1")]) == [3]
    written = list(channels.take())
    assert [(blob, len(sessions)) for blob, sessions, _ in written] == [
        (b"old news:1;", 1),
        (b"new news:1;", 2),
    ]


def test_a_session_may_change_its_form() -> None:
    channels = Channels(Limits())
    channels.subscribe(A, EXACT, [NEWS], FORM)
    channels.publish(EXACT, [(NEWS, b"1")])
    channels.change_form(A, Colon(b"new "))
    channels.publish(EXACT, [(NEWS, b"2")])
    assert heard(channels) == {A: b"news:1;new news:2;"}


def test_subscribing_is_confirmed_name_by_name() -> None:
    """S002-18, S002-23: exact channels and patterns count together, sharded ones apart."""
    channels = Channels(Limits())
    assert channels.subscribe(A, EXACT, [NEWS, SPORT, NEWS], FORM) == [1, 2, 2]
    assert channels.subscribe(A, PATTERN, [b"*"], FORM) == [3]
    assert channels.subscribe(A, SHARDED, [NEWS], FORM) == [1]
    assert channels.unsubscribe(A, EXACT, [b"unknown", NEWS]) == [(b"unknown", 3), (NEWS, 2)]
    assert channels.unsubscribe(A, EXACT, None) == [(SPORT, 1)]
    assert channels.unsubscribe(A, EXACT, None) == [(None, 1)]


def test_channels_that_move_away_take_their_subscribers_off() -> None:
    """S002-72, S002-73, S002-74, S002-75, S002-54."""
    channels = Channels(Limits())
    channels.subscribe(A, SHARDED, [NEWS, SPORT], FORM)
    channels.subscribe(B, SHARDED, [NEWS], FORM)
    channels.publish(SHARDED, [(NEWS, b"1")])
    assert channels.evict(SHARDED, [NEWS, b"unknown"]) == [(A, NEWS, 1), (B, NEWS, 0)]
    assert channels.publish(SHARDED, [(NEWS, b"2"), (SPORT, b"3")]) == [0, 1]
    assert heard(channels) == {A: b"news:1;sport:3;", B: b"news:1;"}
    assert B not in channels._by_session


@pytest.mark.parametrize("crowd", [0, 100])
def test_a_publisher_waits_for_a_stuck_session_that_hears_it_and_for_no_other(crowd: int) -> None:
    """S002-29, S002-58, S002-61: all who hear it are asked, and nobody else."""
    channels = Channels(Limits())
    budget = Budget(1000, 10, 20)
    channels.subscribe(A, EXACT, [NEWS], FORM)
    channels.subscribe(B, PATTERN, [b"s*"], FORM)
    for number in range(crowd):
        channels.subscribe(SessionId(100 + number), EXACT, [NEWS, SPORT], FORM)
    boxes = {s: Mailbox(s, budget) for s in (A, B, C)}
    assert channels.blocker(EXACT, NEWS, budget) is None
    for box in boxes.values():
        box.offer("m", 21, now=0.0)
    assert channels.blocker(EXACT, NEWS, budget) == A
    assert channels.blocker(EXACT, SPORT, budget) == B
    assert channels.blocker(EXACT, b"other", budget) is None
    assert channels.blocker(SHARDED, NEWS, budget) is None
    boxes[A].take(0.0)
    assert channels.blocker(EXACT, NEWS, budget) is None


def test_a_run_has_room_unless_a_stuck_session_that_hears_it_has_none() -> None:
    """S002-61: whatever others hold, even all that there is for everybody."""
    channels = Channels(Limits())
    budget = Budget(100, 50, 60)
    channels.subscribe(A, EXACT, [NEWS], FORM)
    channels.subscribe(B, EXACT, [SPORT], FORM)
    box = Mailbox(A, budget)
    box.offer("m", 40, now=0.0)
    for _ in range(2):  # with and without an audience that is known
        assert channels.has_room(EXACT, {NEWS}, 10, budget)
        assert not channels.has_room(EXACT, {NEWS}, 11, budget)
        assert not channels.has_room(EXACT, {SPORT, NEWS}, 11, budget)
        assert channels.has_room(EXACT, {SPORT, b"other"}, 10_000, budget)
        channels.publish(EXACT, [(NEWS, b""), (SPORT, b"")])
    box.offer("m", 200, now=0.0)
    assert channels.has_room(EXACT, {SPORT}, 1, budget)
    assert not channels.has_room(EXACT, {NEWS}, 0, budget)


def test_patterns_have_limits_of_their_own() -> None:
    """The limits patterns_per_session and patterns, at and one above."""
    channels = Channels(Limits(patterns_per_session=2, patterns=3))
    channels.subscribe(A, PATTERN, [b"a*", b"b*"], FORM)
    with pytest.raises(LimitReached, match="patterns_per_session"):
        channels.subscribe(A, PATTERN, [b"c*"], FORM)
    channels.subscribe(B, PATTERN, [b"a*", b"c*"], FORM)
    with pytest.raises(LimitReached, match="patterns of 3"):
        channels.subscribe(C, PATTERN, [b"d*"], FORM)
    assert channels.publish(EXACT, [(b"d", b"")]) == [0]


def test_patterns_that_every_channel_asks_have_limits_of_their_own() -> None:
    """The limits slow_patterns_per_session and slow_patterns, at and one above."""
    channels = Channels(Limits(slow_patterns_per_session=4, slow_patterns=6))
    channels.subscribe(A, PATTERN, [b"*", b"?*", b"news.*", b"*.[ab].*"], FORM)
    for slow in (b"??*", b"[cd]*", b"*.[cd].*"):
        with pytest.raises(LimitReached, match="slow_patterns_per_session of 4"):
            channels.subscribe(A, PATTERN, [slow], FORM)
    channels.subscribe(A, PATTERN, [b"sport.*", b"*.[ab]", b"news.[a-z].?"], FORM)
    channels.subscribe(B, PATTERN, [b"*", b"*?"], FORM)
    with pytest.raises(LimitReached, match="slow_patterns of 6"):
        channels.subscribe(B, PATTERN, [b"[cd]*", b"[de]*"], FORM)
    channels.unsubscribe(A, PATTERN, [b"?*", b"*.[ab].*"])
    channels.subscribe(B, PATTERN, [b"[cd]*"], FORM)
    channels.disconnect(A)
    channels.disconnect(B)
    channels.subscribe(A, PATTERN, [b"*", b"?*", b"??*", b"???*"], FORM)


def test_what_is_asked_for_a_channel_does_not_grow_with_the_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever patterns somebody thinks of, a publish asks no more of them than slow_patterns and
    what shares a key with the channel."""
    asked = 0
    matches = Glob.matches

    def counted(self: Glob, subject: bytes) -> bool:
        nonlocal asked
        asked += 1
        return matches(self, subject)

    monkeypatch.setattr(Glob, "matches", counted)
    channels = Channels(Limits(slow_patterns_per_session=100))
    refused = 0
    for number in range(3000):
        for pattern in (b"?" * (1 + number) + b"*", b"a" + b"?" * number):
            try:
                channels.subscribe(A, PATTERN, [pattern], FORM)
            except LimitReached:
                refused += 1
    assert refused > 5000
    channels.publish_one(EXACT, b"abc", b"")
    assert asked <= 100 + 2 * CROWD  # by its prefix, and by a byte in it


def test_a_channel_with_too_long_a_name_is_refused_and_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit name_bytes, at and one above."""
    channels = Channels(Limits(name_bytes=10))
    channels.subscribe(A, PATTERN, [b"*[ab][cd]*"], FORM)
    assert channels.publish_one(EXACT, b"ac" * 5, b"") == 1
    monkeypatch.setattr(channels._patterns, "matching", None)
    for kind in (EXACT, SHARDED):
        with pytest.raises(LimitReached, match="name_bytes"):
            channels.publish_one(kind, b"x" * 11, b"")
        with pytest.raises(LimitReached, match="name_bytes"):
            channels.publish_all(kind, b"x" * 11, [b"", b""])
        assert list(channels.hearing(kind, b"x" * 11, {A: None})) == []


def test_who_had_very_many_channels_is_taken_off_them_bit_by_bit() -> None:
    """S002-9: and then leaves nothing behind."""
    channels = Channels(Limits())
    names = [b"%d" % number for number in range(2000)]
    channels.subscribe(A, EXACT, names, FORM)
    channels.subscribe(A, PATTERN, [b"p%d*" % number for number in range(600)], FORM)
    channels.subscribe(B, EXACT, names[:10], FORM)
    channels.disconnect(B)
    assert not channels.is_leaving
    channels.disconnect(A)
    steps = 0
    while channels.is_leaving:
        left = len(channels.of(A))
        channels.clear_away()
        assert left - len(channels.of(A)) <= 500
        steps += 1
    assert steps == 5
    assert not channels.has(A)
    assert channels.count(EXACT) == channels.count(PATTERN) == 0


def test_a_crowd_on_one_channel_costs_its_number() -> None:
    """However many come and go between two messages."""
    copied = []
    for size in (1000, 8000):
        channels = Channels(Limits())
        sessions = [SessionId(number) for number in range(size)]
        for session in sessions:
            channels.subscribe(session, EXACT, [NEWS], FORM)
        assert channels.publish_one(EXACT, NEWS, b"") == size
        for session in sessions:
            channels.disconnect(session)
        copied.append(channels._registries[EXACT].copied)
        assert channels.publish_one(EXACT, NEWS, b"") == 0
    assert copied == [1000, 8000]


def test_many_channels_in_one_pass_cost_what_they_carry() -> None:
    """A session's blob is joined from the frames it hears, not picked out of all."""
    channels = Channels(Limits(publish_frames=10_000))
    for number in range(1, 501):
        channels.subscribe(SessionId(number), EXACT, [b"%d" % number], FORM)
    channels.publish(EXACT, [(b"%d" % number, b"x") for number in range(1, 501)])
    written = list(channels.take())
    assert [messages for _, _, messages in written] == [1] * 500
    assert heard(channels) == {}


@given(st.data())
def test_an_audience_that_is_remembered_is_the_one_that_would_be_made_anew(
    data: st.DataObject,
) -> None:
    """Any history of subscriptions, with publishes in between, against plain sets."""
    channels = Channels(Limits(publish_frames=4))
    names = {EXACT: [b"a", b"ab"], PATTERN: [b"a*", b"*b", b"?"], SHARDED: [b"a"]}
    wanted: set[tuple[SessionId, Kind, bytes]] = set()
    for _ in range(data.draw(st.integers(0, 30))):
        session = data.draw(st.sampled_from([A, B]))
        kind = data.draw(st.sampled_from(list(Kind)))
        name = data.draw(st.sampled_from(names[kind]))
        match data.draw(st.sampled_from(["subscribe", "unsubscribe", "publish", "publish"])):
            case "subscribe":
                channels.subscribe(session, kind, [name], FORM)
                wanted.add((session, kind, name))
            case "unsubscribe":
                channels.unsubscribe(session, kind, [name])
                wanted.discard((session, kind, name))
            case _:
                channel = data.draw(st.sampled_from([b"a", b"ab", b"c"]))
                if kind is SHARDED:
                    due = [w for w in wanted if w[1] is SHARDED and w[2] == channel]
                    assert channels.publish(SHARDED, [(channel, b"")]) == [len(due)]
                else:
                    due = [
                        w
                        for w in wanted
                        if (w[1] is EXACT and w[2] == channel)
                        or (w[1] is PATTERN and Glob(w[2]).matches(channel))
                    ]
                    assert channels.publish(EXACT, [(channel, b"")]) == [len(due)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([NEWS, SPORT, b"alone", b"nobody"]),
            st.lists(st.sampled_from([b"", b"1", b"2", b"three"]), min_size=1, max_size=7),
        ),
        max_size=8,
    )
)
def test_a_run_on_one_channel_is_as_good_as_its_messages(
    runs: list[tuple[bytes, list[bytes]]],
) -> None:
    one, other = Channels(Limits(publish_frames=10)), Channels(Limits(publish_frames=10))
    for channels in (one, other):
        channels.subscribe(A, EXACT, [NEWS, SPORT, b"alone"], FORM)
        channels.subscribe(A, PATTERN, [b"n*s", b"*s"], FORM)
        channels.subscribe(B, PATTERN, [b"s*"], Colon(b"new "))
    for channel, bodies in runs:
        receivers = one.publish_all(EXACT, channel, bodies)
        assert [receivers] * len(bodies) == other.publish(EXACT, [(channel, b) for b in bodies])
    assert heard(one) == heard(other)
    assert (one.published, one.deliveries) == (other.published, other.deliveries)
    assert one.counted(1.0) == other.counted(1.0)


def test_who_looks_is_told_of_everything_that_is_published_heard_or_not() -> None:
    channels = Channels(Limits())
    channels.subscribe(SessionId(1), Kind.EXACT, [b"heard"], BARE)
    seen: list[tuple[bytes, tuple[bytes, ...]]] = []
    channels.publish_one(Kind.EXACT, b"heard", b"before")
    channels.tap = lambda channel, bodies: seen.append((channel, tuple(bodies)))
    channels.publish(Kind.EXACT, [(b"heard", b"1"), (b"unheard", b"2")])
    channels.publish_one(Kind.EXACT, b"heard", b"3")
    channels.publish_all(Kind.EXACT, b"heard", [b"4", b"5"])
    channels.tap = None
    channels.publish_one(Kind.EXACT, b"heard", b"after")
    assert seen == [
        (b"heard", (b"1",)),
        (b"unheard", (b"2",)),
        (b"heard", (b"3",)),
        (b"heard", (b"4", b"5")),
    ]
