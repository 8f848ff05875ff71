"""The same functions where executors are not this process: on a cluster, and on Spark Connect."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.support.repository import ROOT

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
        timeout=240,
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


def own_home(folder: Path) -> Path:
    """The installed Spark by another name: workers write next to what they run."""
    home = folder / "spark"
    home.mkdir()
    for each in PACKAGE.iterdir():
        (home / each.name).symlink_to(each)
    return home


@pytest.mark.serial
def test_executors_in_processes_of_their_own_have_the_package(tmp_path: Path) -> None:
    home = own_home(tmp_path)
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4"}
    options = {"master": "local-cluster[2,1,1024]", "settings": settings}
    check(ran(options, tmp_path, SPARK_HOME=str(home)), daemons=2)
    assert (home / "work").is_dir()
    assert not (PACKAGE / "work").exists()


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    command = [str(PACKAGE / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 120
        while not _answers(port):
            assert server.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < until, (folder / "server.log").read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.serial
def test_a_connect_server_has_the_package_and_its_columns(tmp_path: Path) -> None:
    with connect_server(tmp_path) as remote:
        check(ran({"remote": remote}, tmp_path), daemons=1)
