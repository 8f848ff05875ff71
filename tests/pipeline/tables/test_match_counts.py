"""What became of messages, by those who wanted them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core import facts as f
from headgate.core.model.ids import MessageId, SessionId
from headgate.core.model.message import PropertyValue
from headgate.journal.codec import encode_facts
from headgate.journal.sealer import _table
from headgate.pipeline.tables import match_counts
from headgate.pipeline.tables.match_counts import plain
from headgate.pipeline.tables.wishes import Wishes
from tests.support.journals import told
from tests.support.spark_frames import frame, rows
from tests.support.wishes import OTHER, Q, leaves, wants

M = MessageId(b"m1")
ONE, TWO = SessionId(1), SessionId(2)


def test_properties_are_told_as_they_were_sent() -> None:
    arrow: list[tuple[str, dict[str, Any]]] = [
        ("i", {"i": 0, "s": None, "b": None}),
        ("s", {"i": None, "s": "", "b": None}),
        ("b", {"i": None, "s": None, "b": False}),
    ]
    assert plain(arrow) == {"i": 0, "s": "", "b": False}
    assert plain(None) == {}


def test_messages_are_judged_by_those_who_were_there_when_they_came(spark: SparkSession) -> None:
    accepted = frame(
        spark,
        [
            f.Accepted(3600.0, Q, M, 1, {"x": 5}),  # 1: nobody yet
            f.Accepted(3600.0, Q, M, 1, {"x": 5}),  # 2
            f.Accepted(3600.0, Q, M, 1, {"x": 0}),  # 3
            f.Accepted(3600.0, Q, M, 1, {"x": "five"}),  # 4
            f.Accepted(3600.0, Q, M, 1, {}),  # 5
            f.Accepted(7200.0, Q, M, 1, {"x": 5}),  # 6: an hour later
            f.Accepted(7200.0, Q, M, 1, {"x": 5}),  # 7: it has left
            f.Accepted(3600.0, OTHER, M, 1, {"x": 5}),  # 8: another queue
        ],
    )
    wishes = Wishes()
    wishes.follow([*wants(2, 1, "10 / x > 1"), *leaves(7, 1)])
    counted = match_counts.count(accepted, wishes)
    whole = match_counts.whole(counted.unionAll(counted.where(F.lit(False))))
    assert rows(whole, "hour", "address", "expression", *match_counts.RESULTS) == [
        (whole.collect()[0].hour.replace(hour=hour), Q.decode(), "10 / x > 1", *results)
        for hour, results in ((1, (1, 0, 1, 1, 1)), (2, (1, 0, 0, 0, 0)))
    ]


TEXTS = (
    "x > 3",
    "x > 7 && y == 2",
    'x / y > 1 || s == "a"',
    's >= "b"',
    "!b",
    "exists(s) && b",
    "x + 9223372036854775807 > 0",
    's == "\u00e4" || x == 1',
)


def test_spark_and_the_routers_own_evaluator_count_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(3)
    given: dict[str, list[PropertyValue | None]] = {
        "x": [-1, 0, 1, 5, 9, "five", None],
        "y": [0, 2, True, None],
        "s": ["a", "b", "\u00e4", 7, None],
        "b": [True, False, "b", None],
    }
    messages = []
    for n in range(200):
        chosen = {name: draw.choice(values) for name, values in given.items()}
        properties = {name: it for name, it in chosen.items() if it is not None}
        messages.append(f.Accepted(60.0 * n, draw.choice((Q, OTHER)), M, 1, properties))
    accepted = frame(spark, messages)
    wishes = Wishes()
    wishes.follow(wants(1, 1, *TEXTS))
    wishes.follow([*wants(60, 2, "x > 5", "nonsense ==", queue=OTHER), *leaves(150, 1)])
    wishes.follow(wants(170, 1, "x > 3"))

    def counted(count: DataFrame) -> list[tuple[Any, ...]]:
        whole = match_counts.whole(count)
        return rows(whole, "hour", "address", "expression", *match_counts.RESULTS)

    held = accepted.toArrow()
    here = counted(match_counts.count_few(held, accepted, wishes))
    by_spark = counted(match_counts.count(accepted, wishes))
    monkeypatch.setattr(match_counts, "PAIRS_FEW", 10)
    monkeypatch.setattr(match_counts, "CODE_MAX", 1_500)
    by_both = counted(match_counts.count_few(held, accepted, wishes))
    monkeypatch.setattr(match_counts, "CODE_MAX", 0)
    assert here == by_spark == by_both == counted(match_counts.count(accepted, wishes))
    assert {row[2] for row in by_spark} == {*TEXTS, "x > 5"}
    assert all(any(row[place] for row in by_spark) for place in range(3, 8)), "every answer"


def test_properties_are_converted_once_for_a_message_however_many_expressions_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D5: they were converted for each pair."""
    converted: list[object] = []

    def counted(properties: Any) -> Any:  # noqa: ANN401
        converted.append(properties)
        return plain(properties)

    monkeypatch.setattr(match_counts, "plain", counted)
    facts = [f.Accepted(1.0, queue, M, 1, {"x": 5}) for queue in (Q, OTHER)]
    rows = [(n, n, encode_facts([told(fact)])) for n, fact in enumerate(facts, 1)]
    batch = _table(rows).select(["number", "at", "queue", "properties"]).to_batches()
    wanted: list[tuple[str, str, list[tuple[int, int | None]]]] = [
        ("", f"x > {n}", [(0, None)]) for n in range(10)
    ]
    (counts,) = match_counts.judged(batch, {Q: wanted})
    assert sum(counts["matched"].to_pylist()) == 5
    assert sum(counts["missed"].to_pylist()) == 5
    assert len(converted) == 1, "and not at all where nobody asks"
