"""The same functions where executors are not this process: on a cluster, and on Spark Connect."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headgate.pipeline.tables.archive import Archive
from tests.crash.routers import free_port
from tests.support.journals import facts_of_a_day, write_journal
from tests.support.repository import DOCS, ROOT

PACKAGE = Path(pyspark.__file__).parent

JOB = """
import json, sys
from random import Random
from headgate.expr.predicate import compile_expression
from headgate.pipeline.session import open_session
from tests.support import spark_parity as parity

TEXT = 'y % 3 != 1 && (s >= "a" || b)'

def evaluated(batches):
    import os
    import headgate
    import pyarrow as pa
    from headgate.expr.predicate import compile_expression
    predicate = compile_expression(TEXT)
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            fields = {name: value.values() for name, value in row["properties"]}
            message = {name: next(v for v in of if v is not None) for name, of in fields.items()}
            rows.append((row["row"], str(predicate.evaluate(message)), headgate.__file__))
        numbers, outcomes, homes = zip(*rows) if rows else ((), (), ())
        daemons = [os.getppid()] * len(rows)
        yield pa.record_batch(
            [pa.array(numbers, pa.int64()), pa.array(outcomes, pa.string()),
             pa.array(homes, pa.string()), pa.array(daemons, pa.int64())],
            ["row", "outcome", "home", "daemon"],
        )

