"""``format("headgate")``: the journal as a source, and queues and channels as a sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headgate.errors import PipelineError
from headgate.pipeline.jobs.sink import BatchSink, StreamSink
from headgate.pipeline.source.journal_source import JournalReader, JournalStream
from headgate.pipeline.source.schema import FACTS

ROUTER = ("router", "token", "tokenFile", "tlsCa", "tlsCertificate", "tlsKey")
"""How a router is reached."""
BOUNDS = ("startingOffset", "startingTimestamp", "endingOffset", "maxFacts", "maxBytes")
SOURCE = (*ROUTER, "path", *BOUNDS, "columns", "onExpired")
SINK = (*ROUTER, "queue", "channel", "inPieces")
BATCH_SINK = (*SINK, "job")


class Headgate(DataSource):
    """The format as Spark knows it, which makes its readers and writers.

    Options come with lower-case names. A misspelt one is refused, since a query would run without
    it, and so is a mode that messages do not have.
    """

    @classmethod
    def name(cls) -> str:
        return "headgate"

    def schema(self) -> StructType:
        return FACTS

    def reader(self, schema: StructType) -> DataSourceReader:
        check_options(self.options, SOURCE)
        return JournalReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_options(self.options, SOURCE)
        return JournalStream(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise PipelineError('messages cannot be overwritten: write with .mode("append")')
        check_options(self.options, BATCH_SINK)
        return BatchSink(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        check_options(self.options, SINK)
        return StreamSink(self.options, schema)


def check_options(options: Mapping[str, str], known: Iterable[str]) -> None:
    """Raise if an option looks like a misspelt one. Other unknown ones may be Spark's own."""
    names = {name.lower(): name for name in known}
    for name in sorted({each.lower() for each in options} - {*names}):
        near = get_close_matches(name, names, n=1)
        if near:
            raise PipelineError(f"there is no option {name}; did you mean {names[near[0]]}?")


def register(session: SparkSession) -> SparkSession:
    """Make ``format("headgate")`` known to a session."""
    session.dataSource.register(Headgate)
    return session
