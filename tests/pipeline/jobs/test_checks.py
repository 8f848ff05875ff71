"""Checks of the tables find what does not add up; that they find nothing else is seen with the
commands."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.ids import AppId, MessageId, QueueId, ServiceId, SessionId
from headgate.pipeline.jobs.checks import Kept, checks
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.keeper import Keeper
from tests.support.journals import facts_of_a_day
from tests.support.spark_frames import frame

FACTS = facts_of_a_day(20)
QUEUE, APP = QueueId(b"bmq://d/q"), AppId("")


def wrong(
    spark: SparkSession, archive: Archive, unreadable: int = 0, kept: Kept | None = None
) -> dict[str, tuple[int, int]]:
    rows = checks(spark, archive, unreadable, kept).where("not is_right").collect()
    return {row.check: (row.expected, row.found) for row in rows}


def test_what_does_not_add_up_is_found(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    message = MessageId(b"m")
    strange: list[Fact] = [
        f.Confirmed(1.0, QUEUE, APP, message, SessionId(1), 0.1, 0.1),
        f.Confirmed(2.0, QUEUE, APP, message, SessionId(1), 0.1, 0.1),
        f.ServiceSubscribed(3.0, ServiceId(b"s"), SessionId(1), 7, "more"),
    ]
    Keeper(str(tmp_path))(frame(spark, [*FACTS, *strange]), 0)
    taken = archive.state().table("messages")
    archive.commit({}, {"messages": [file.path for file in taken]})
    accepted = sum(isinstance(fact, f.Accepted) for fact in FACTS)
    found = wrong(spark, archive, unreadable=1)
    assert found.pop("what ended was accepted")[1] > 2
    assert found == {
        "no segment was left out": (0, 1),
        "a row for each fact": (accepted, 0),
        "a message ends once": (0, 1),
        "tallies of services agree": (0, 1),
    }


def test_messages_that_the_store_and_the_facts_do_not_agree_on_are_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What was accepted is what has ended and what waits, and a store says what waits."""
    emptied = QueueId(b"bmq://d/emptied")

    def came(name: bytes, queue: QueueId = QUEUE) -> Fact:
        return f.Accepted(1.0, queue, MessageId(name), 1, {})

    def ended(name: bytes, app: str = "") -> Fact:
        return f.Confirmed(2.0, QUEUE, AppId(app), MessageId(name), SessionId(1), 0.1, 0.1)

    told: list[Fact] = [
        *(came(name) for name in (b"waits", b"half", b"history", b"done", b"again")),
        *(ended(name, app) for name in (b"half", b"history") for app in ("a", "b")),
        *(ended(name) for name in (b"done", b"again")),
        came(b"again"),
        came(b"together", emptied),
        f.QueueDeleted(3.0, emptied, 1),
    ]
    stored = {"waits": '[""]', "half": '["b"]', "history": "[]", "again": '[""]'}
    later: list[Fact] = [came(b"later"), ended(b"waits")]

    def kept() -> Kept:
        rows = [(QUEUE, name.encode(), apps) for name, apps in stored.items()]
        held = spark.createDataFrame(rows, "queue binary, message binary, apps string")
        return Kept(held, len(told))

    Keeper(str(tmp_path))(frame(spark, [*told, *later]), 0)
    archive = Archive(str(tmp_path))
    assert wrong(spark, archive, kept=kept()) == {}
    del stored["waits"]
    stored |= {"done": '[""]', "unknown": '["a"]'}
    assert wrong(spark, archive, kept=kept()) == {
        "what is accepted is stored until it ends": (0, 1),
        "what has ended does not wait": (0, 1),
        "what the store has was accepted": (0, 1),
    }
