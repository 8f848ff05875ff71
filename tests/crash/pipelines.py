"""Kill -9 of everything at once: the router whose facts are told, the pipeline that makes tables
of them, and the router that the pipeline sends to."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import OperationalError

from headgate.client.admin import read_token
from headgate.journal import reader
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.iceberg import FACTS
from headgate.pipeline.tables.mirrors import Settings, mirror_of, turn_on
from tests.crash.rounds import APPS, Ledger, play, stored_in
from tests.crash.routers import bodies_in, configured, start
from tests.crash.worker import FAN

PLAYS = 3
"""Lives of the first router in each life of the pipeline."""
DEADLINE_SECONDS = 300


@dataclass
class Result:
    facts: int = 0
    sent: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    """How often a stranger has read the tables meanwhile."""
    wrong: list[str] = field(default_factory=list)
    """What the tables, the store and the queue do not agree on."""


def run(folder: Path, rounds: int, seed: int) -> Result:
    """So many lives of the pipeline, and one in which it catches up; then compare."""
    draw = random.Random(seed)
    result = Result()
    ledger = Ledger()
    target = folder / "target"
    url = f"http://127.0.0.1:{configured(target)}"
    play(folder, ledger, seed)  # something to read
    router = start(target)
    turn_on(Archive(str(folder / "tables")), Settings())
    stranger = Stranger(folder)
    stranger.start()
    try:
        for number in range(rounds):
            keeper = _keeper(folder, url)
            second = _keeper(folder, url, "--second") if draw.random() < 0.5 else None
            playing = threading.Thread(target=_play, args=(folder, ledger, seed + 1 + 100 * number))
            playing.start()
            time.sleep(draw.uniform(0.0, 3.0))
            if draw.random() < 0.7:
                router.kill()
                router.wait()
                router = start(target)
                result.kills["router"] += 1
            time.sleep(draw.uniform(0.0, 6.0))
            _kill(keeper)
            result.kills["pipeline"] += 1
            if second is not None:
                time.sleep(draw.uniform(0.0, 6.0))  # it goes on alone for a while
                _kill(second)
                result.kills["second pipeline"] += 1
                # Two that write one checkpoint can leave it so that it is refused; the tables know
                # how to go on without it.
                shutil.rmtree(folder / "tables" / "_checkpoint", ignore_errors=True)
            playing.join()
            print(f"life {number + 1}/{rounds} of the pipeline is over", file=sys.stderr)
        with _keeper(folder, url, "--once") as keeper:
            assert keeper.wait(DEADLINE_SECONDS) == 0, "the pipeline catches up"
    finally:
        router.send_signal(signal.SIGTERM)
        router.wait(DEADLINE_SECONDS)
        stranger.stop()
    _compare(folder, result)
    _compare_looks(folder, stranger, result)
    return result


def _play(folder: Path, ledger: Ledger, seed: int) -> None:
    for number in range(PLAYS):
        play(folder, ledger, seed + number)


def _keeper(folder: Path, url: str, *options: str) -> subprocess.Popen[str]:
    """A pipeline at work."""
    token = read_token(folder / "target" / "state" / "admin.token")
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.keeper", str(folder), url, *options],
        env={**os.environ, "HEADGATE_ADMIN__TOKEN": token},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # it is killed with its Java
    )
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == "ready\n"
    return keeper


def _kill(keeper: subprocess.Popen[str]) -> None:
    with keeper:
        os.killpg(keeper.pid, signal.SIGKILL)


def _compare(folder: Path, result: Result) -> None:
    told = {fact["number"]: fact for fact in reader.facts(folder / "journal")}
    kept = Counter(row["number"] for row in _rows(folder, "facts", "number"))
    result.facts = len(told)
    result.wrong += [f"fact {n} is kept {c} times" for n, c in kept.items() if c != 1]
    result.wrong += [f"fact {n} is told or kept, not both" for n in told.keys() ^ kept.keys()]
    left: dict[bytes, set[str]] = {}
    for row in _rows(folder, "messages", "message"):
        message = row["message"]
        if message in left:
            result.wrong.append(f"{message!r} is there twice")
        left[message] = set(APPS if message.startswith(FAN) else {""})
    for row in _rows(folder, "deliveries", "message", "app", "outcome"):
        if row["outcome"] == "confirmed":
            left[row["message"]].discard(row["app"])
    waiting = {message.decode() for message, apps in left.items() if apps}
    stored = stored_in(folder)
    result.wrong += [f"{m} is in the tables or stored, not both" for m in waiting ^ stored]
    sent = bodies_in(folder / "target")
    result.sent = sent.total()
    result.wrong += [f"{m!r} was sent {c} times" for m, c in sent.items() if c != 1]
    result.wrong += [f"{m!r} was accepted or sent, not both" for m in left.keys() ^ sent.keys()]


class Stranger(threading.Thread):
    """Somebody who reads the facts as an Iceberg table, with DuckDB, while all of it goes on."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.looks: list[tuple[int, int, int]] = []
        """Up to which fact the table said to be, its rows, and how many of them differ."""
        self.failure: Exception | None = None
        self._archive = Archive(str(folder / "tables"))
        self._over = threading.Event()

    def run(self) -> None:
        try:
            while not self._over.wait(0.5):
                self.look()
        except Exception as error:
            self.failure = error

    def stop(self) -> None:
        self._over.set()
        self.join()

    def look(self) -> None:
        mirror = mirror_of(self._archive)
        assert mirror is not None
        try:
            table = mirror.table("facts")
        except (NoSuchTableError, OperationalError):
            return  # no batch was there yet, or the catalog was held for too long by a slow machine
        snapshot = table.current_snapshot()
        if snapshot is None or snapshot.summary is None:
            return
        files = [task.file.file_path for task in table.scan().plan_files()]
        query = "select count(*), count(distinct number) from read_parquet($1)"
        with duckdb.connect() as connection:
            found = connection.execute(query, [files]).fetchone()
        assert found is not None
        self.looks.append((int(snapshot.summary[FACTS] or 0), *found))


def _compare_looks(folder: Path, stranger: Stranger, result: Result) -> None:
    """Whoever looks sees each fact up to a number once; in the end, all of them."""
    if stranger.failure is not None:
        result.wrong.append(f"a stranger could not read: {stranger.failure!r}")
    stranger.look()
    result.looks = len(stranger.looks)
    numbers = sorted(fact["number"] for fact in reader.facts(folder / "journal"))
    for upto, rows, distinct in stranger.looks:
        if not rows == distinct == bisect_right(numbers, upto):
            result.wrong.append(f"a stranger saw {rows} rows of {distinct} facts up to {upto}")
    if stranger.looks[-1][1] != len(numbers):
        result.wrong.append(f"the mirror ends with {stranger.looks[-1]}")


def _rows(folder: Path, table: str, *columns: str) -> list[dict[str, Any]]:
    archive = Archive(str(folder / "tables"))
    return [
        row
        for file in archive.state().table(table)
        for row in pq.ParquetFile(archive.storage.uri(file.path))
        .read(columns=[*columns])
        .to_pylist()
    ]
