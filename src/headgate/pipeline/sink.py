"""``df.write`` and ``df.writeStream`` to a router: rows become messages of a queue or a channel.

Executors stage their rows with the router, each attempt of a task for itself; the driver then
names the attempts that won, and the router lets their rows land in one transaction. A batch that
is repeated, because a task, the query or the router died, is recognised by its number. So a row
is in the queue once; channels have no memory, and there it is at least once.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import struct
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from urllib.parse import SplitResult, urlsplit

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headgate.errors import PipelineError

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
"""What a row may have, and the types that are taken for it."""

FRAME = struct.Struct(">I")
FRAME_BYTES = 1 << 20
"""Bodies of so many bytes go into one frame, about."""

SPOOL_BYTES = 8 << 20
"""Above it the rows of a task wait in a file: they may have to be sent again."""

PATIENCE_SECONDS = 30.0
"""How long a router that is not there, or has no room, is asked again: it may be restarting."""

ABORT_SECONDS = 5.0
ANSWER_SECONDS = 120.0
"""How long one answer may take. A commit waits for its turn, and for slow sessions of channels."""

PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Between one try and the next; the last is repeated."""

AGAIN = (429, 503)
"""Answers that may be another later: a full queue, a router that starts or whose store fails."""

Row: TypeAlias = tuple[bytes, bytes, dict[str, bool | int | str], bytes | None]


@dataclass(frozen=True)
class Target:
    """Where rows go: a queue, a channel, or the channel of each row."""

    router: str
    token: str | None
    queue: str | None
    channel: str | None

    def commit(self, parts: Sequence[tuple[int, int]]) -> bytes:
        """The body of a commit."""
        where = {"channel": self.channel} if self.queue is None else {"queue": self.queue}
        return json.dumps({"parts": parts, **where}).encode()

    def door(self) -> Door:
        return Door(self.router, self.token)


@dataclass
class Staged(WriterCommitMessage):
    """What a task tells the driver."""

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
    target = Target(router, options.get("token"), queue, channel)
    target.door()  # a wrong URL is said now
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


# The router.


class Door:
    """The admin port of a router, asked until it answers or patience is at its end."""

    def __init__(self, router: str, token: str | None = None) -> None:
        self.router = router
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            self.url: SplitResult = urlsplit(router)
            is_right = self.url.scheme in ("http", "https") and self.url.hostname is not None
            self.port = self.url.port
        except ValueError:
            is_right = False
        if not is_right:
            raise PipelineError(f"the router is a URL such as http://127.0.0.1:8222, not {router}")

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] = b"",
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> dict[str, Any]:
        """The answer to a request, all of which may be repeated without harm."""
        end = time.monotonic() + patience
        tries = 0
        while True:
            try:
                status, told = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                why = f"does not answer: {error or type(error).__name__}; start it"
            else:
                if status == 200:
                    return told
                why = f"refuses ({status}): {told['error']}"
                if status not in AGAIN:
                    raise PipelineError(f"the router at {self.router} {why}")
            pause = PAUSES[min(tries, len(PAUSES) - 1)]
            tries += 1
            if time.monotonic() + pause > end:
                raise PipelineError(f"the router at {self.router} {why}")
            time.sleep(pause)

    def _once(self, method: str, path: str, body: bytes | IO[bytes]) -> tuple[int, dict[str, Any]]:
        is_secret = self.url.scheme == "https"
        kind = http.client.HTTPSConnection if is_secret else http.client.HTTPConnection
        assert self.url.hostname is not None, "a URL without a host was refused"
        with closing(kind(self.url.hostname, self.port, timeout=ANSWER_SECONDS)) as connection:
            # It may answer before it has read everything, and then not go on reading.
            with suppress(BrokenPipeError, ConnectionResetError):
                headers = {**self.headers, "Content-Length": str(_length(body))}
                connection.request(method, self.url.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            try:
                told: dict[str, Any] = json.loads(response.read())
                is_ours = response.status == 200 or "error" in told
            except (ValueError, TypeError):
                is_ours = False
        if not is_ours:
            raise PipelineError(f"what answers at {self.router} is not the admin port of a router")
        return response.status, told


def _length(body: bytes | IO[bytes]) -> int:
    """The bytes of a body, which is then read from its beginning."""
    if isinstance(body, bytes):
        return len(body)
    length = body.seek(0, os.SEEK_END)
    body.seek(0)
    return length


# Writers.


def stage(target: Target, batches: Iterator[pa.RecordBatch], sink: str, batch: int) -> Staged:
    """Stage the rows of a task. It may have to be sent more than once, and memory is bounded."""
    context = TaskContext.get()
    assert context is not None, "write() runs in a task"
    partition, attempt = context.partitionId(), context.taskAttemptId()
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as file:
        rows = spool(rows_of(batches, sink, batch, partition), file)
        if rows:
            target.door().ask("PUT", f"/sinks/{sink}/{batch}/{partition}/{attempt}", file)
    return Staged(sink, partition, attempt, rows)


def commit(target: Target, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Let the staged rows land. Nothing is asked if there are none."""
    told = [message for message in messages if isinstance(message, Staged) and message.rows]
    if told:
        parts = [(message.partition, message.attempt) for message in told]
        path = f"/sinks/{told[0].sink}/{batch}/commit"
        target.door().ask("POST", path, target.commit(parts))


def abort(target: Target, sink: str, batch: int) -> None:
    """Drop what was staged. If the router cannot be told, it finds out by itself in a day; and
    what failed before is what should be said."""
    with suppress(PipelineError):
        target.door().ask("POST", f"/sinks/{sink}/{batch}/abort", patience=ABORT_SECONDS)


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
            with suppress(PipelineError):
                self.target.door().ask("DELETE", f"/sinks/{self.sink}", patience=ABORT_SECONDS)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(self.target, self.sink, 0)


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
        return stage(self.target, iterator, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit(self.target, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for sink in {message.sink for message in messages if isinstance(message, Staged)}:
            abort(self.target, sink, batchId)
