"""Facts as a DataFrame, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.core.ntf_facts import AnyFact
from headgate.journal.codec import encode_facts
from headgate.journal.sealer import _table
from headgate.pipeline.source.schema import ARROW
from tests.support.journals import told


def frame(spark: SparkSession, facts: Iterable[AnyFact], first: int = 1) -> DataFrame:
    """The facts, numbered from `first` on."""
    rows = [
        (number, number, encode_facts([told(fact)])) for number, fact in enumerate(facts, first)
    ]
    return spark.createDataFrame(_table(rows).cast(ARROW))


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """What is in some columns, in order."""
    return sorted(tuple(row) for row in frame.select(*columns).collect())
