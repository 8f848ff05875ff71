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
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from headgate.client.admin import read_token
from headgate.journal import reader
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.mirrors import Settings, turn_on
from headgate.pipeline.tables.tables import TABLES
from tests.crash.keeper import NOTED
from tests.crash.moments import Moment
from tests.crash.onlooker import LOOKED_AT, Look
from tests.crash.rounds import APPS, Ledger, play, stored_in
from tests.crash.routers import bodies_in, configured, start
from tests.crash.worker import FAN

PLAYS = 3
"""Lives of the first router in each life of the pipeline."""
DEADLINE_SECONDS = 300
LIFE_SECONDS = 15.0
"""A pipeline that has no moment of its own is killed within so long."""
PATIENCE_SECONDS = 60.0
"""What a pipeline usually takes to its moment is a few seconds."""
ATTEMPTS = 3
"""To catch up: Spark gives up a Python that does not start within ten seconds."""
TIMES_MAX = 3
"""A moment may pass twice before it is the last one."""
ENGINES = ("spark", "duckdb", "pyiceberg", "duckdb of iceberg")


@dataclass
class Result:
    facts: int = 0
    sent: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    """At which a pipeline came to its end by itself."""
    looks: Counter[str] = field(default_factory=Counter)
    """How often somebody has read a table meanwhile, by engine."""
    wrong: list[str] = field(default_factory=list)
    """What the tables, the store and the queue do not agree on."""


def run(folder: Path, rounds: int, seed: int, patience: float = PATIENCE_SECONDS) -> Result:
    """So many lives of the pipeline, and one in which it catches up; then compare. One that does
    not come to its moment is killed after the patience."""
    draw = random.Random(seed)
    result = Result()
    ledger = Ledger()
    target = folder / "target"
    url = f"http://127.0.0.1:{configured(target)}"
    play(folder, ledger, seed)  # something to read
    (folder / NOTED).touch()
    turn_on(Archive(str(folder / "tables")), Settings())
    moments = _drawn(draw)
    router = start(target)
    try:
        with Onlooker(folder) as onlooker, ExitStack() as lives:
            for number in range(rounds):
                playing = threading.Thread(
                    target=_play, args=(folder, ledger, seed + 1 + 100 * number)
                )
                first, second = Life(folder, url, *next(moments)), None
                lives.callback(first.kill)
                if draw.random() < 0.5:
                    second = Life(folder, "--second", *next(moments))
                    lives.callback(second.kill)
                first.wait_until_ready()
                playing.start()
                time.sleep(draw.uniform(0.0, 3.0))
                if draw.random() < 0.7:
                    router.kill()
                    router.wait()
                    router = start(target)
                    result.kills["router"] += 1
                result.kills["pipeline"] += first.end(draw, patience)
                if second is not None:
                    result.kills["second pipeline"] += second.end(draw, patience)
                    # Two that write one checkpoint can leave it so that it is refused; the tables
                    # know how to go on without it.
                    shutil.rmtree(folder / "tables" / "_checkpoint", ignore_errors=True)
                playing.join()
                print(f"life {number + 1}/{rounds} of the pipeline is over", file=sys.stderr)
            caught_up = (Life(folder, url, "--once").is_done() for _ in range(ATTEMPTS))
            assert any(caught_up), "the pipeline catches up"
    finally:
        router.send_signal(signal.SIGTERM)
        router.wait(DEADLINE_SECONDS)
    result.moments.update((folder / NOTED).read_text().split())
    _compare(folder, result)
    _compare_looks(folder, onlooker.looks, result)
    return result


def _drawn(draw: random.Random) -> Iterator[tuple[str, ...]]:
    """Options of pipelines that say when to die: all moments in turn, in an order that is drawn;
    and none, for those that are killed when it suits us."""
    while True:
        for moment in draw.sample([*Moment, None], len(Moment) + 1):
            times = str(draw.randint(1, TIMES_MAX))
            yield () if moment is None else ("--die", moment.value, times)


class Onlooker:
    """A process that reads the tables all the time, and what it has seen."""

    def __init__(self, folder: Path) -> None:
        self.looks: list[Look] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.onlooker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def __enter__(self) -> Onlooker:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._reading.join()
        self._process.stdout.close()
        assert self._process.wait(DEADLINE_SECONDS) == 0, "all of it can be read all the time"

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.looks += (msgspec.json.decode(line, type=Look) for line in self._process.stdout)


def _play(folder: Path, ledger: Ledger, seed: int) -> None:
    for number in range(PLAYS):
        play(folder, ledger, seed + number)


class Life:
    """A pipeline as a process with its Java, from its start to its end."""

    def __init__(self, folder: Path, *options: str) -> None:
        token = read_token(folder / "target" / "state" / "admin.token")
        self._has_moment = "--die" in options
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.keeper", str(folder), *options],
            env={**os.environ, "HEADGATE_ADMIN__TOKEN": token},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # it is killed with its Java
        )

    def wait_until_ready(self) -> None:
        """Until it is at work, or came to its moment before that."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() in ("ready\n", "")

    def kill(self) -> None:
        """Leave nothing of it, if the test was broken off before its end."""
        with self._process:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def is_done(self) -> bool:
        """Wait until it ends by itself; whether it has done what it was for."""
        with self._process:
            return self._process.wait(DEADLINE_SECONDS) == 0

    def end(self, draw: random.Random, patience: float) -> bool:
        """Wait until it dies at its moment, or kill it if that does not come; whether it was
        killed. One that was overtaken by another, or starved by other programs, ends with a
        failure."""
        with self._process:
            with suppress(subprocess.TimeoutExpired):
                drawn = draw.uniform(0.0, LIFE_SECONDS)
                self._process.wait(patience if self._has_moment else drawn)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # and Java, if it is still there
        return self._process.returncode == -signal.SIGKILL


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


def _compare_looks(folder: Path, looks: list[Look], result: Result) -> None:
    """Whoever looks sees each fact up to a number once; in the end, all of them."""
    told = list(reader.facts(folder / "journal"))
    for name in LOOKED_AT:
        kinds = TABLES[name].kind_names
        numbers = sorted(
            fact["number"] for fact in told if name == "facts" or fact["kind"] in kinds
        )
        sums = [0, *accumulate(numbers)]
        for engine in ENGINES:
            seen = [look for look in looks if (look.by, look.table) == (engine, name)]
            result.looks[engine] += len(seen)
            for look in seen:
                rows = bisect_right(numbers, look.upto)
                if (look.rows, look.distinct, look.sum) != (rows, rows, sums[rows]):
                    result.wrong.append(f"{look}, and the journal has {rows} until then")
            if not seen or seen[-1].rows != len(numbers):
                result.wrong.append(f"{engine} ends with {seen[-1:]} of {len(numbers)} {name}")


def _rows(folder: Path, table: str, *columns: str) -> list[dict[str, Any]]:
    archive = Archive(str(folder / "tables"))
    return [
        row
        for file in archive.state().table(table)
        for row in pq.ParquetFile(archive.storage.uri(file.path))
        .read(columns=[*columns])
        .to_pylist()
    ]
