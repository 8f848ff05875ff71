"""The tables by their names in a session, of one router or of several together.

Each router has a folder of tables of its own: its numbers, its log, its one writer. A question to
all of them is one to their union, in which a column names the router of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import PipelineError
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.tables import TABLES

ORIGIN = "origin"
"""The column that says whose a row is, where there are several."""


def name_tables(session: SparkSession, root: str) -> None:
    """Make the tables of a folder known by their names."""
    for name, frame in _frames(session, root).items():
        frame.createOrReplaceTempView(name)


def name_together(session: SparkSession, roots: Mapping[str, str]) -> None:
    """Make the tables of several folders, by the names of their routers, known as one."""
    parts = {origin: _frames(session, root) for origin, root in roots.items()}
    for name in TABLES:
        frames = [found[name].withColumn(ORIGIN, F.lit(origin)) for origin, found in parts.items()]
        reduce(DataFrame.unionByName, frames).createOrReplaceTempView(name)


def _frames(session: SparkSession, root: str) -> dict[str, DataFrame]:
    archive = Archive(root)
    state = archive.state()  # one for all: they show the same batches
    return {name: archive.read(session, table, state) for name, table in TABLES.items()}


def roots_of(given: tuple[str, ...]) -> dict[str, str]:
    """The folders by name, of NAME=DIR given several times."""
    roots: dict[str, str] = {}
    known: dict[str, str] = {}
    for text in given:
        name, equals, root = text.partition("=")
        if not name or not equals or not root:
            raise PipelineError(f"--from is NAME=DIR, such as east=/srv/east/pipeline, not {text}")
        if name in roots:
            raise PipelineError(f"--from {name} is there twice: each router has a name of its own")
        state = Archive(root).state()
        if state.number < 0:
            raise PipelineError(f"there are no tables in {root}, which are to be {name}'s")
        other = known.setdefault(state.journal, name) if state.journal else name
        if other != name:
            raise PipelineError(
                f"{other} and {name} are tables of one journal, {state.journal}: name one of them,"
                " or rows would be counted twice"
            )
        roots[name] = root
    return roots
