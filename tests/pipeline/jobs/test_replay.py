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

from headgate.client.admin import ROWS
from headgate.errors import PipelineError
from headgate.expr.predicate import compile_expression
from headgate.journal import reader
from headgate.pipeline.jobs import replay
from headgate.pipeline.jobs.replay import Wanted
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

    def told(self) -> int:
        """How many of the messages are in the journal."""
        facts = reader.facts(self.folder / "state" / "journal")
        return sum(fact["kind"] == "Accepted" and b"orders" not in fact["queue"] for fact in facts)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def replay(self, spark: SparkSession, wanted: Wanted) -> int:
        root = str(self.folder / "tables")
        sink = {"router": self.router, "token": self.token}
        query = replay.start(spark, self.source, sink, root, wanted)
        query.awaitTermination()
        return replay.sent(query)


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
    assert replay.check(spark, house.source, wanted) == (2, 0)
    assert house.replay(spark, wanted) == 2
    assert house.replay(spark, wanted) == 0
    house.post("past", 4)
    assert house.replay(spark, wanted) == 1
    house.stop()
    assert dict(bodies_in(house.folder)) == {b"body 2": 1, b"body 3": 1, b"body 4": 1}


def test_a_history_without_bodies_says_what_keeps_them(spark: SparkSession, house: House) -> None:
    house.post("closed", 1)
    with pytest.raises(PipelineError, match=r'\[domains."closed"\] says journal_bodies = true'):
        replay.check(spark, house.source, Wanted("closed", QUEUE))


def test_the_same_messages_to_the_same_queue_are_the_same_replay() -> None:
    one = Wanted("d", QUEUE, compile_expression("x > 1"), 5.0)
    assert one.job == Wanted("d", QUEUE, compile_expression("x > 1"), 6.0).job
    others = (
        Wanted("e", QUEUE, compile_expression("x > 1")),
        Wanted("d", "bmq://d/r", compile_expression("x > 1")),
        Wanted("d", QUEUE),
    )
    assert len({one.job, *(other.job for other in others)}) == 4
