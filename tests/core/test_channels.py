"""Publishing: one lookup per pass, one blob per audience, order kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.channels import Channels
from headgate.core.limits import Limits
from headgate.core.names import Channel, SessionId
from headgate.errors import LimitReached

A, B, C = SessionId(1), SessionId(2), SessionId(3)
NEWS, SPORT = Channel(b"news"), Channel(b"sport")


def frame(channel: Channel, body: bytes) -> bytes:
    return channel + b":" + body + b";"


def test_publishing_to_nobody_answers_zero_and_writes_nothing() -> None:
    """S002-27."""
    channels = Channels(Limits())
    assert channels.publish([(NEWS, b"1")], frame) == [0]
    assert channels.take() == []


def test_receivers_are_counted_and_share_one_blob() -> None:
    """S002-28, S002-30, S002-32: the very same bytes for everybody."""
    channels = Channels(Limits())
    channels.subscribe(A, [NEWS])
    channels.subscribe(B, [NEWS])
    assert channels.publish([(NEWS, b"1"), (NEWS, b"2")], frame) == [2, 2]
    [(blob, sessions)] = channels.take()
    assert blob == b"news:1;news:2;"
    assert set(sessions) == {A, B}


def test_each_message_is_encoded_once_whoever_hears_it() -> None:
    """S002-33."""
    channels = Channels(Limits())
    for number in range(1, 1001):
        channels.subscribe(SessionId(number), [NEWS])
    encoded = []

    def counting(channel: Channel, body: bytes) -> bytes:
        encoded.append(body)
        return frame(channel, body)

    channels.publish([(NEWS, b"1")], counting)
    assert encoded == [b"1"]
    assert len(channels.take()) == 1


def test_several_messages_of_one_channel_keep_their_order_across_channels() -> None:
    """S002-31, S002-40."""
    channels = Channels(Limits())
    channels.subscribe(A, [NEWS, SPORT])
    channels.subscribe(B, [SPORT])
    channels.publish([(NEWS, b"1"), (SPORT, b"2"), (NEWS, b"3")], frame)
    written = {session: blob for blob, sessions in channels.take() for session in sessions}
    assert written == {A: b"news:1;sport:2;news:3;", B: b"sport:2;"}


def test_what_was_published_before_a_change_goes_to_the_roster_before_it() -> None:
    """S002-2, S002-38: nobody misses what came before it left, or gets what came before it."""
    channels = Channels(Limits())
    channels.subscribe(A, [NEWS])
    channels.publish([(NEWS, b"1")], frame)
    channels.subscribe(B, [NEWS])
    channels.publish([(NEWS, b"2")], frame)
    channels.unsubscribe(A, [NEWS])
    channels.publish([(NEWS, b"3")], frame)
    received: dict[SessionId, bytes] = {A: b"", B: b""}
    for blob, sessions in channels.take():
        for session in sessions:
            received[session] += blob
    assert received == {A: b"news:1;news:2;", B: b"news:2;news:3;"}


def test_a_session_that_disconnects_leaves_no_channel_behind() -> None:
    """S002-26."""
    channels = Channels(Limits())
    channels.subscribe(A, [NEWS, SPORT])
    channels.disconnect(A)
    channels.disconnect(A)
    assert list(channels) == []
    assert channels.of(A) == frozenset()
    assert len(channels) == 0


def test_the_state_of_a_session_comes_with_its_first_channel_and_goes_with_its_last() -> None:
    """S002-10, S002-23, S002-24."""
    channels = Channels(Limits())
    channels.unsubscribe(A, [NEWS])
    assert channels._by_session == {}
    channels.subscribe(A, [NEWS, SPORT])
    assert len(channels.of(A)) == 2
    channels.unsubscribe(A, [NEWS])
    channels.unsubscribe(A, [SPORT])
    assert channels._by_session == {}


def test_nothing_published_after_an_unsubscribe_is_delivered() -> None:
    """S002-25: per channel, also while other subscriptions remain."""
    channels = Channels(Limits())
    channels.subscribe(A, [NEWS, SPORT])
    channels.unsubscribe(A, [NEWS])
    assert channels.publish([(NEWS, b"1"), (SPORT, b"2")], frame) == [0, 1]
    assert channels.take() == [(b"sport:2;", (A,))]


def test_a_publish_looks_up_its_own_channel_once_and_no_other() -> None:
    """S002-1, S002-11, S002-34: whatever other channels there are, and nothing waits."""
    channels = Channels(Limits())
    channels.subscribe(A, [Channel(b"%d" % n) for n in range(5000)])
    looked: list[Channel] = []
    roster = channels._registry.roster

    def counted(channel: Channel) -> object:
        looked.append(channel)
        return roster(channel)

    channels._registry.roster = counted  # type: ignore[method-assign,assignment]
    channels.publish([(NEWS, b"1"), (NEWS, b"2")], frame)
    assert looked == [NEWS]


def test_channels_and_their_subscribers_can_be_asked_for() -> None:
    channels = Channels(Limits())
    channels.subscribe(A, [NEWS])
    channels.subscribe(B, [NEWS, NEWS])
    assert channels.subscribers(NEWS) == 2
    assert channels.subscribers(SPORT) == 0
    assert channels.of(B) == {NEWS}


def test_a_session_may_reach_its_limit_of_channels_and_not_pass_it() -> None:
    """The limit channels_per_session, at and one above; nothing of the command is done."""
    channels = Channels(Limits(channels_per_session=2))
    channels.subscribe(A, [NEWS, SPORT])
    with pytest.raises(LimitReached, match="channels_per_session"):
        channels.subscribe(A, [Channel(b"third")])
    channels.subscribe(A, [NEWS])
    assert channels.of(A) == {NEWS, SPORT}


def test_all_channels_together_have_a_limit() -> None:
    """The limit channels, at and one above."""
    channels = Channels(Limits(channels=2))
    channels.subscribe(A, [NEWS, SPORT])
    with pytest.raises(LimitReached, match="channels of 2"):
        channels.subscribe(B, [Channel(b"third")])
    channels.subscribe(B, [NEWS])
    assert channels.subscribers(NEWS) == 2


def test_a_long_log_is_flushed_early() -> None:
    """The limits publish_frames and publish_bytes, at and one above."""
    for limits in (Limits(publish_frames=3), Limits(publish_bytes=3 * len(b"news:1;"))):
        channels = Channels(limits)
        channels.subscribe(A, [NEWS])
        channels.publish([(NEWS, b"1")] * 3, frame)
        channels.publish([(NEWS, b"2")], frame)
        channels.publish([(NEWS, b"3")], frame)
        blobs = [blob for blob, _ in channels.take()]
        assert blobs == [b"news:1;news:1;news:1;news:2;", b"news:3;"]


def test_many_unheard_channels_do_not_pile_up_in_a_pass() -> None:
    channels = Channels(Limits(publish_frames=10))
    channels.publish([(Channel(b"%d" % n), b"") for n in range(11)], frame)
    assert channels.published == 11
    assert channels.take() == []


def test_what_was_published_is_counted_by_channel_and_the_rest_in_one() -> None:
    """The limit journal_channels_per_second, at and one above."""
    channels = Channels(Limits(journal_channels_per_second=2))
    channels.subscribe(A, [NEWS])
    channels.publish([(NEWS, b"12")] * 3 + [(SPORT, b"1")] * 2, frame)
    assert [(c.channel, c.published, c.size, c.deliveries) for c in channels.counted(1.0)] == [
        (NEWS, 3, 6, 3),
        (SPORT, 2, 2, 0),
    ]
    assert channels.counted(2.0) == []
    channels.publish([(NEWS, b"1")] * 3 + [(SPORT, b"1")] * 2, frame)
    channels.publish([(Channel(b"%d" % n), b"x") for n in range(30)], frame)
    *named, other = channels.counted(3.0)
    assert [count.channel for count in named] == [NEWS, SPORT]
    assert (other.channel, other.published, other.receivers_max) == (b"*other*", 30, 0)


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
        for blob, sessions in channels.take():
            for session in sessions:
                received[session] += blob

    for number, (kind, session, channel) in enumerate(script):
        match kind:
            case "publish":
                body = b"%d" % number
                [count] = channels.publish([(channel, body)], frame)
                hearers = [s for s in subscribed if channel in subscribed[s]]
                assert count == len(hearers)
                for hearer in hearers:
                    expected[hearer] += frame(channel, body)
            case "subscribe":
                channels.subscribe(session, [channel])
                subscribed[session].add(channel)
            case "unsubscribe":
                channels.unsubscribe(session, [channel])
                subscribed[session].discard(channel)
            case "disconnect":
                channels.disconnect(session)
                subscribed[session].clear()
            case _:
                take()
    take()
    assert received == expected
