"""Checks of the tables find what does not add up; that they find nothing else is seen with the
commands."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.ids import AppId, MessageId, QueueId, ServiceId, SessionId
from headgate.pipeline.jobs.checks import checks
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.keeper import Keeper
from tests.support.journals import facts_of_a_day
from tests.support.spark_frames import frame

FACTS = facts_of_a_day(20)
QUEUE, APP = QueueId(b"bmq://d/q"), AppId("")


def wrong(spark: SparkSession, archive: Archive, unreadable: int = 0) -> dict[str, tuple[int, int]]:
    rows = checks(spark, archive, unreadable).where("not is_right").collect()
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
