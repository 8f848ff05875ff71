"""What routing does on executors: asking expressions, and deciding."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from headgate.errors import PipelineError
from headgate.pipeline.routing import matcher
from headgate.pipeline.routing.matcher import EVERY, Decisions, asked
from headgate.pipeline.routing.subscriptions import Filter, Subscription, Subscriptions

TEXTS = ((1, "x > 5"), (2, "!exists(s)"), (3, 's < "m"'), (4, "x == 7"))


def batch(numbers: Sequence[int], xs: Sequence[int | None], texts: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(len(numbers)), pa.int64()),
            pa.array(numbers, pa.int32()),
            pa.array([f"k{place}" for place in range(len(numbers))]),
            pa.array(xs, pa.int64()),
            texts,
        ],
        names=["mark", "expression", "key", "p0", "p1"],
    )


def test_what_matches_comes_after_its_message() -> None:
    rows = batch(
        [EVERY, EVERY, 9, EVERY], [7, None, None, 6], pa.array([None, "a", None, "z"], pa.string())
    )
    (found,) = asked([rows], TEXTS, ["x", "s"])
    assert found.schema.names == ["mark", "expression", "key"]
    assert found.schema.field("expression").type == pa.int32()
    assert list(zip(found["key"].to_pylist(), found["expression"].to_pylist(), strict=True)) == [
        ("k0", EVERY), ("k0", 1), ("k0", 2), ("k0", 4), ("k1", EVERY), ("k1", 3), ("k2", 9),
        ("k3", EVERY), ("k3", 1),
    ]  # fmt: skip


def test_a_property_may_have_columns_of_several_types() -> None:
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([EVERY] * 3, pa.int32()),
            pa.array([7, None, None], pa.int64()),
            pa.array([None, "7", None]),
            pa.array([None, None, True]),
        ],
        names=["expression", "p0_i", "p0_s", "p0_b"],
    )
    texts = ((1, "x == 7"), (2, 'x == "7"'), (3, "x"), (4, "exists(x)"))
    (found,) = asked([rows], texts, ["x", "x", "x"])
    assert found["expression"].to_pylist() == [EVERY, 1, 4, EVERY, 2, 4, EVERY, 3, 4]


def test_text_that_is_not_utf_8_is_compared_by_its_bytes() -> None:
    broken = pa.array([b"\x80", b"l"], pa.binary()).view(pa.string())
    rows = batch([EVERY, EVERY], [1, 1], broken)
    (found,) = asked([rows], ((1, 's == "\udc80"'), (2, 's < "m"')), ["x", "s"])
    assert found["expression"].to_pylist() == [EVERY, 1, EVERY, 2]


def test_an_index_is_built_once_per_worker() -> None:
    assert matcher.index_of(TEXTS) is matcher.index_of(tuple(TEXTS))


# Deciding.

SUBSCRIPTIONS = Subscriptions(
    [
        Subscription("low", "", "x", 1),
        Subscription("first", "", "a", 2),
        Subscription("second", "", "b", 2),
        Subscription("third", "", "a", 2),
        Subscription("never", "", "a", 1),
        Subscription("all", "audit", None, -1),
        Subscription("some", "audit", "a", 0),
    ],
    [Filter("audit", "x"), Filter("audit", "b"), Filter("bare", "a")],
)
NUMBERS: dict[str | None, int] = {None: EVERY, "x": 1, "a": 2, "b": 3}


def rows(*messages: Sequence[int], first: int = 0) -> pa.RecordBatch:
    """Each message has the expressions that match it."""
    numbers = [[EVERY, *each] for each in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([first + n for n, each in enumerate(numbers) for _ in each], pa.int64()),
            pa.array([number for each in numbers for number in each], pa.int32()),
            pa.array([f"k{first + n}" for n, each in enumerate(numbers) for _ in each]),
        ],
        names=["mark", "expression", "key"],
    )


def decided(*batches: pa.RecordBatch) -> list[tuple[object, ...]]:
    found = Decisions(SUBSCRIPTIONS, NUMBERS).decided(batches)
    return [tuple(row.values()) for each in found for row in each.to_pylist()]


def test_a_message_is_decided_for_each_app() -> None:
    assert decided(rows([], [1], [2, 3, 1])) == [
        ("k0", "", "put-aside", None, []),
        ("k0", "audit", "auto-confirmed", None, []),
        ("k0", "bare", "auto-confirmed", None, []),
        ("k1", "", "routed", 1, ["low"]),
        ("k1", "audit", "routed", -1, ["all"]),
        ("k1", "bare", "auto-confirmed", None, []),
        ("k2", "", "routed", 2, ["first", "third", "second"]),
        ("k2", "audit", "routed", 0, ["some"]),
        ("k2", "bare", "put-aside", None, []),
    ]


def test_the_order_of_what_matches_does_not_matter() -> None:
    assert decided(rows([3, 1, 2])) == decided(rows([1, 2, 3]))


def test_a_message_may_begin_in_one_batch_and_end_in_another() -> None:
    whole = rows([1], [1, 2, 3], [], [2])
    for size in range(1, whole.num_rows + 1):
        cut = [whole.slice(at, size) for at in range(0, whole.num_rows, size)]
        assert decided(*cut) == decided(whole)


def test_many_apps_are_decided_a_few_messages_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows([1], [1, 2, 3], [], [2])
    expected = decided(whole)
    monkeypatch.setattr(matcher, "DECIDED", 6)
    assert decided(whole) == expected
    found = Decisions(SUBSCRIPTIONS, NUMBERS).decided([whole])
    assert [each.num_rows for each in found] == [6, 3, 3], "the last message might go on"


def test_nothing_is_decided_without_messages_or_apps() -> None:
    assert decided(rows()) == []
    assert list(Decisions(Subscriptions(), {None: EVERY}).decided([rows([], [])])) == []


def test_rows_that_came_apart_are_noticed() -> None:
    astray = pa.RecordBatch.from_arrays(
        [pa.array([0, 1, 0]), pa.array([EVERY, EVERY, 1], pa.int32()), pa.array(["a", "b", "a"])],
        names=["mark", "expression", "key"],
    )
    with pytest.raises(PipelineError, match="came apart"):
        decided(astray)
    with pytest.raises(PipelineError, match="came apart"):
        decided(rows([1]).slice(1))
