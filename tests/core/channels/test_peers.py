"""What other workers hear: once for each link, with the counts that they told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.channels.audience import BARE, Framing, Kind
from headgate.core.channels.channels import Channels
from headgate.core.channels.peers import InterestChange, Name, Peers
from headgate.core.delivery.mailbox import Budget
from headgate.core.model.glob import Glob
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits

A, B = SessionId(1), SessionId(2)
ONE, TWO = SessionId(101), SessionId(102)
EXACT, PATTERN, SHARDED = Kind.EXACT, Kind.PATTERN, Kind.SHARDED

CHANNELS = (b"news", b"new", b"x")
NAMES: tuple[Name, ...] = tuple(
    [(EXACT, name) for name in CHANNELS]
    + [(SHARDED, name) for name in CHANNELS]
    + [(PATTERN, name) for name in (b"n*", b"*", b"ne?s")]
)


class Sent:
    """The form of a link: the command that publishes."""

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        return Framing(lambda size: b"<" + channel + b" ", b">")


def linked() -> tuple[Channels, Peers]:
    channels = Channels(Limits())
    peers = Peers(Sent(), lambda session, kind, names: None, channels.subscribers_here)
    channels.link_up(peers)
    for link in (ONE, TWO):
        peers.join(link)
    return channels, peers


def change(channels: Channels, peers: Peers, link: SessionId, *changes: InterestChange) -> None:
    channels.before_peers_change()
    peers.change(link, changes)


def heard(channels: Channels) -> dict[SessionId, bytes]:
    received: dict[SessionId, bytes] = {}
    for blob, sessions, _ in channels.take():
        for session in sessions:
            received[session] = received.get(session, b"") + blob
    return received


def test_a_worker_is_told_once_whatever_it_hears_it_by() -> None:
    """S002-8: it is known which workers have subscribers, and how many."""
    channels, peers = linked()
    named = InterestChange(EXACT, b"news", 3), InterestChange(PATTERN, b"n*", 2)
    change(channels, peers, ONE, *named)
    assert channels.publish_one(EXACT, b"news", b"1") == 5
    assert channels.publish_one(EXACT, b"new", b"2") == 2
    assert channels.publish_one(EXACT, b"x", b"3") == 0
    assert channels.publish_one(SHARDED, b"news", b"4") == 0
    assert heard(channels) == {ONE: b"<news 1><new 2>"}


def test_sessions_here_and_workers_elsewhere_are_counted_together() -> None:
    channels, peers = linked()
    channels.subscribe(A, EXACT, [b"news"], BARE)
    change(channels, peers, ONE, InterestChange(EXACT, b"news", 2))
    change(channels, peers, TWO, InterestChange(EXACT, b"news", 1))
    assert channels.publish_all(EXACT, b"news", [b"1", b"2"]) == 4
    assert heard(channels) == {A: b"12", ONE: b"<news 1><news 2>", TWO: b"<news 1><news 2>"}
    assert channels.subscribers(EXACT, b"news") == 4
    assert channels.subscribers_here(EXACT, b"news") == 1


def test_names_are_those_of_all_workers_each_once() -> None:
    channels, peers = linked()
    channels.subscribe(A, PATTERN, [b"n*", b"a*"], BARE)
    change(channels, peers, ONE, InterestChange(PATTERN, b"n*", 2))
    change(channels, peers, TWO, InterestChange(PATTERN, b"z*", 1))
    assert sorted(channels.names(PATTERN)) == [b"a*", b"n*", b"z*"]
    assert channels.count(PATTERN) == 3


def test_what_came_from_another_worker_goes_to_sessions_here_only() -> None:
    channels, peers = linked()
    channels.subscribe(A, EXACT, [b"news"], BARE)
    channels.subscribe(B, PATTERN, [b"n*"], BARE)
    change(channels, peers, ONE, InterestChange(EXACT, b"news", 1))
    channels.deliver(EXACT, b"news", [b"1", b"2"])
    channels.deliver(EXACT, b"other", [b"3"])
    assert heard(channels) == {A: b"12", B: b"12"}
    assert channels.totals() == (0, 0)  # counted where it was published


def test_what_was_published_before_a_worker_heard_it_is_not_for_it() -> None:
    channels, peers = linked()
    channels.publish_one(EXACT, b"news", b"1")
    change(channels, peers, ONE, InterestChange(EXACT, b"news", 1))
    channels.publish_one(EXACT, b"news", b"2")
    change(channels, peers, ONE, InterestChange(EXACT, b"news", 0))
    channels.publish_one(EXACT, b"news", b"3")
    assert heard(channels) == {ONE: b"<news 2>"}


def test_a_worker_that_is_gone_hears_nothing() -> None:
    channels, peers = linked()
    change(channels, peers, ONE, *(InterestChange(kind, name, 1) for kind, name in NAMES))
    channels.before_peers_change()
    peers.leave(ONE)
    while peers.is_cluttered:
        peers.clear_away(2)
    assert channels.publish_one(EXACT, b"news", b"1") == 0
    assert not any(list(channels.names(kind)) for kind in Kind)


def test_a_session_elsewhere_that_is_full_is_waited_for_by_name() -> None:
    """S002-58, S002-61: those wait who publish to it, and nobody else."""
    channels, peers = linked()
    budget = Budget(1 << 20, 1 << 10, 1 << 12)
    peers.block(ONE, B, (PATTERN, b"n*"), budget)
    peers.block(ONE, B, (EXACT, b"x"), budget)
    assert channels.blocker(EXACT, b"news", budget) == B
    assert channels.blocker(EXACT, b"x", budget) == B
    assert channels.blocker(EXACT, b"y", budget) is None
    assert channels.blocker(SHARDED, b"x", budget) is None
    assert not channels.has_room(EXACT, [b"news"], 1, budget)
    assert peers.blocking_of(ONE) == [B]
    assert peers.ease(B, budget)
    assert not peers.ease(B, budget)
    assert channels.blocker(EXACT, b"news", budget) is None
    assert not budget.stuck


def test_a_link_that_is_full_is_waited_for_by_what_it_hears() -> None:
    channels, peers = linked()
    budget = Budget(1 << 20, 1 << 10, 1 << 12)
    change(channels, peers, ONE, InterestChange(EXACT, b"news", 1))
    peers.block(TWO, ONE, (SHARDED, b"-"), budget)  # as its own mailbox would be
    assert channels.blocker(EXACT, b"news", budget) == ONE
    assert channels.blocker(EXACT, b"x", budget) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from((ONE, TWO)), st.sampled_from(NAMES), st.integers(0, 3), st.booleans()
        )
    )
)
def test_whatever_is_told_counts_are_the_sums_of_what_was_told_last(
    told: list[tuple[SessionId, Name, int, bool]],
) -> None:
    channels, peers = linked()
    model: dict[tuple[SessionId, Name], int] = {}
    for link, (kind, name), count, leaves in told:
        if leaves:
            channels.before_peers_change()
            peers.leave(link)
            peers.clear_away(len(NAMES))
            peers.join(link)
            model = {key: n for key, n in model.items() if key[0] != link}
        change(channels, peers, link, InterestChange(kind, name, count))
        model[link, (kind, name)] = count
        for channel in CHANNELS:
            matching = {
                (of, each): n
                for (of, (kind, each)), n in model.items()
                if n
                and (
                    (kind is EXACT and each == channel)
                    or (kind is PATTERN and Glob(each).matches(channel))
                )
            }
            assert channels.publish_one(EXACT, channel, b".") == sum(matching.values())
            assert set(heard(channels)) == {of for of, _ in matching}
            sharded = {of: n for (of, key), n in model.items() if key == (SHARDED, channel) and n}
            assert channels.publish_one(SHARDED, channel, b".") == sum(sharded.values())
            assert set(heard(channels)) == set(sharded)


@given(st.lists(st.tuples(st.sampled_from((A, ONE, TWO)), st.sampled_from(NAMES), st.booleans())))
def test_a_name_is_counted_once_wherever_its_subscribers_are(
    steps: list[tuple[SessionId, Name, bool]],
) -> None:
    channels, peers = linked()
    for who, (kind, name), is_subscribed in steps:
        if who != A:
            change(channels, peers, who, InterestChange(kind, name, int(is_subscribed)))
        elif is_subscribed:
            channels.subscribe(A, kind, [name], BARE)
        else:
            channels.unsubscribe(A, kind, [name])
        for each in Kind:
            names = [*channels.names(each)]
            assert len({*names}) == len(names) == channels.count(each)
