"""What a sink commits is in the queue once, whenever the router is killed."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from headgate.client.admin import JSON, ROWS
from headgate.errors import NoRouter, RouterError
from headgate.pipeline.jobs.sink import Row, Target, spool
from tests.crash.routers import DEADLINE_SECONDS, QUEUE, bodies_in, configured, start

ROUNDS = 5


class Driver(threading.Thread):
    """Does what Spark does: stages partitions, commits batches, and repeats what failed."""

    def __init__(self, port: int, token: str, seed: int, in_pieces: bool) -> None:
        super().__init__(daemon=True)
        url = f"http://127.0.0.1:{port}"
        self.target = Target(url, token, QUEUE, None, in_pieces=in_pieces)
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
        most = 400 if self.target.in_pieces else 30
        rows = [
            [b"%d/%d/%d" % (batch, partition, n) for n in range(self.draw.randrange(1, most))]
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
                if "is not staged here" not in str(error) and not isinstance(error, NoRouter):
                    raise
                self.ask("POST", f"/sinks/s/{batch}/abort")
                self.repeats += 1
            else:
                return

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | io.BytesIO = b"",
        kind: str = JSON,
        patience: float = ROUNDS * DEADLINE_SECONDS,
    ) -> None:
        """With the patience for all rounds: a slow machine may start routers for most of them."""
        self.target.port().ask(method, path, body, kind=kind, patience=patience)

    def once(self, batch: int, rows: list[list[bytes]]) -> None:
        parts = []
        if self.target.in_pieces:  # the same rows, cut otherwise
            both = [body for partition in rows for body in partition]
            middle = self.draw.randrange(1, len(both))
            rows = [both[middle:], both[:middle]]
        for partition, bodies in enumerate(rows):
            for _ in range(self.draw.choice((1, 1, 2))):  # of two attempts the second wins
                self._attempt += 1
                file = io.BytesIO()
                # New ids each time: what comes twice is not to be found out by its id.
                drawn: list[Row] = [(os.urandom(16), body, {}, None) for body in bodies]
                spool(iter(drawn), file)
                how = "?in_pieces=true" if self.target.in_pieces else ""
                path = f"/sinks/s/{batch}/{partition}/{self._attempt}{how}"
                self.ask("PUT", path, file, kind=ROWS)
            parts.append((partition, self._attempt))
        time.sleep(self.draw.choice((0, 0, 0.02)))
        commit = self.target.commit(parts)
        if self.target.in_pieces:  # who does not wait for the router sends the batch again
            self.ask("POST", f"/sinks/s/{batch}/commit", commit, patience=0.0)
        else:
            self.ask("POST", f"/sinks/s/{batch}/commit", commit)


def lose_what_is_not_synced(folder: Path) -> None:
    """As a machine that died before the files were written."""
    synced = set()
    for path in folder.glob("*.pieces"):
        named = path.name.removesuffix(".pieces")
        kept = json.loads(path.read_bytes())["parts"]
        synced |= {path.name, *(f"{named}-{part}-{attempt}" for part, attempt in kept)}
    for path in folder.iterdir():
        if path.name not in synced:
            path.unlink()


@pytest.mark.serial
@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
def test_every_row_is_in_the_queue_once_whenever_the_router_is_killed(
    tmp_path: Path, in_pieces: bool
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    port = configured(tmp_path)
    if in_pieces:
        with (tmp_path / "headgate.toml").open("a") as file:
            file.write("[limits]\nsink_messages = 3\n")
    router = start(tmp_path)
    token = (tmp_path / "state" / "admin.token").read_text().strip()
    driver = Driver(port, token, seed, in_pieces)
    driver.start()
    try:
        for _ in range(ROUNDS):
            time.sleep(draw.uniform(0.2, 1.0))
            router.kill()
            router.wait()
            if draw.random() < 0.5:  # the machine died with it
                lose_what_is_not_synced(tmp_path / "state" / "sinks")
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
