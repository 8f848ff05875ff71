"""Count and XOR hash of a set of queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.names import QueueId
from headgate.core.tally import NOTHING, Drift, Tally

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
