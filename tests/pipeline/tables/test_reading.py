"""Tables of several routers, read as one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.core import facts as f
from headgate.core.model.ids import MessageId, QueueId
from headgate.errors import PipelineError
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.keeper import Keeper
from headgate.pipeline.tables.manifests import Batch
from headgate.pipeline.tables.reading import name_together, roots_of
from headgate.pipeline.tables.tables import TABLES
from tests.support.spark_frames import frame

QUEUE = QueueId(b"bmq://d/q")


def test_rows_of_several_routers_say_whose_they_are(spark: SparkSession, tmp_path: Path) -> None:
    roots = {"east": str(tmp_path / "east"), "west": str(tmp_path / "west")}
    for place, root in enumerate(roots.values(), 1):
        sent = [f.Accepted(60.0, QUEUE, MessageId(b"%d" % n), place) for n in range(place)]
        Keeper(root)(frame(spark, sent), 0)
    name_together(spark, roots)
    query = "select origin, sum(size) size, max(number) last from messages group by 1 order by 1"
    assert [tuple(row) for row in spark.sql(query).collect()] == [("east", 1, 1), ("west", 4, 2)]
    minutes = spark.sql("select origin, accepted from minutes order by 1").collect()
    assert [tuple(row) for row in minutes] == [("east", 1), ("west", 2)]
    for name in TABLES:
        spark.catalog.dropTempView(name)


def test_a_place_that_has_no_tables_is_told(tmp_path: Path) -> None:
    assert roots_of(()) == {}
    root = str(tmp_path / "east")
    with pytest.raises(PipelineError, match="which are to be east's"):
        roots_of((f"east={root}",))
    Archive(root).commit({})
    assert roots_of((f"east={root}",)) == {"east": root}
    for given in (("east",), ("=x",), (f"east={root}", f"east={root}")):
        with pytest.raises(PipelineError, match="--from"):
            roots_of(given)


def test_tables_of_one_journal_are_not_taken_for_those_of_two_routers(tmp_path: Path) -> None:
    def of(name: str, journal: str) -> str:
        root = str(tmp_path / name)
        Archive(root).commit({}, batch=Batch(0, "q", journal, 0, 1, 1, 1.0, 1.0, 1.0))
        return f"{name}={root}"

    east, west, copy = of("east", "one"), of("west", "two"), of("copy", "one")
    older, oldest = of("older", ""), of("oldest", "")
    assert len(roots_of((east, west, older, oldest))) == 4
    with pytest.raises(PipelineError, match="east and copy are tables of one journal, one: name"):
        roots_of((east, west, copy))
