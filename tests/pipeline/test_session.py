"""How a session starts, and what is said if it does not."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headgate.errors import PipelineError
from headgate.pipeline import session
from headgate.pipeline.session import (
    ANSWER_SECONDS_MAX,
    frugal,
    one_line,
    open_session,
    packed,
    reason,
)

REFUSED = 1
"""A port on which nobody listens."""


def said(**where: str) -> str:
    with pytest.raises(PipelineError) as caught:
        open_session(**where)  # type: ignore[arg-type]
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_master_that_is_not_there_is_one_line_at_once() -> None:
    master = f"spark://127.0.0.1:{REFUSED}"
    started = time.monotonic()
    assert said(master=master) == f"no Spark master answers at {master}: Connection refused"
    assert time.monotonic() - started < ANSWER_SECONDS_MAX


def test_any_of_several_masters_may_answer() -> None:
    master = f"spark://127.0.0.1:{REFUSED},localhost:{REFUSED}"
    assert said(master=master).endswith(": Connection refused, Connection refused")


def test_a_connect_server_that_is_not_there_is_one_line_in_seconds() -> None:
    remote = f"sc://127.0.0.1:{REFUSED}"
    started = time.monotonic()
    assert said(remote=remote) == f"no Spark Connect server answers at {remote}"
    assert time.monotonic() - started < 6 * ANSWER_SECONDS_MAX


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of somebody who takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_server_of_another_kind_is_one_line_in_seconds(silent: int) -> None:
    remote = f"sc://127.0.0.1:{silent}"
    assert said(remote=remote) == f"no Spark Connect server answers at {remote}"


def test_an_address_that_is_none_is_told() -> None:
    assert "The URL must start with 'sc://'" in said(remote="http://127.0.0.1")


def start_failed(master: str, memory: str, folder: Path) -> str:
    """What a process says that starts a session like this; there must be no JVM in it yet."""
    code = (
        "from headgate.errors import PipelineError\n"
        "from headgate.pipeline.session import open_session\n"
        f"settings = {{'spark.driver.memory': '{memory}'}}\n"
        "try:\n"
        f"    open_session(master='{master}', settings=settings)\n"
        "except PipelineError as error:\n"
        "    print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stderr == ""
    assert list(folder.iterdir()) == [], "what was made for the session is gone"
    return ran.stdout


def test_a_java_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    assert start_failed("local[1]", "2x", tmp_path) == (
        "the Java of Spark did not start: Invalid maximum heap size: -Xmx2x\n"
    )


def test_a_master_that_makes_no_sense_is_one_line(tmp_path: Path) -> None:
    assert start_failed("nonsense", "1g", tmp_path) == (
        "the Java of Spark did not start: SparkException: Master must either be yarn or start with"
        " spark, k8s, or local\n"
    )


def test_the_package_is_one_file_that_can_be_imported_from(tmp_path: Path) -> None:
    archive = packed(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from headgate.expr import predicate\n"
        "print(predicate.compile_expression('x > 1').matches({'x': 2}), predicate.__file__)\n"
    )
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert ran.stdout.split() == ["True", f"{archive}/headgate/expr/predicate.py"], ran.stderr
    assert packed(tmp_path) == archive, "it is packed once"
    assert list(tmp_path.iterdir()) == [archive]


def test_a_failure_becomes_one_line_and_an_error_of_ours_stays_as_it_is() -> None:
    with pytest.raises(PipelineError, match=r"^it failed: no such thing$"), one_line("it failed"):
        raise RuntimeError("no such thing\n\tat org.apache.spark.Thing(Thing.scala:1)")
    with pytest.raises(PipelineError, match=r"^say it so$"), one_line("it failed"):
        raise PipelineError("say it so")


PAGE_OF_JAVA = """\
An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: java.io.IOException: Failed to connect to /127.0.0.1:1
\tat org.apache.spark.network.client.TransportClientFactory.createClient(Transport.java:294)
Caused by: io.netty.channel.AbstractChannel$AnnotatedConnectException: Connection refused
\tat io.netty.channel.socket.nio.NioSocketChannel.doFinishConnect(NioSocketChannel.java:337)
\t... 1 more
"""

WORKER = """\
Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure:
Lost task 0.0 (TID 2) (127.0.0.1 executor driver): org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "worker.py", line 2060, in main
    process()
headgate.errors.PipelineError: segment 1-20.parquet is newer: upgrade

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:581)
"""

PLAN = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `colour` cannot be resolved. SQLSTATE: 42703;
'Project ['colour]
+- Range (0, 1, step=1)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PAGE_OF_JAVA, "AbstractChannel$AnnotatedConnectException: Connection refused"),
        (WORKER, "PipelineError: segment 1-20.parquet is newer: upgrade"),
        (PLAN, PLAN.splitlines()[0]),
        ("no rows", "no rows"),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_is_the_line_that_tells_the_most(text: str, line: str) -> None:
    assert reason(RuntimeError(text)) == line


LOOPBACK = re.compile(r"(0{16}FFFF0{4})?0100007F|0{24}01000000")
"""127.0.0.1, the same as an address of version 6, and ::1, as Linux lists them."""


def listening(pid: int) -> list[str]:
    """The addresses on which a process takes connections."""
    opened = set()
    for each in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # it was closed meanwhile
            opened.add(os.readlink(f"/proc/{pid}/fd/{each}"))
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in opened:
                addresses.append(fields[1].partition(":")[0])
    return addresses


def test_nothing_listens_beyond_loopback(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10
    gateway = SparkContext._gateway
    assert gateway is not None
    addresses = listening(gateway.proc.pid) + listening(os.getpid())
    assert len(addresses) >= 2
    assert [each for each in addresses if not LOOPBACK.fullmatch(each)] == []


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_spark_has_no_pages_unless_they_are_asked_for(master: str) -> None:
    assert session._environment(master, "off")["spark.ui.enabled"] == "false"


def test_the_catalog_leaves_nothing_in_the_working_directory(spark: SparkSession) -> None:
    folder = spark.conf.get("spark.sql.warehouse.dir")
    assert folder is not None
    assert not Path(folder.removeprefix("file:")).is_relative_to(Path.cwd())


def test_a_session_that_runs_is_given_again(spark: SparkSession) -> None:
    assert open_session(master="local[2]").sparkContext is spark.sparkContext


def test_java_takes_little_memory_where_cores_are_few_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "3")
    options = "spark.driver.defaultJavaOptions"
    assert "UseSerialGC" in frugal({}, cores=2)[options]
    assert frugal({}, cores=16) == {}
    assert frugal({"spark.driver.memory": "4g"}, cores=2) == {}
    assert frugal({options: ""}, cores=2) == {}
    assert os.environ["MALLOC_ARENA_MAX"] == "3", "as somebody has set it"
