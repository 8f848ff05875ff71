"""``df.write`` and ``df.writeStream`` to a router: rows become messages of a queue or a channel.

Executors stage their rows with the router, each attempt of a task for itself; the driver then
names the attempts that won, and the router lets their rows land in one transaction. A batch that
is repeated, because a task, the query or the router died, is recognised by its number. So a row
is in the queue once; channels have no memory, and there it is at least once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headgate.client.admin import ROWS, AdminPort, Tls, tls_of, token_of
from headgate.errors import PipelineError, RouterError

if TYPE_CHECKING:
    import pyarrow as pa

ROUTER = "HEADGATE_ROUTER"
"""The environment variable with the URL of the router's admin port."""

QUEUE = re.compile(r"bmq://[^/?\s]{1,255}/[^/?\s]{1,255}")
JOB = re.compile(r"[A-Za-z0-9_.-]{1,100}")

PROPERTIES = "map<string,struct<i:bigint,s:string,b:boolean>>"
COLUMNS = {
    "body": ("binary", "string"),
    "properties": (PROPERTIES,),
    "id": ("binary",),
    "channel": ("string", "binary"),
}
"""The columns that a row may have, and the types that each may be of."""

FRAME = struct.Struct(">I")
FRAME_BYTES = 1 << 20
"""Bodies of so many bytes go into one frame, about."""

SPOOL_BYTES = 8 << 20
"""Above it the rows of a task wait in a file: they may have to be sent again."""

ABORT_SECONDS = 5.0
"""How long a router is asked again to drop what it would find out by itself."""

TOO_LARGE = "is too large for the router"
"""The text of the failure of a stream whose batch can never land as it is."""

Row: TypeAlias = tuple[bytes, bytes, dict[str, bool | int | str], bytes | None]


@dataclass(frozen=True)
class Target:
    """The target of rows: a queue, a channel, or the channel of each row."""

    router: str
    token: str | None
    queue: str | None
    channel: str | None
    tls: Tls | None = None
    in_pieces: bool = False
    """Whether a batch that is too large for the router to take at once lands in several commits."""

    def commit(self, parts: Sequence[tuple[int, int]]) -> bytes:
        """The body of a commit."""
        where = {"channel": self.channel} if self.queue is None else {"queue": self.queue}
        how = {"in_pieces": True} if self.in_pieces else {}
        return json.dumps({"parts": parts, **where, **how}).encode()

    def port(self) -> AdminPort:
        return AdminPort(self.router, self.token, tls=self.tls)


@dataclass
class Staged(WriterCommitMessage):
    """The report of a task to the driver: rows that it staged with the router."""

    sink: str
    partition: int
    attempt: int
    rows: int


def target_of(options: Mapping[str, str], schema: StructType) -> Target:
    """Where the options say that rows go, if the columns fit; else one line about it."""
    _check_columns(schema)
    router = options.get("router") or os.environ.get(ROUTER)
    if not router:
        raise PipelineError(
            "the sink does not know the router: set the option router, or HEADGATE_ROUTER, to the"
            " URL of its admin port, such as http://127.0.0.1:8222"
        )
    queue, channel = options.get("queue"), options.get("channel")
    has_channel = "channel" in schema.names
    if queue is not None and (channel is not None or has_channel):
        raise PipelineError("rows go to a queue or to channels: keep one of queue and channel")
    if queue is None and channel is None and not has_channel:
        raise PipelineError(
            "the sink does not know where rows go: set the option queue to bmq://DOMAIN/NAME, or"
            " the option channel, or select a column channel"
        )
    if queue is not None and not QUEUE.fullmatch(queue):
        raise PipelineError(f"the option queue is bmq://DOMAIN/NAME, not {queue}")
    if queue is None and {"properties", "id"} & {*schema.names}:
        raise PipelineError(
            "messages of a channel have a body only: drop the columns properties and id"
        )
    pieces = {name.lower(): text for name, text in options.items()}.get("inpieces", "false")
    if pieces.lower() not in ("true", "false"):
        raise PipelineError(f"the option inPieces is true or false, not {pieces}")
    target = Target(
        router,
        token_of(options, os.environ),
        queue,
        channel,
        tls_of(options),
        pieces.lower() == "true",
    )
    target.port()  # a wrong URL is said now, and so are wrong files
    return target


def _check_columns(schema: StructType) -> None:
    if "body" not in schema.names:
        raise PipelineError(
            f"rows need a column body, binary or string; there are {', '.join(schema.names)}"
        )
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise PipelineError(
                f"{field.name} is no part of a message: select body and, if need be, properties,"
                " id or channel"
            )
        found = field.dataType.simpleString()
        if found not in allowed:
            raise PipelineError(f"the column {field.name} is {found}, not {' or '.join(allowed)}")


# Rows.


def message_id(sink: str, batch: int, partition: int, row: int) -> bytes:
    """The id of a row that brings none: the same whenever the batch is repeated."""
    named = f"{sink} {batch} {partition} {row}".encode()
    return hashlib.blake2b(named, digest_size=16).digest()


