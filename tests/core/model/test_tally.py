"""Count and XOR hash of a set of queues."""

from __future__ import annotations

from hashlib import md5
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.drift import Drift
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import NOTHING, Tally
from tests.support.exclusive_queues import Q1, Q2, Q3

A = QueueId(bytes(range(0x40, 0x58)))
B = QueueId(bytes(range(0x60, 0x78)))

queues = st.sets(st.binary(max_size=24).map(QueueId), max_size=20)


def test_the_hash_is_the_xor_of_the_md5_of_the_ids() -> None:
    """S001-37."""
    assert Tally.of([A]).hash.hex() == "408bf8bbb5cca1467fa19699b9c451b1"
    assert Tally.of([B]).hash.hex() == "2d1add89918afc18fa77589648bd09c8"
    assert Tally.of([A, B]).hash.hex() == "6d91253224465d5e85d6ce0ff1795879"


def test_nothing_has_sixteen_zero_bytes() -> None:
    """S001-37."""
    assert NOTHING.hash == bytes(16)
    assert NOTHING.count == 0


def test_equal_hashes_with_different_counts_are_drift() -> None:
    """S001-39."""
    kept = Tally(2, 5)
    assert kept.drift(Tally(3, 5)) is Drift.FEWER
    assert kept.drift(Tally(1, 5)) is Drift.MORE
    assert kept.drift(Tally(2, 6)) is Drift.DIFFERENT
    assert kept.drift(Tally(2, 5)) is Drift.NONE


def test_a_tally_survives_its_bytes() -> None:
    tally = Tally.of([A, B])
    assert Tally.parse(tally.count, tally.hash) == tally


@given(st.permutations(sorted({b"a", b"b", b"c", b"d", b"e"})))
def test_the_tally_does_not_depend_on_order(order: list[bytes]) -> None:
    """S001-38."""
    names = [QueueId(name) for name in order]
    assert Tally.of(names) == Tally.of(sorted(names))


@given(queues, queues)
def test_adding_and_removing_cancel_out(kept: set[QueueId], passing: set[QueueId]) -> None:
    """S001-38."""
    tally = Tally.of(kept)
    for queue in passing:
        tally = tally.plus(queue)
    for queue in sorted(passing):
        tally = tally.minus(queue)
    assert tally == Tally.of(kept)


@given(queues, queues)
def test_the_tally_of_two_sets_is_the_join_of_theirs(a: set[QueueId], b: set[QueueId]) -> None:
    assert Tally.of(a).join(Tally.of(b - a)) == Tally.of(a | b)


def test_the_hash_of_a_set_is_the_xor_of_the_md5_of_its_ids() -> None:
    """S001-37: 16 bytes; the empty set has 16 zero bytes. The example is that of the spec."""
    one, two = QueueId(bytes(range(0x40, 0x58))), QueueId(bytes(range(0x60, 0x78)))
    assert NOTHING.hash == bytes(16)
    assert Tally.of([]) == NOTHING
    assert Tally.of([one]).hash.hex() == "408bf8bbb5cca1467fa19699b9c451b1"
    assert Tally.of([two]).hash.hex() == "2d1add89918afc18fa77589648bd09c8"
    assert Tally.of([one, two]).hash.hex() == "6d91253224465d5e85d6ce0ff1795879"
    assert Tally.parse(2, Tally.of([one, two]).hash) == Tally.of([one, two])


ids = st.binary(max_size=30).map(QueueId)


@given(st.lists(ids, unique=True, max_size=20), st.randoms())
def test_the_tally_of_a_set_does_not_depend_on_its_order(
    members: list[QueueId], shuffle: Random
) -> None:
    """S001-37, S001-38: adding and removing are the same operation on the hash."""
    expected = 0
    for member in members:
        expected ^= int.from_bytes(md5(member).digest(), "big")
    tally = Tally.of(members)
    assert (tally.count, tally.hash) == (len(members), expected.to_bytes(16, "big"))
    shuffled = members[:]
    shuffle.shuffle(shuffled)
    assert Tally.of(shuffled) == tally
    for member in shuffled:
        assert tally.plus(QueueId(member + b"new")).minus(QueueId(member + b"new")) == tally
        tally = tally.minus(member)
        assert tally.plus(member).hash == Tally.of([member]).join(tally).hash
    assert tally == NOTHING


def test_drift_is_judged_on_count_and_hash_together() -> None:
    """S001-39: equal hashes with different counts are drift."""
    kept = Tally.of([Q1, Q2])
    assert kept.drift(Tally.of([Q2, Q1])) is Drift.NONE
    assert kept.drift(Tally.of([Q1])) is Drift.MORE
    assert kept.drift(Tally.of([Q1, Q2, Q3])) is Drift.FEWER
    assert kept.drift(Tally.of([Q1, Q3])) is Drift.DIFFERENT
    assert kept.drift(Tally(3, kept.xor)) is Drift.FEWER
    assert kept.drift(Tally(1, kept.xor)) is Drift.MORE
