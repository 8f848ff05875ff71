"""Rosters: copied on change, exclusive or shared."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.delivery.registry import NOBODY, Registry
from headgate.core.model.ids import Channel, QueueId, SessionId
from tests.support.repository import SOURCE

A, B, C = SessionId(1), SessionId(2), SessionId(3)
NEWS = Channel(b"news")
QUEUE = QueueId(b"queue")


def shared(shards: int = 16) -> Registry[Channel, str]:
    return Registry(shards=shards)


def exclusive() -> Registry[QueueId, str]:
    return Registry(exclusive=True)


def test_a_roster_is_a_moment_that_later_changes_do_not_touch() -> None:
    """S002-2, S002-12: a reader goes on with the roster it has."""
    registry = shared()
    registry.subscribe(NEWS, A, "a")
    before = registry.roster(NEWS)
    registry.subscribe(NEWS, B, "b")
    assert dict(before) == {A: "a"}
    assert dict(registry.roster(NEWS)) == {A: "a", B: "b"}


def test_an_old_roster_goes_with_its_last_reader() -> None:
    """S002-15: nothing but the reader keeps it."""
    import gc
    import weakref

    registry: Registry[QueueId, str] = Registry(exclusive=True)

    class Watched(str):
        __slots__ = ("__weakref__",)

    subscription = Watched("a")
    gone = weakref.ref(subscription)
    registry.subscribe(QUEUE, A, subscription)
    reader = registry.roster(QUEUE)
    assert (len(reader), list(reader)) == (1, [A])
    del subscription
    assert list(registry.subscribe(QUEUE, B, "b")) == [A]
    gc.collect()
    assert gone() is not None
    del reader
    gc.collect()
    assert gone() is None


def test_unchanged_channels_keep_their_very_roster() -> None:
    """S002-13: changing one channel replaces one roster."""
    registry = shared(shards=1)
    other = Channel(b"other")
    registry.subscribe(other, A, "a")
    before = registry.roster(other)
    registry.subscribe(NEWS, B, "b")
    registry.subscribe(NEWS, C, "c")
    assert registry.roster(other) is before
    assert dict(registry.roster(NEWS)) == {B: "b", C: "c"}


def test_the_first_subscriber_inserts_a_channel_and_the_last_erases_it() -> None:
    """S002-14, S002-20, S002-21."""
    registry = shared()
    registry.subscribe(NEWS, A, "a")
    registry.subscribe(NEWS, B, "b")
    assert len(registry) == 1
    registry.unsubscribe(NEWS, A)
    assert dict(registry.roster(NEWS)) == {B: "b"}
    registry.unsubscribe(NEWS, B)
    assert len(registry) == 0
    assert registry.roster(NEWS) is NOBODY


def test_a_repeated_add_changes_nothing() -> None:
    """S002-18."""
    registry = shared()
    registry.subscribe(NEWS, A, "a")
    registry.subscribe(NEWS, A, "a")
    assert dict(registry.roster(NEWS)) == {A: "a"}


def test_one_of_several_is_removed_and_the_others_stay() -> None:
    """S002-19: in any order, down to the last, with what each subscribed."""
    registry = shared()
    for session, subscription in ((A, "a"), (B, "b"), (C, "c")):
        registry.subscribe(NEWS, session, subscription)
    assert registry.unsubscribe(NEWS, B)
    assert dict(registry.roster(NEWS)) == {A: "a", C: "c"}
    assert registry.unsubscribe(NEWS, A)
    assert dict(registry.roster(NEWS)) == {C: "c"}
    assert registry.unsubscribe(NEWS, C)
    assert (registry.count(NEWS), len(registry)) == (0, 0)


def test_removing_what_is_not_there_changes_nothing() -> None:
    """S002-22, S002-19."""
    registry = shared()
    assert not registry.unsubscribe(NEWS, A)
    registry.subscribe(NEWS, A, "a")
    assert not registry.unsubscribe(NEWS, B)
    assert dict(registry.roster(NEWS)) == {A: "a"}


def test_an_exclusive_address_has_one_session_and_says_whom_it_displaced() -> None:
    """S000-1."""
    registry = exclusive()
    assert not registry.subscribe(QUEUE, A, "a")
    assert dict(registry.subscribe(QUEUE, B, "b")) == {A: "a"}
    assert dict(registry.roster(QUEUE)) == {B: "b"}


def test_subscribing_again_displaces_nobody() -> None:
    """S000-14."""
    registry = exclusive()
    registry.subscribe(QUEUE, A, "a")
    assert not registry.subscribe(QUEUE, A, "again")
    assert dict(registry.roster(QUEUE)) == {A: "again"}


def test_a_removal_names_its_session_so_a_newer_one_stays() -> None:
    """S000-4, S000-77: the clean-up of an old session runs late."""
    registry = exclusive()
    registry.subscribe(QUEUE, A, "a")
    registry.subscribe(QUEUE, B, "b")
    assert not registry.unsubscribe(QUEUE, A)
    assert dict(registry.roster(QUEUE)) == {B: "b"}


def test_one_batch_of_changes_makes_one_copy_per_address() -> None:
    """S002-16: a name that comes twice in one command is changed once."""
    registry = shared()
    other = Channel(b"other")
    for session in (B, C):
        registry.change(session, add=[(NEWS, "b"), (other, "b")])
    seen = registry.roster(NEWS), registry.roster(other)
    registry.change(A, add=[(NEWS, "a"), (other, "a"), (NEWS, "a")])
    assert registry.copied == sum(map(len, seen)) == 4


@pytest.mark.parametrize("looks", [1, 10])
def test_a_crowd_is_copied_once_for_each_look_and_not_for_each_member(looks: int) -> None:
    """Coming and going cost their number, however many are there."""
    counts = []
    for size in (1000, 8000):
        registry = shared()
        sessions = [SessionId(number) for number in range(size)]
        for number, session in enumerate(sessions):
            registry.subscribe(NEWS, session, "s")
            if number % (size // looks) == 0:
                registry.roster(NEWS)
        for number, session in enumerate(sessions):
            registry.unsubscribe(NEWS, session)
            if number % (size // looks) == 0:
                registry.roster(NEWS)
        counts.append(registry.copied)
        assert registry.copied <= 2 * looks * size
    assert counts[1] <= 8 * (counts[0] + looks)


def test_a_roster_that_nobody_has_seen_is_not_copied() -> None:
    """S002-2, S002-11, S002-12, S002-19: asking who or how many is not seeing it. What was seen is
    copied once, and stays as it was."""
    registry = shared()
    for number in range(100):
        registry.subscribe(NEWS, SessionId(number), "s")
        assert registry.count(NEWS) == number + 1
        assert registry.has(NEWS, SessionId(number))
    assert registry.copied == 0
    seen = registry.roster(NEWS)
    assert registry.roster(NEWS) is seen
    registry.unsubscribe(NEWS, SessionId(7))
    assert registry.copied == 100
    registry.unsubscribe(NEWS, SessionId(8))
    assert registry.copied == 100
    assert len(seen) == 100
    assert registry.count(NEWS) == 98


def test_adding_wins_over_removing_in_one_batch() -> None:
    registry = shared()
    registry.change(A, add=[(NEWS, "a")], remove=[NEWS])
    assert dict(registry.roster(NEWS)) == {A: "a"}


def test_clearing_addresses_says_who_was_there() -> None:
    registry = shared()
    registry.subscribe(NEWS, A, "a")
    cleared = registry.clear([NEWS, Channel(b"nobody")])
    assert {address: dict(roster) for address, roster in cleared.items()} == {NEWS: {A: "a"}}
    assert len(registry) == 0


def test_every_change_is_announced_before_it_is_made() -> None:
    seen: list[int] = []
    registry: Registry[Channel, str] = Registry(
        before_change=lambda: seen.append(len(registry.roster(NEWS)))
    )
    registry.subscribe(NEWS, A, "a")
    registry.subscribe(NEWS, B, "b")
    registry.unsubscribe(NEWS, A)
    registry.restore(NEWS, NOBODY)  # type: ignore[arg-type]
    registry.clear([NEWS])
    assert seen == [0, 1, 2, 1, 0]


def test_the_registry_has_sixteen_shards_unless_told_otherwise() -> None:
    """S002-7, S002-3: a change of one address touches one shard."""
    registry: Registry[Channel, str] = Registry()
    names = [Channel(b"%d" % n) for n in range(200)]
    registry.change(A, add=[(name, "a") for name in names])
    assert len(registry._shards) == 16
    before = [{name: len(roster) for name, roster in shard.items()} for shard in registry._shards]
    registry.subscribe(names[0], B, "b")
    after = [{name: len(roster) for name, roster in shard.items()} for shard in registry._shards]
    changed = [old != new for old, new in zip(before, after, strict=True)]
    assert sum(changed) == 1


def test_nobody_but_the_registry_looks_inside_it() -> None:
    """S000-5: rosters are reached through its methods only."""
    package = SOURCE
    inside = {"_shards", "_own"}
    for module in package.rglob("*.py"):
        if module.name == "registry.py":
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr in inside), module


def test_an_exclusive_roster_reads_like_any_other() -> None:
    registry = exclusive()
    registry.subscribe(QUEUE, A, "a")
    roster = registry.roster(QUEUE)
    assert list(roster) == [A]
    assert len(roster) == 1
    assert roster.get(B) is None
    assert A in roster


addresses = st.sampled_from([Channel(b"%d" % n) for n in range(5)])
sessions = st.sampled_from([A, B, C])
changes = st.lists(
    st.tuples(
        sessions,
        st.lists(st.tuples(addresses, st.text(max_size=2)), max_size=4),
        st.lists(addresses, max_size=4),
    ),
    max_size=20,
)


@given(changes, st.booleans(), st.sampled_from([1, 3, 16]))
def test_any_interleaving_of_changes_equals_a_dictionary(
    interleaving: list[tuple[SessionId, list[tuple[Channel, str]], list[Channel]]],
    is_exclusive: bool,
    shards: int,
) -> None:
    """S000-1, S002-17: whatever the number of shards, and with additions, removals, first and
    last subscribers in one change."""
    registry: Registry[Channel, str] = Registry(exclusive=is_exclusive, shards=shards)
    model: dict[Channel, dict[SessionId, str]] = {}
    for session, add, remove in interleaving:
        displaced = registry.change(session, add=add, remove=remove)
        expected: dict[Channel, dict[SessionId, str]] = {}
        for address in dict.fromkeys(remove):
            if address not in dict(add):
                model.get(address, {}).pop(session, None)
        for address, subscription in dict(add).items():
            roster = model.setdefault(address, {})
            if is_exclusive and session not in roster:
                if roster:
                    expected[address] = dict(roster)
                roster.clear()
            roster[session] = subscription
        assert {a: dict(r) for a, r in displaced.items()} == expected
        for address in [Channel(b"%d" % n) for n in range(5)]:
            assert dict(registry.roster(address)) == model.get(address, {})
        assert set(registry) == {address for address, roster in model.items() if roster}
        assert len(registry) == len(set(registry))