def rows_of(
    batches: Iterator[pa.RecordBatch], sink: str, batch: int, partition: int
) -> Iterator[Row]:
    """Record batches as rows of the wire."""
    number = 0
    for records in batches:
        columns = {
            name: records.column(name).to_pylist(maps_as_pydicts="strict")
            for name in COLUMNS
            if name in records.schema.names
        }
        nothing = [None] * len(records)
        for body, properties, id, channel in zip(
            columns["body"],
            columns.get("properties", nothing),
            columns.get("id", nothing),
            columns.get("channel", nothing),
            strict=True,
        ):
            if body is None:
                raise PipelineError(f"row {number} of partition {partition} has no body")
            yield (
                id if id is not None else message_id(sink, batch, partition, number),
                _bytes(body),
                _properties(properties or {}, number, partition),
                None if channel is None else _bytes(channel),
            )
            number += 1


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _properties(
    found: Mapping[str, Mapping[str, Any] | None], row: int, partition: int
) -> dict[str, bool | int | str]:
    """Properties without their structs. One without a value is none."""
    properties = {}
    for name, typed in found.items():
        values = [value for value in (typed or {}).values() if value is not None]
        if len(values) > 1:
            raise PipelineError(
                f"property {name} of row {row} of partition {partition} has several values: set"
                " one of i, s and b"
            )
        if values:
            properties[name] = values[0]
    return properties


def spool(rows: Iterator[Row], file: IO[bytes]) -> int:
    """Write rows in frames, as the router takes them; return how many there were."""
    count = size = 0
    frame: list[Row] = []

    def end_frame() -> None:
        data = msgspec.msgpack.encode(frame)
        file.write(FRAME.pack(len(data)) + data)
        frame.clear()

    for row in rows:
        frame.append(row)
        count += 1
        size += len(row[1])
        if size >= FRAME_BYTES or len(frame) >= 10_000:
            end_frame()
            size = 0
    if frame:
        end_frame()
    return count


# Writers.


def stage(target: Target, batches: Iterator[pa.RecordBatch], sink: str, batch: int) -> Staged:
    """Stage the rows of a task. It may have to be sent more than once, and memory is bounded."""
    context = TaskContext.get()
    assert context is not None, "write() runs in a task"
    partition, attempt = context.partitionId(), context.taskAttemptId()
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as file:
        rows = spool(rows_of(batches, sink, batch, partition), file)
        if rows:
            how = "?in_pieces=true" if target.in_pieces else ""
            path = f"/sinks/{sink}/{batch}/{partition}/{attempt}{how}"
            target.port().ask("PUT", path, file, kind=ROWS)
    return Staged(sink, partition, attempt, rows)


def commit(target: Target, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Let the staged rows land. Nothing is asked if there are none."""
    staged = [message for message in messages if isinstance(message, Staged) and message.rows]
    if staged:
        parts = [(message.partition, message.attempt) for message in staged]
        path = f"/sinks/{staged[0].sink}/{batch}/commit"
        target.port().ask("POST", path, target.commit(parts))


def abort(target: Target, sink: str, batch: int) -> None:
    """Drop what was staged. If the router cannot be told, it finds out by itself in a day; and
    what failed before is what should be said."""
    with suppress(RouterError):
        target.port().ask("POST", f"/sinks/{sink}/{batch}/abort", patience=ABORT_SECONDS)


def forget(target: Target, sink: str) -> None:
    """Have the router forget a sink to whom nobody comes back. If it cannot be told, it forgets by
    itself in 90 days."""
    with suppress(RouterError):
        target.port().ask("DELETE", f"/sinks/{sink}", patience=ABORT_SECONDS)


class BatchSink(DataSourceArrowWriter):
    """``df.write``: one batch. With the option `job` it lands once, however often it is run."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.target = target_of(options, schema)
        job = options.get("job")
        if job is not None and not JOB.fullmatch(job):
            raise PipelineError("the option job is 1 to 100 letters, digits, dots, - and _")
        self.is_fresh = job is None
        self.sink = f"once.{uuid.uuid4().hex}" if job is None else f"job.{job}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(self.target, iterator, self.sink, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self.target, messages, 0)
        if self.is_fresh:  # nobody will come back with this name
            forget(self.target, self.sink)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(self.target, self.sink, 0)
        if self.is_fresh and self.target.in_pieces:  # nobody brings the rest of it
            forget(self.target, self.sink)


@contextmanager
def _fitting(batch: int) -> Iterator[None]:
    """Say what to do about a batch that is too large: Spark would only ever repeat it."""
    try:
        yield
    except RouterError as error:
        if error.status != 413:
            raise
        raise PipelineError(
            f"batch {batch} {TOO_LARGE} ({error.why}); none of it has landed: start the stream"
            " again with inPieces = true of the sink, and it lands in several commits; or, so that"
            f" all of a batch lands at once, remove the file offsets/{batch} from the checkpoint of"
            " the stream, set maxBytes or maxFacts of the source lower (or maxFilesPerTrigger of"
            " files), and start it again"
        ) from None


class StreamSink(DataSourceStreamArrowWriter):
    """``df.writeStream``: each micro-batch lands once. The query's own id, which is kept in its
    checkpoint, names the sink; without the checkpoint it is another stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.target = target_of(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query = context and context.getLocalProperty("sql.streaming.queryId")
        batch = context and context.getLocalProperty("streaming.sql.batchId")
        if not query or not batch:
            raise PipelineError("a stream's writer needs a streaming query; use df.write instead")
        with _fitting(int(batch)):
            return stage(self.target, iterator, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with _fitting(batchId):
            commit(self.target, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for sink in {message.sink for message in messages if isinstance(message, Staged)}:
            abort(self.target, sink, batchId)
