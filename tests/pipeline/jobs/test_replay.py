"""History sent again, once, through a real router."""

from __future__ import annotations

import io
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.client.admin import ROWS
from headgate.errors import PipelineError
from headgate.expr.predicate import compile_expression
from headgate.journal import reader
from headgate.pipeline.jobs import replay
from headgate.pipeline.jobs.replay import Found, Job, Run, Sent, Tally, Wanted
from headgate.pipeline.jobs.sink import Row, Target, spool
from tests.crash.routers import QUEUE, bodies_in, free_port, start

CONFIG = """\
directory = "state"
[admin]
port = {port}
[domains.orders]
[domains.past]
journal_bodies = true
[domains.closed]
[limits]
sink_messages = 20
"""


@dataclass
class House:
    """A router with a history."""

    folder: Path
    router: str
    process: subprocess.Popen[bytes]
    batch: int = 0
    posted: int = 0

    @property
    def token(self) -> str:
        return (self.folder / "state" / "admin.token").read_text().strip()

    @property
    def source(self) -> dict[str, str]:
        return {"path": str(self.folder / "state" / "journal")}

    def post(self, domain: str, *numbers: int) -> None:
        """Messages of a domain, which are then in the journal."""
        file = io.BytesIO()
        rows: list[Row] = [
            (b"%d-%d" % (self.batch, n), b"body %d" % n, {"x": n}, None) for n in numbers
        ]
        spool(iter(rows), file)
        target = Target(self.router, self.token, f"bmq://{domain}/q", None)
        door = target.port()
        door.ask("PUT", f"/sinks/{domain}/{self.batch}/0/0", file, kind=ROWS)
        door.ask("POST", f"/sinks/{domain}/{self.batch}/commit", target.commit([(0, 0)]))
        self.batch += 1
        self.posted += len(numbers)
        end = time.monotonic() + 60
        while self.told() < self.posted:
            assert time.monotonic() < end
            time.sleep(0.2)

    @property
    def posted_at(self) -> float:
        """When the last message was accepted."""
        facts = reader.facts(self.folder / "state" / "journal")
        return max(float(fact["at"]) for fact in facts if fact["kind"] == "Accepted")

    def told(self) -> int:
        """How many of the messages are in the journal."""
        facts = reader.facts(self.folder / "state" / "journal")
        return sum(fact["kind"] == "Accepted" and b"orders" not in fact["queue"] for fact in facts)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def replay(self, spark: SparkSession, wanted: Wanted) -> Sent:
        root = str(self.folder / "tables")
        sink = {"router": self.router, "token": self.token}
        return replay.play(spark, self.source, sink, root, wanted, wait)


def wait(query: StreamingQuery, tally: Tally) -> None:
    query.awaitTermination()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    port = free_port()
    (tmp_path / "headgate.toml").write_text(CONFIG.format(port=port))
    house = House(tmp_path, f"http://127.0.0.1:{port}", start(tmp_path))
    try:
        yield house
    finally:
        house.stop()


def test_what_matches_is_sent_once_and_only_what_is_new_the_next_time(
    spark: SparkSession, house: House
) -> None:
    wanted = Wanted("past", QUEUE, compile_expression("x >= 2"))
    house.post("past", 1, 2, 3)
    house.post("closed", 7)
    assert house.replay(spark, wanted) == Sent(Found(2, 0, 0), 2)
    assert house.replay(spark, wanted) == Sent(Found(2, 0, 2), 0)
    house.post("past", 4)
    assert house.replay(spark, wanted) == Sent(Found(3, 0, 2), 1)
    house.stop()
    assert dict(bodies_in(house.folder)) == {b"body 2": 1, b"body 3": 1, b"body 4": 1}


def test_each_window_is_sent_whichever_comes_first(spark: SparkSession, house: House) -> None:
    """D2: the second window sent nothing."""
    house.post("past", 1, 2)
    middle = house.posted_at + 0.001
    time.sleep(0.01)
    house.post("past", 3)
    late, early = Wanted("past", QUEUE, since=middle), Wanted("past", QUEUE, until=middle)
    assert house.replay(spark, late) == Sent(Found(1, 0, 0), 1)
    assert house.replay(spark, early) == Sent(Found(2, 0, 0), 2)
    assert house.replay(spark, Wanted("past", QUEUE)) == Sent(Found(3, 0, 3), 0)
    house.stop()
    assert dict(bodies_in(house.folder)) == {b"body 1": 1, b"body 2": 1, b"body 3": 1}


def test_a_run_that_was_interrupted_goes_on_before_another_begins(
    spark: SparkSession, house: House
) -> None:
    house.post("past", 1, 2)
    wanted = Wanted("past", QUEUE)
    with pytest.raises(KeyboardInterrupt):
        replay.play(
            spark,
            house.source,
            {"router": house.router, "token": house.token},
            str(house.folder / "tables"),
            wanted,
            interrupt,
        )
    house.post("past", 3)
    done = house.replay(spark, wanted)
    assert done == Sent(Found(3, 0, 2), 1, done.resumed)
    house.stop()
    assert dict(bodies_in(house.folder)) == {b"body 1": 1, b"body 2": 1, b"body 3": 1}


def interrupt(query: StreamingQuery, tally: Tally) -> None:
    raise KeyboardInterrupt


def test_what_the_router_finds_too_large_is_sent_in_smaller_batches(
    spark: SparkSession, house: House
) -> None:
    """D3: it was repeated for ever. The bounds of the replay are wrong for this router, which takes
    20 messages at once."""
    house.post("past", *range(18))
    house.post("past", *range(18, 36))
    assert house.replay(spark, Wanted("past", QUEUE)) == Sent(Found(36, 0, 0), 36)
    house.stop()
    assert dict(bodies_in(house.folder)) == {b"body %d" % n: 1 for n in range(36)}


def test_a_replay_of_an_older_headgate_is_not_taken_for_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "_replays" / "job"
    folder.mkdir(parents=True)
    (folder / "metadata").write_text("{}")
    with pytest.raises(PipelineError, match="is of a replay by an older Headgate"):
        Job(str(tmp_path), "job")


def test_two_runs_of_a_job_do_not_begin_at_once(tmp_path: Path) -> None:
    one, other = Job(str(tmp_path), "job"), Job(str(tmp_path), "job")
    one.begin(0, Run(0.0, None, 5))
    with pytest.raises(PipelineError, match="let it end first"):
        other.begin(0, Run(0.0, None, 6))
    assert (one.runs(), one.is_done(0)) == ([Run(0.0, None, 5)], False)
    one.end(0, 3)
    assert other.is_done(0)


def test_a_history_without_bodies_says_what_keeps_them(spark: SparkSession, house: House) -> None:
    house.post("closed", 1)
    with pytest.raises(PipelineError, match=r'\[domains."closed"\] says journal_bodies = true'):
        house.replay(spark, Wanted("closed", QUEUE))


def test_the_same_messages_to_the_same_queue_are_the_same_replay() -> None:
    one = Wanted("d", QUEUE, compile_expression("x > 1"), 5.0)
    assert one.job == Wanted("d", QUEUE, compile_expression("x > 1"), 6.0).job
    others = (
        Wanted("e", QUEUE, compile_expression("x > 1")),
        Wanted("d", "bmq://d/r", compile_expression("x > 1")),
        Wanted("d", QUEUE),
    )
    assert len({one.job, *(other.job for other in others)}) == 4
