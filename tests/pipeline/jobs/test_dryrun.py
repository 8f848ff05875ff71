"""What would it have matched, and who would have lost what?"""

from __future__ import annotations

from pyspark.sql import SparkSession

from headgate.core import facts as f
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.expr.predicate import compile_expression
from headgate.pipeline.jobs.dryrun import Question, ask
from tests.support.spark_frames import frame

Q, R = QueueId(b"bmq://shop.orders/new"), QueueId(b"bmq://shop.orders/old")
ELSEWHERE = QueueId(b"bmq://bank.orders/new")
HIGH, LOW, GONE, OTHER = map(SessionId, (1, 2, 3, 4))


def accepted(at: float, queue: QueueId, **properties: int | str) -> f.Accepted:
    return f.Accepted(at, queue, MessageId(b"m"), 1, properties)


HISTORY: list[f.Fact] = [
    f.Interested(1.0, Q, "", HIGH, 0, 1, "x >= 5", 10),
    f.Interested(1.0, Q, "", LOW, 0, 1, None, 1),
    f.Interested(1.0, Q, "", GONE, 0, 1, "x >= 0", 99),
    f.Interested(1.0, R, "", OTHER, 0, 1, "x >= 0", 1),
    f.Unsubscribed(2.0, Q, "", GONE),
    accepted(5.0, Q, x=9),  # too early
    *(accepted(10.0 + x, Q, x=x) for x in range(10)),
    accepted(30.0, Q, x="text"),
    accepted(30.0, Q),
    accepted(30.0, R, x=8),
    accepted(30.0, ELSEWHERE, x=8),
]


def asked(spark: SparkSession, text: str, priority: int = 0) -> Question:
    return Question(compile_expression(text), "shop.orders", priority=priority, since=10.0)


def test_it_counts_matches_and_errors_and_shows_the_latest(spark: SparkSession) -> None:
    answer = ask(frame(spark, HISTORY), asked(spark, "100 / (x - 3) > 20"), samples=2)
    assert (answer.messages, answer.matched) == (13, 4)  # 4, 5, 6, 7
    assert answer.undecided == {"NAME": 1, "TYPE": 1, "ARITHMETIC": 1}
    assert [sample["properties"] for sample in answer.samples] == [{"x": 7}, {"x": 6}]


def test_a_higher_priority_takes_and_an_equal_one_shares(spark: SparkSession) -> None:
    facts = frame(spark, HISTORY)
    told = {
        priority: {
            other["session"]: (
                *(other[name] for name in ("both", "only_this", "only_new")),
                *(other[name] for name in ("gets", "loses", "shares")),
            )
            for other in ask(facts, asked(spark, "x >= 4", priority), samples=0).others
        }
        for priority in (20, 10, 1)
    }
    # Of x from 0 to 9 it matches six; with the two without a number there are twelve.
    assert told[20] == {
        HIGH: (5, 0, 1, 5, 5, 0),
        LOW: (6, 6, 0, 7, 1, 0),
        OTHER: (1, 0, 0, 1, 1, 0),
    }
    assert told[10] == {
        HIGH: (5, 0, 1, 5, 0, 5),
        LOW: (6, 6, 0, 7, 1, 0),
        OTHER: (1, 0, 0, 1, 1, 0),
    }
    assert told[1] == {HIGH: (5, 0, 1, 5, 0, 0), LOW: (6, 6, 0, 7, 0, 1), OTHER: (1, 0, 0, 1, 0, 1)}


def test_an_empty_history_has_an_answer(spark: SparkSession) -> None:
    answer = ask(frame(spark, HISTORY[:1]), asked(spark, "x > 1"))
    assert (answer.messages, answer.matched, answer.samples) == (0, 0, [])
