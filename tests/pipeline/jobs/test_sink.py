"""Rows of DataFrames as messages: what is sent, when it is refused, and once."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headgate.client import admin as client
from headgate.core.commands import Confirm, Interest, Open
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.errors import HeadgateError, PipelineError, RouterError
from headgate.pipeline.jobs import sink as module
from headgate.pipeline.jobs.sink import (
    TOO_LARGE,
    BatchSink,
    Row,
    Staged,
    StreamSink,
    message_id,
    rows_of,
    spool,
    target_of,
)
from headgate.pipeline.session import reason
from headgate.server.admin.app import make_app
from headgate.server.admin.http_server import serving
from headgate.server.admin.sinks import SinkAdmin
from headgate.server.in_process import InProcessSession
from headgate.server.net.listener import bind
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore
from tests.support.scripted_router import Scripted

T = TypeVar("T")

QUEUE = "bmq://orders/q"
OPTIONS = {"router": "http://127.0.0.1:1", "queue": QUEUE}
CHANNEL = {"router": "http://127.0.0.1:1", "channel": "c"}
PROPERTY = pa.struct([("i", pa.int64()), ("s", pa.string()), ("b", pa.bool_())])


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "map<string;string>": MapType(StringType(), StringType()),
}


def schema(text: str) -> StructType:
    """A schema from pairs of names and types, without Spark."""
    pairs = [pair.split() for pair in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


# What is refused before anything is sent.


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("text string", "rows need a column body, binary or string; there are text"),
        ("body int", "the column body is int, not binary or string"),
        ("body string, id string", "the column id is string, not binary"),
        ("body string, Id binary", "Id is no part of a message: select body and"),
        (
            "body string, properties map<string;string>",
            "the column properties is map<string,string>, not"
            " map<string,struct<i:bigint,s:string,b:boolean>>",
        ),
        ("body string, channel int", "the column channel is int, not string or binary"),
    ],
)
def test_columns_that_do_not_fit_are_named(ddl: str, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        target_of(OPTIONS, schema(ddl))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "ddl", "said"),
    [
        ({"queue": QUEUE}, "body string", "set the option router, or HEADGATE_ROUTER"),
        ({"router": "http://x"}, "body string", "set the option queue to bmq://DOMAIN/NAME"),
        ({**OPTIONS, "channel": "c"}, "body string", "keep one of queue and channel"),
        (OPTIONS, "body string, channel string", "keep one of queue and channel"),
        ({**OPTIONS, "queue": "q"}, "body string", "bmq://DOMAIN/NAME, not q"),
        (CHANNEL, "body string, id binary", "a body only: drop the columns properties and id"),
        ({**OPTIONS, "router": "localhost:8222"}, "body string", "not localhost:8222"),
        ({**OPTIONS, "router": "http://x:port"}, "body string", "not http://x:port"),
    ],
)
def test_options_that_do_not_fit_are_named(
    options: dict[str, str], ddl: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADGATE_ROUTER", raising=False)
    with pytest.raises(HeadgateError) as caught:
        target_of(options, schema(ddl))
    assert said in str(caught.value)


def test_the_router_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_ROUTER", "http://elsewhere:1")
    assert target_of({"queue": QUEUE}, schema("body string")).router == "http://elsewhere:1"
    assert target_of(OPTIONS, schema("body string")).router == OPTIONS["router"]


def test_a_job_names_the_sink_and_without_one_each_write_is_another() -> None:
    named = [BatchSink({**OPTIONS, "job": "nightly"}, schema("body string")) for _ in "ab"]
    assert {writer.sink for writer in named} == {"job.nightly"}
    fresh = [BatchSink(OPTIONS, schema("body string")) for _ in "ab"]
    assert len({writer.sink for writer in fresh}) == 2
    with pytest.raises(PipelineError, match="the option job is"):
        BatchSink({**OPTIONS, "job": "a/b"}, schema("body string"))


def test_a_stream_writer_outside_of_a_stream_says_so() -> None:
    with pytest.raises(PipelineError, match=r"use df\.write"):
        StreamSink(OPTIONS, schema("body string")).write(iter(()))


# Rows.


def records(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_carry_what_their_columns_say() -> None:
    properties = pa.array(
        [
            [
                ("n", {"i": -5, "s": None, "b": None}),
                ("t", {"i": None, "s": "ö", "b": None}),
                ("f", {"i": None, "s": None, "b": False}),
                ("nothing", {"i": None, "s": None, "b": None}),
                ("null", None),
            ],
            None,
        ],
        pa.map_(pa.string(), PROPERTY),
    )
    batch = records(body=pa.array(["grün", ""]), properties=properties, id=pa.array([b"one", None]))
    assert list(rows_of(iter([batch]), "s", 4, 2)) == [
        (b"one", "grün".encode(), {"n": -5, "t": "ö", "f": False}, None),
        (message_id("s", 4, 2, 1), b"", {}, None),
    ]


def test_ids_are_the_same_when_a_task_is_run_again() -> None:
    batches = [records(body=pa.array([b"a", b"b"])), records(body=pa.array([b"c"]))]
    first, second = (list(rows_of(iter(batches), "s", 0, 1)) for _ in "ab")
    assert first == second
    ids = {row[0] for row in first}
    ids |= {row[0] for row in rows_of(iter(batches), "s", 0, 2)}
    ids |= {row[0] for row in rows_of(iter(batches), "s", 1, 1)}
    ids |= {row[0] for row in rows_of(iter(batches), "other", 0, 1)}
    assert len(ids) == 4 * 3
    assert {len(id) for id in ids} == {16}


def test_a_row_may_have_its_channel() -> None:
    batch = records(body=pa.array([b"a", b"b"]), channel=pa.array(["c", None]))
    assert [row[3] for row in rows_of(iter([batch]), "s", 0, 0)] == [b"c", None]


def test_a_row_without_a_body_is_named() -> None:
    batch = records(body=pa.array([b"a", None]))
    with pytest.raises(PipelineError, match="row 1 of partition 7 has no body"):
        list(rows_of(iter([batch]), "s", 0, 7))


def test_a_property_with_two_values_is_named() -> None:
    properties = pa.array([[("p", {"i": 1, "s": "1", "b": None})]], pa.map_(pa.string(), PROPERTY))
    batch = records(body=pa.array([b"a"]), properties=properties)
    with pytest.raises(PipelineError, match="property p of row 0 of partition 0 has several"):
        list(rows_of(iter([batch]), "s", 0, 0))


def test_frames_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRAME_BYTES", 10)
    file = io.BytesIO()
    rows: list[Row] = [(b"%d" % n, b"12345", {"n": n}, None) for n in range(5)]
    assert spool(iter(rows), file) == 5
    data, frames = file.getvalue(), []
    while data:
        (length,) = struct.unpack(">I", data[:4])
        frames.append(msgspec.msgpack.decode(data[4 : 4 + length]))
        data = data[4 + length :]
    assert [len(frame) for frame in frames] == [2, 2, 1]
    assert [row for frame in frames for row in frame] == [list(row) for row in rows]


# A router that answers as it is told.


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(*answers: int | bytes | None) -> Scripted:
        made.append(Scripted(*answers))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSES", (0.01,))


def test_a_commit_names_the_attempts_that_won(scripted: Callable[..., Scripted]) -> None:
    server = scripted(200)
    writer = StreamSink({**OPTIONS, "router": server.url}, schema("body string"))
    writer.commit([Staged("query", 0, 5, 3), Staged("query", 1, 6, 0), Staged("query", 2, 9, 1)], 8)
    [(method, path, body, _)] = server.asked
    assert (method, path) == ("POST", "/sinks/query/8/commit")
    assert json.loads(body) == {"parts": [[0, 5], [2, 9]], "queue": QUEUE}


def test_a_batch_without_rows_needs_no_commit(scripted: Callable[..., Scripted]) -> None:
    server = scripted()
    writer = StreamSink({**OPTIONS, "router": server.url}, schema("body string"))
    writer.commit([Staged("query", 0, 5, 0)], 8)
    assert server.asked == []


def test_a_write_without_a_job_is_forgotten_once_it_landed(
    scripted: Callable[..., Scripted],
) -> None:
    server = scripted(200, 200, 200)
    for options in ({}, {"job": "j"}):
        writer = BatchSink({**CHANNEL, "router": server.url, **options}, schema("body string"))
        writer.commit([Staged(writer.sink, 0, 1, 1)])
    methods = [(method, path.split("/")[2].split(".")[0]) for method, path, _, _ in server.asked]
    assert methods == [("POST", "once"), ("DELETE", "once"), ("POST", "job")]
    assert json.loads(server.asked[0][2]) == {"parts": [[0, 1]], "channel": "c"}


def test_a_batch_that_is_too_large_says_how_the_stream_goes_on(
    scripted: Callable[..., Scripted],
) -> None:
    server = scripted(413, 409)
    writer = StreamSink({**OPTIONS, "router": server.url}, schema("body string"))
    with pytest.raises(
        PipelineError, match=rf"batch 8 {TOO_LARGE}.*remove the file offsets/8 from"
    ):
        writer.commit([Staged("query", 0, 5, 1)], 8)
    with pytest.raises(RouterError):
        writer.commit([Staged("query", 0, 5, 1)], 9)


def test_a_batch_may_land_in_pieces(scripted: Callable[..., Scripted]) -> None:
    """D3: what was too large could not be sent without taking the checkpoint apart."""
    server = scripted(200, 200, 200)
    options = {**OPTIONS, "router": server.url, "inPieces": "true"}
    StreamSink(options, schema("body string")).commit([Staged("query", 0, 5, 3)], 8)
    assert json.loads(server.asked[0][2]) == {"parts": [[0, 5]], "queue": QUEUE, "in_pieces": True}
    BatchSink(options, schema("body string")).abort([])
    assert [method for method, *_ in server.asked[1:]] == ["POST", "DELETE"]
    with pytest.raises(PipelineError, match="the option inPieces is true or false, not perhaps"):
        StreamSink({**options, "inPieces": "perhaps"}, schema("body string"))


def test_an_abort_that_fails_hides_nothing(scripted: Callable[..., Scripted]) -> None:
    server = scripted(200, 413, 200)
    writer = StreamSink({**OPTIONS, "router": server.url}, schema("body string"))
    writer.abort([None, Staged("query", 0, 5, 0), Staged("query", 1, 5, 0)], 8)
    writer.abort([Staged("query", 0, 5, 0)], 9)
    writer.abort([None], 10)
    BatchSink({**OPTIONS, "router": server.url, "job": "j"}, schema("body string")).abort([None])
    assert [path for _, path, _, _ in server.asked] == [
        "/sinks/query/8/abort",
        "/sinks/query/9/abort",
        "/sinks/job.j/0/abort",
    ]


# With Spark.


class InThread:
    """A router with an admin port, in a thread of this process."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.folder = folder
        self._limits = limits or Limits()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._stack = AsyncExitStack()
        self.do(self._open())

    def do(self, task: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(60)

    async def _open(self) -> None:
        self.router = Router(
            store=SqliteStore(self.folder / "queues.db"),
            # No id is remembered: what comes twice is not to be found out by its id.
            domains={"orders": Domain("orders", Mode.PRIORITY, deduplication_time=0.0)},
            limits=self._limits,
        )
        desk = SinkAdmin(self.router, self.folder / "sinks")
        app = make_app(
            problems=list, status=dict, metrics=bytes, rows=10, sinks=desk, token="secret"
        )
        listening = bind("admin", "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        await self._stack.enter_async_context(serving(app, listening))
        await self.router.start()
        self._stack.push_async_callback(self.router.stop)
        await self._stack.enter_async_context(desk.opened())
        self.sinks = desk

    async def taken(self, queue: str = QUEUE) -> list[Message]:
        """The messages of the queue, confirmed."""
        session = InProcessSession(self.router, "reader")
        named = QueueId(queue.encode())
        wanted = (Interest(window=Window(10_000, 1 << 30)),)
        await session.ask(Open, named, "orders", interests=wanted)
        await session.ask(Confirm, named, ())  # by its answer everything before it is handed out
        found = []
        while not session.events.empty():
            found.append((await session.delivery()).message)
        await session.ask(Confirm, named, tuple(message.id for message in found))
        session.close()
        return found

    async def listed(self) -> list[str]:
        return [str(row["sink"]) for row in self.sinks.listing()]

    def close(self) -> None:
        self.do(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def router(tmp_path: Path) -> Iterator[InThread]:
    served = InThread(tmp_path)
    yield served
    served.close()


def register(spark: SparkSession, lost: str = "") -> None:
    """The sink as a format of its own. It loses the answer to a commit, or the commit itself,
    once for each file that says so. Made here, so that it goes to the workers by value."""

    class Losing(StreamSink):
        def commit(self, messages: Any, batchId: int) -> None:  # noqa: ANN401
            before, after = Path(lost, "before"), Path(lost, "after")
            if before.exists():
                before.unlink()
                raise RuntimeError("on purpose, before")
            super().commit(messages, batchId)
            if after.exists():
                after.unlink()
                raise RuntimeError("on purpose, after")

    class Format(DataSource):
        @classmethod
        def name(cls) -> str:
            return "sink_test"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return BatchSink(self.options, schema)

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return Losing(self.options, schema)

    spark.dataSource.register(Format)


def test_a_batch_write_lands_in_the_queue_and_a_job_once(
    spark: SparkSession, router: InThread
) -> None:
    register(spark)
    frame = spark.range(100).selectExpr(
        "concat('row ', id) as body",
        "map('n', named_struct('i', id, 's', string(null), 'b', boolean(null)),"
        " 'even', named_struct('i', bigint(null), 's', string(null), 'b', id % 2 = 0))"
        " as properties",
    )
    options = {"router": router.url, "token": "secret", "queue": QUEUE}
    writer = frame.repartition(3).write.format("sink_test").options(**options).mode("append")
    writer.option("job", "one").save()
    writer.option("job", "one").save()
    messages = router.do(router.taken())
    assert Counter(m.body for m in messages) == Counter(b"row %d" % n for n in range(100))
    for message in messages:
        number = int(message.body.split()[1])
        assert message.properties == {"n": number, "even": number % 2 == 0}
    plain = frame.write.format("sink_test").options(**options).mode("append")
    for _ in range(2):
        plain.save()
    assert len(router.do(router.taken())) == 200
    assert router.do(router.listed()) == ["job.one"]
    assert list((router.folder / "sinks").iterdir()) == []

    wrong = frame.selectExpr("body", "1 as more").write.format("sink_test").options(**options)
    with pytest.raises(Exception, match="no part of a message") as caught:
        wrong.mode("append").save()
    assert reason(caught.value).startswith("PipelineError: more is no part of a message")
    strange = plain.option("queue", "bmq://nowhere/q")
    with pytest.raises(Exception, match="no domain nowhere"):
        strange.save()


def test_a_stream_lands_once_whatever_is_lost(
    spark: SparkSession, router: InThread, tmp_path: Path
) -> None:
    lost, source = tmp_path / "lost", tmp_path / "source"
    lost.mkdir()
    source.mkdir()
    register(spark, str(lost))

    def run() -> None:
        rows = spark.readStream.schema("body string").json(str(source))
        query = (
            rows.writeStream.format("sink_test")
            .option("router", router.url)
            .option("token", "secret")
            .option("queue", QUEUE)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def add(name: str) -> list[bytes]:
        bodies = [f"{name} {n}" for n in range(20)]
        lines = "\n".join(json.dumps({"body": body}) for body in bodies)
        (source / f"{name}.json").write_text(lines)
        return [body.encode() for body in bodies]

    expected: list[bytes] = []
    found: list[Message] = []
    for when in ("after", "before"):
        expected += add(when)
        (lost / when).touch()
        with pytest.raises(Exception, match=f"on purpose, {when}"):
            run()
        found += router.do(router.taken())
        run()
        found += router.do(router.taken())
    assert Counter(message.body for message in found) == Counter(expected)
    assert len({message.id for message in found}) == 40
    assert len(router.do(router.listed())) == 1
    assert list((router.folder / "sinks").iterdir()) == []


def test_a_stream_that_was_refused_goes_on_in_pieces(spark: SparkSession, tmp_path: Path) -> None:
    """D3: it repeated the same batch until somebody took its checkpoint apart."""
    router = InThread(tmp_path, Limits(sink_messages=30, sink_bytes=2_000))
    source = tmp_path / "source"
    spark.range(100).selectExpr("concat('row ', id) body").coalesce(1).write.json(str(source))
    register(spark)

    def run(**more: str) -> None:
        rows = spark.readStream.schema("body string").json(str(source))
        query = (
            rows.writeStream.format("sink_test")
            .options(router=router.url, token="secret", queue=QUEUE, **more)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    try:
        with pytest.raises(Exception, match=TOO_LARGE):
            run()
        run(inPieces="true")
        found = router.do(router.taken())
        assert [message.body for message in found] == [b"row %d" % n for n in range(100)]
    finally:
        router.close()
