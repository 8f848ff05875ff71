"""What a sink commits is in the queue once, whenever the router is killed."""

from __future__ import annotations

import io
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from headgate.client.admin import JSON, ROWS
from headgate.errors import RouterError
from headgate.pipeline.jobs.sink import Row, Target, spool
from tests.crash.routers import DEADLINE_SECONDS, QUEUE, bodies_in, configured, start

ROUNDS = 5


class Driver(threading.Thread):
    """Does what Spark does: stages partitions, commits batches, and repeats what failed."""

    def __init__(self, port: int, token: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.target = Target(f"http://127.0.0.1:{port}", token, QUEUE, None)
        self.draw = random.Random(seed)
        self.expected: list[bytes] = []
        self.batches = self.repeats = 0
        self.is_over = threading.Event()
        self.error: BaseException | None = None
        self._attempt = 0

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self.land(self.batches)
                self.batches += 1
        except BaseException as error:
            self.error = error

    def land(self, batch: int) -> None:
        rows = [
            [b"%d/%d/%d" % (batch, partition, n) for n in range(self.draw.randrange(1, 30))]
            for partition in range(2)
        ]
        self.expected += [body for partition in rows for body in partition]
        while True:
            try:
                self.once(batch, rows)
                if self.draw.random() < 0.2:  # the answer was lost: abort, and the batch again
                    self.ask("POST", f"/sinks/s/{batch}/abort")
                    self.once(batch, rows)
            except RouterError as error:
                if "is not staged here" not in str(error):
                    raise
                self.repeats += 1
            else:
                return

    def ask(self, method: str, path: str, body: bytes | io.BytesIO = b"", kind: str = JSON) -> None:
        """With the patience for all rounds: a slow machine may start routers for most of them."""
        patience = ROUNDS * DEADLINE_SECONDS
        self.target.port().ask(method, path, body, kind=kind, patience=patience)

    def once(self, batch: int, rows: list[list[bytes]]) -> None:
        parts = []
        for partition, bodies in enumerate(rows):
            for _ in range(self.draw.choice((1, 1, 2))):  # of two attempts the second wins
                self._attempt += 1
                file = io.BytesIO()
                # New ids each time: what comes twice is not to be found out by its id.
                drawn: list[Row] = [(os.urandom(16), body, {}, None) for body in bodies]
                spool(iter(drawn), file)
                path = f"/sinks/s/{batch}/{partition}/{self._attempt}"
                self.ask("PUT", path, file, kind=ROWS)
            parts.append((partition, self._attempt))
        time.sleep(self.draw.choice((0, 0, 0.02)))
        self.ask("POST", f"/sinks/s/{batch}/commit", self.target.commit(parts))


@pytest.mark.serial
def test_every_row_is_in_the_queue_once_whenever_the_router_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    port = configured(tmp_path)
    router = start(tmp_path)
    driver = Driver(port, (tmp_path / "state" / "admin.token").read_text().strip(), seed)
    driver.start()
    try:
        for _ in range(ROUNDS):
            time.sleep(draw.uniform(0.2, 1.0))
            router.kill()
            router.wait()
            if draw.random() < 0.5:  # the machine died with it, before the files were written
                for path in (tmp_path / "state" / "sinks").iterdir():
                    path.unlink()
            router = start(tmp_path)
        end = time.monotonic() + ROUNDS * DEADLINE_SECONDS
        while driver.batches <= ROUNDS and driver.is_alive() and time.monotonic() < end:
            time.sleep(0.02)  # on a slow machine most lives of a router land nothing
        driver.is_over.set()
        driver.join(ROUNDS * DEADLINE_SECONDS)
        assert not driver.is_alive()
        assert driver.error is None, driver.error
        router.send_signal(signal.SIGTERM)
        assert router.wait(DEADLINE_SECONDS) == 0
    finally:
        driver.is_over.set()
        if router.poll() is None:
            router.kill()
            router.wait()
    print(f"{driver.batches} batches, {driver.repeats} repeated")
    assert driver.batches > ROUNDS
    assert bodies_in(tmp_path) == Counter(driver.expected)
    assert list((tmp_path / "state" / "sinks").iterdir()) == []
