"""Slots: where a name belongs, who serves it, and what a node loses by a change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.redis.cluster import (
    SLOTS,
    Cluster,
    ClusterShard,
    Node,
    SlotError,
    slot_of,
    slots_in,
)

OWN = Node("a" * 40, "10.0.0.1", 7000)
OTHER = Node("b" * 40, "10.0.0.2", 7001)
THIRD = Node("c" * 40, "10.0.0.3", 7002)
LAST = SLOTS - 1


def halves() -> Cluster:
    cluster = Cluster(OWN)
    cluster.configure([ClusterShard(OWN, ((0, 8191),)), ClusterShard(OTHER, ((8192, LAST),))])
    return cluster


@pytest.mark.parametrize(
    ("name", "slot"),
    [
        (b"123456789", 12739),
        (b"foo", 12182),
        (b"bar", 5061),
        (b"kostas", 2833),
        (b"", 0),
        (b"a", 15495),
        (b"{a}x", 15495),
        (b"{a}{b}", 15495),
        (b"x{a}y}", 15495),
        (b"{}x", 10595),
        (b"x{}", 2608),
        (b"{a", 10276),
        (b"{{a}}b", 10276),
        (b"a}", 5921),
    ],
)
def test_the_slots_of_names_are_those_of_redis(name: bytes, slot: int) -> None:
    """RESP-71."""
    assert slot_of(name) == slot


@given(st.binary())
def test_every_name_has_one_slot(name: bytes) -> None:
    """S002-69."""
    assert 0 <= slot_of(name) < SLOTS
    assert slot_of(name) == slot_of(bytes(bytearray(name)))


@given(st.binary(min_size=1).filter(lambda tag: b"}" not in tag), st.binary())
def test_names_with_the_same_tag_are_together(tag: bytes, rest: bytes) -> None:
    assert slot_of(b"{%b}%b" % (tag, rest)) == slot_of(b"{%b}" % tag)


def test_a_node_that_was_told_nothing_knows_only_itself() -> None:
    cluster = Cluster(OWN)
    assert not cluster.is_configured
    assert cluster.owner(0) is None
    assert cluster.assigned() == 0
    assert cluster.nodes() == [OWN]
    assert cluster.ranges() == []
    assert cluster.shards() == [ClusterShard(OWN, ())]


def test_a_configuration_says_who_owns_what() -> None:
    cluster = halves()
    assert cluster.is_configured
    assert cluster.owner(8191) == OWN
    assert cluster.owner(8192) == OTHER
    assert cluster.owns(0)
    assert not cluster.owns(LAST)
    assert cluster.assigned() == SLOTS
    assert cluster.ranges() == [(0, 8191, OWN), (8192, LAST, OTHER)]


def test_ranges_that_touch_are_one_and_a_node_may_have_several() -> None:
    cluster = Cluster(OWN)
    cluster.configure([ClusterShard(OWN, ((0, 1), (2, 3), (8, 8))), ClusterShard(OTHER, ((4, 7),))])
    assert cluster.ranges() == [(0, 3, OWN), (4, 7, OTHER), (8, 8, OWN)]
    assert cluster.shards() == [ClusterShard(OWN, ((0, 3), (8, 8))), ClusterShard(OTHER, ((4, 7),))]


def test_a_configuration_replaces_what_was_known_and_tells_what_was_lost() -> None:
    """S002-72."""
    cluster = halves()
    assert cluster.configure(
        [ClusterShard(OTHER, ((0, 99),)), ClusterShard(OWN, ((200, LAST),))]
    ) == {*range(200)}
    assert cluster.owner(150) is None
    assert cluster.configure([ClusterShard(OWN, ((0, LAST),))]) == set()
    assert cluster.nodes() == [OWN]


def test_a_node_that_a_configuration_does_not_name_loses_everything_but_is_there() -> None:
    cluster = halves()
    assert cluster.configure([ClusterShard(OTHER, ((0, LAST),))]) == {*range(8192)}
    assert cluster.nodes() == [OTHER, OWN]
    assert cluster.shards()[-1] == ClusterShard(OWN, ())


def test_a_node_learns_its_own_address() -> None:
    cluster = Cluster(OWN)
    moved = Node(OWN.id, "192.168.0.1", 9999)
    cluster.configure([ClusterShard(moved, ((0, LAST),))])
    assert cluster.own == moved
    assert cluster.owns(0)


def test_replicas_are_known_with_their_master() -> None:
    cluster = Cluster(OWN)
    cluster.configure([ClusterShard(OTHER, ((0, LAST),), (OWN, THIRD))])
    assert cluster.nodes() == [OTHER, OWN, THIRD]
    assert cluster.replicas(OTHER) == (OWN, THIRD)
    assert cluster.replicas(OWN) == ()
    assert not cluster.owns(0)


@pytest.mark.parametrize(
    ("shards", "reason"),
    [
        ([ClusterShard(OWN, ((0, 7), (7, 9)))], "Slot 7 specified multiple times"),
        (
            [ClusterShard(OWN, ((0, 7),)), ClusterShard(OTHER, ((3, 4),))],
            "Slot 3 specified multiple times",
        ),
        ([ClusterShard(OWN, ((5, 3),))], "start slot number 5 is greater than end slot number 3"),
        ([ClusterShard(OWN, ((0, SLOTS),))], "Invalid or out of range slot"),
        ([ClusterShard(OWN, ((-1, 5),))], "Invalid or out of range slot"),
        ([ClusterShard(OWN, ((0, 1),)), ClusterShard(OWN, ((2, 3),))], "named more than once"),
        (
            [ClusterShard(OWN, ((0, 1),), (THIRD,)), ClusterShard(OTHER, (), (THIRD,))],
            "named more than once",
        ),
    ],
)
def test_a_configuration_that_contradicts_itself_changes_nothing(
    shards: list[ClusterShard], reason: str
) -> None:
    cluster = halves()
    with pytest.raises(SlotError, match=reason):
        cluster.configure(shards)
    assert cluster.ranges() == halves().ranges()
    assert cluster.nodes() == [OWN, OTHER]


def test_slots_are_added_if_nobody_owns_them_all_or_none() -> None:
    cluster = Cluster(OWN)
    assert cluster.add_slots({3, 4}) == set()
    assert cluster.is_configured
    with pytest.raises(SlotError, match="Slot 4 is already busy"):
        cluster.add_slots({2, 4})
    assert cluster.ranges() == [(3, 4, OWN)]


def test_slots_are_deleted_if_somebody_owns_them_all_or_none() -> None:
    cluster = halves()
    assert cluster.delete_slots({8191, 8192}) == {8191}
    assert cluster.owner(8192) is None
    with pytest.raises(SlotError, match="Slot 8191 is already unassigned"):
        cluster.delete_slots({8190, 8191})
    assert cluster.owner(8190) == OWN


def test_a_slot_is_given_to_a_node_that_is_known() -> None:
    cluster = halves()
    assert cluster.set_slot(5, OTHER.id) == {5}
    assert cluster.owner(5) == OTHER
    assert cluster.set_slot(5, OTHER.id) == set()
    assert cluster.set_slot(5, OWN.id) == set()
    with pytest.raises(SlotError, match=f"Unknown node {THIRD.id}"):
        cluster.set_slot(5, THIRD.id)


slot = st.integers(0, LAST)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), slot, slot),
        st.tuples(st.just("delete"), slot, slot),
        st.tuples(st.just("give"), slot, slot),
    ),
    max_size=5,
)


def owned(cluster: Cluster) -> set[int]:
    return slots_in((first, last) for first, last, node in cluster.ranges() if node == OWN)


@given(changes)
@settings(max_examples=50, deadline=None)
def test_what_is_lost_is_what_was_owned_and_is_no_more(steps: list[tuple[str, int, int]]) -> None:
    cluster = halves()
    for verb, one, two in steps:
        before = owned(cluster)
        slots = slots_in([(min(one, two), min(max(one, two), min(one, two) + 50))])
        try:
            if verb == "add":
                lost = cluster.add_slots(slots)
            elif verb == "delete":
                lost = cluster.delete_slots(slots)
            else:
                lost = cluster.set_slot(one, (OWN, OTHER)[two % 2].id)
        except SlotError:
            lost = set()
        assert lost == before - owned(cluster)
        assert sum(last - first + 1 for first, last, _ in cluster.ranges()) == cluster.assigned()
