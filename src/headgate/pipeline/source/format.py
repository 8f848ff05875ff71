"""``format("headgate")``: the journal as a source, and queues and channels as a sink."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headgate.pipeline.jobs.sink import BatchSink, StreamSink
from headgate.pipeline.source.journal_source import JournalReader, JournalStream
from headgate.pipeline.source.schema import FACTS


class Headgate(DataSource):
    """The format as Spark knows it, which makes its readers and writers. Options come with
    lower-case names."""

    @classmethod
    def name(cls) -> str:
        return "headgate"

    def schema(self) -> StructType:
        return FACTS

    def reader(self, schema: StructType) -> DataSourceReader:
        return JournalReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return JournalStream(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchSink(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamSink(self.options, schema)


def register(session: SparkSession) -> SparkSession:
    """Make ``format("headgate")`` known to a session."""
    session.dataSource.register(Headgate)
    return session