spark = open_session(**json.loads(sys.argv[1]))
random = Random(5)
messages = [parity.message(random) for _ in range(400)]
frame = spark.createDataFrame(parity.as_table(messages), parity.SCHEMA).repartition(8)
texts = [TEXT, "x + 1 > 0 || n / m > y", "-(x * y) < m % n", 's == "\\U0001f600" || exists(x)']
predicates = [compile_expression(text) for text in texts]
wanted = parity.of_router(predicates, messages)
schema = "row bigint, outcome string, home string, daemon bigint"
rows = sorted(frame.mapInArrow(evaluated, schema).collect())
print(json.dumps({
    "columns": parity.of_spark(predicates, frame) == wanted,
    "executors": [row.outcome for row in rows] == wanted[0],
    "outcomes": len(set(wanted[0])),
    "homes": sorted({row.home for row in rows}),
    "daemons": len({row.daemon for row in rows}),
}))
spark.stop()
"""
"""Evaluates with columns, and with this package on the executors."""


def ran(options: dict[str, Any], folder: Path, **environment: str) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-c", JOB, json.dumps(options)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == "", "Spark says nothing of its own"
    told: dict[str, Any] = json.loads(finished.stdout)
    return told


def check(told: dict[str, Any], daemons: int) -> None:
    assert told["columns"], "the columns agree with the router"
    assert told["executors"], "the evaluator is the same on executors"
    assert told["outcomes"] >= 4, "true, false, and errors"
    (home,) = told["homes"]
    assert "headgate.zip/headgate/" in home, "executors have what was shipped, not what is here"
    assert told["daemons"] == daemons


CLUSTER, ENDED_BY_SIGNAL, SERVER, ENDED_BY_STOP = re.findall(
    r"```sh\n(.*?)```", (DOCS / "clusters.md").read_text(), re.DOTALL
)
"""What the page has to be pasted into a shell."""

FACTS = facts_of_a_day(2)[:40]
DEADLINE_SECONDS = 600


class Shell:
    """Where it is pasted: an empty folder, with a journal as a router leaves it. Of what is
    pasted the ports are others."""

    def __init__(self, folder: Path, port: str) -> None:
        self._folder, self._port, self.free_port = folder, port, free_port()
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SPARK_LOCAL_IP": "127.0.0.1",  # a page that forgets it is found out by its servers
            "SPARK_MASTER_WEBUI_PORT": "0",
            "SPARK_WORKER_WEBUI_PORT": "0",
        }
        write_journal(folder / "var" / "journal", FACTS, per_segment=len(FACTS))

    @contextmanager
    def serving(self, text: str) -> Iterator[int]:
        """Servers that it starts, until they are ended; the number of their session."""
        environment = {**self._environment}
        del environment["SPARK_LOCAL_IP"]
        with (self._folder / "server.log").open("w") as log:
            servers = subprocess.Popen(
                ["bash", "-c", f"{self._here(text)}\nwait"],
                cwd=self._folder,
                env=environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            end = time.monotonic() + DEADLINE_SECONDS
            while not _answers(self.free_port):
                assert servers.poll() is None, (self._folder / "server.log").read_text()
                assert time.monotonic() < end, (self._folder / "server.log").read_text()
                time.sleep(0.2)
            yield servers.pid
        finally:
            os.killpg(servers.pid, signal.SIGTERM)
            servers.wait(60)

    def run(self, text: str) -> str:
        """Have it done; what it printed."""
        done = subprocess.run(
            ["bash", "-c", self._here(text)],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )
        assert done.returncode == 0, (done.stderr, (self._folder / "run.txt").read_text())
        return done.stdout

    def _here(self, text: str) -> str:
        assert self._port in text
        return text.replace(self._port, str(self.free_port))


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


LISTENS = "0A"
"""The state of a socket, in words of the kernel."""


def hosts_of(session: int) -> set[str]:
    """Where processes of a session listen."""
    sockets = {inode for pid in _pids_of(session) for inode in _sockets_of(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == LISTENS and rest[5] in sockets:
                words = bytes.fromhex(local.partition(":")[0])
                turned = b"".join(words[n : n + 4][::-1] for n in range(0, len(words), 4))
                host = ip_address(turned)
                mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
                found.add(str(mapped or host))
    return found


def _pids_of(session: int) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(ProcessLookupError):
                if os.getsid(int(folder.name)) == session:
                    yield int(folder.name)


def _sockets_of(pid: int) -> Iterator[str]:
    with suppress(FileNotFoundError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link)):
                    yield found[1]


def check_tables(folder: Path) -> None:
    """Everything is in them, and they are as readable as those of one process."""
    archive = Archive(str(folder / "var" / "pipeline"))
    state = archive.state()
    assert state.upto == len(FACTS)
    files = state.table("facts")
    rows = [archive.storage.columns(file.path, ["number"])["number"] for file in files]
    assert sorted(number for each in rows for number in each.to_pylist()) == [
        *range(1, len(FACTS) + 1)
    ]


@pytest.mark.serial
@pytest.mark.timeout(3 * DEADLINE_SECONDS)
def test_a_cluster_as_the_page_says_has_the_package_and_keeps_tables(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "7077")
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
        "spark.cores.max": "2",
        # So that both workers have a share.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{DEADLINE_SECONDS}s",
    }
    with shell.serving(CLUSTER) as session:
        options = {"master": f"spark://127.0.0.1:{shell.free_port}", "settings": settings}
        check(ran(options, tmp_path, SPARK_LOCAL_IP="127.0.0.1"), daemons=2)
        assert hosts_of(session) == {"127.0.0.1"}
        assert f"batch 0: {len(FACTS)} facts" in shell.run(ENDED_BY_SIGNAL)
    check_tables(tmp_path)
    assert not (PACKAGE / "work").exists()


@pytest.mark.serial
@pytest.mark.timeout(3 * DEADLINE_SECONDS)
def test_a_connect_server_as_the_page_says_has_the_package_and_keeps_tables(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path, "15002")
    with shell.serving(SERVER) as session:
        check(ran({"remote": f"sc://127.0.0.1:{shell.free_port}"}, tmp_path), daemons=1)
        assert hosts_of(session) == {"127.0.0.1"}
        told = shell.run(ENDED_BY_STOP)
        assert f"batch 0: {len(FACTS)} facts" in told
        assert "asked whoever keeps the tables" in told
    check_tables(tmp_path)
