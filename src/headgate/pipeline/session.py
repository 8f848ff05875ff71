"""A Spark session: embedded by default, or on a cluster, or a client of Spark Connect."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headgate.errors import HeadgateError, PipelineError
from headgate.pipeline import java

EMBEDDED: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
    # Hadoop sets the rights of some files by itself, whatever the umask of the process is.
    "spark.hadoop.fs.permissions.umask-mode": "077",
}
"""For a session of our own on this machine. Nothing listens beyond loopback, and what is written is
for its owner alone."""

ALWAYS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Without it a batch reader that takes filters is refused.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Else Parquet has times in a type of old, without least and largest, that Iceberg lacks.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

FEW_CORES = 4
FRUGAL = "-XX:+UseSerialGC -Xms64m -XX:MaxNewSize=32m -XX:MinHeapFreeRatio=10"
"""Java that collects before it takes more memory, as is right for few cores and a small heap. With
other memory or options that the user gives, Java is left as it is."""
ARENAS = "MALLOC_ARENA_MAX"
"""The C library keeps memory for each thread, of which Java has many."""

LOGGING = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{{1}}: %m%n
"""

QUIET = "off"
"""The level at which Spark says nothing. Its failures come back to us as exceptions."""

ANSWER_SECONDS_MAX = 5
"""Spark itself waits a minute for its master, and ten for a Connect server."""


def open_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    log_level: str = QUIET,
) -> SparkSession:
    """A session for `master` (``local[*]`` if nothing else is given) or for the Connect server at
    `remote`. Under ``spark-submit`` it is the one that was submitted to."""
    wanted = {**ALWAYS, **(settings or {})}
    if remote is not None:
        return _connected(remote, wanted)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has said where and how
        with one_line("Spark did not start on the cluster"):
            return _built(SparkConf(), wanted)
    master = master or "local[*]"
    with one_line(f"Spark did not start on {master}"):
        _check(master)
        wanted = {**_environment(master, log_level), **frugal(wanted), **wanted}
        conf = SparkConf().setMaster(master)
        _launch(conf.setAll(list(wanted.items())), log_level)
        session = _built(conf, wanted)
    session.sparkContext.setLogLevel(log_level.upper())
    return session


def _built(conf: SparkConf, wanted: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName("headgate").config(conf=conf)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


# A session of our own.


def _environment(master: str, log_level: str) -> dict[str, str]:
    """Settings of a session that is started here, for this machine."""
    folder = _folder()
    java.prepare(folder)
    # Workers must be the Python that runs this, or a stream waits for them in vain.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOGGING.format(level=log_level))
    wanted = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}",
        "spark.ui.enabled": "false",  # its pages ask nobody who he is, and can end what runs
    }
    is_local = re.match(r"local(\[|$)", master) is not None
    if is_local or master.startswith("local-cluster"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Else a question to the catalog leaves a folder in the user's directory.
        wanted |= {**EMBEDDED, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    if not is_local:
        wanted["spark.submit.pyFiles"] = str(packed(folder))
    return wanted


def frugal(given: Mapping[str, str], cores: int | None = None) -> dict[str, str]:
    """Options that make Java take little memory, unless the user has given some."""
    own = {"spark.driver.memory", "spark.driver.defaultJavaOptions"}
    if (cores or os.cpu_count() or 1) > FEW_CORES or own & given.keys():
        return {}
    os.environ.setdefault(ARENAS, "1")
    return {"spark.driver.defaultJavaOptions": FRUGAL}


@cache
def _folder() -> Path:
    """Where this process keeps what Spark must find as a file."""
    folder = tempfile.mkdtemp(prefix="headgate-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _launch(conf: SparkConf, log_level: str) -> None:
    """Start the JVM, unless one runs. Its output before Spark's log is set up is of interest only
    if it does not start, so it goes to a file; so does later output."""
    if SparkContext._gateway is not None or log_level != QUIET:
        return
    output_path = _folder() / "java.txt"
    with output_path.open("wb") as output:
        try:
            # In a session of its own: who ends this process by its group, as supervisors do, has it
            # end after its batch, which Java is needed for.
            asked = {"stderr": output, "start_new_session": True}
            gateway = launch_gateway(conf, asked)  # type: ignore[no-untyped-call]
        except Exception as error:
            lines = output_path.read_text(errors="replace").splitlines()
            shown = [line for line in lines if not line.startswith("WARNING:")]
            why = clean(shown[0]) if shown else reason(error)
            raise PipelineError(f"the Java of Spark did not start: {why}") from error
    SparkContext._ensure_initialized(gateway=gateway)


def _check(master: str) -> None:
    """See that one of the masters of a cluster takes connections."""
    places = re.findall(r"(?<=[/,])([^/,]+):(\d+)", master) if master.startswith("spark:") else []
    failures = []
    for host, port in places:
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS_MAX).close()
            return
        except OSError as error:
            failures.append(error.strerror or str(error))
    if failures:
        raise PipelineError(f"no Spark master answers at {master}: {', '.join(failures)}")


# A session of a server.


def _connected(remote: str, wanted: Mapping[str, str]) -> SparkSession:
    with one_line(f"no session at {remote}"):
        _check_server(remote)
        session = SparkSession.builder.remote(remote).getOrCreate()
        session.addArtifacts(str(packed(_folder())), pyfile=True)
        for name, value in wanted.items():
            if name.startswith("spark.sql."):
                session.conf.set(name, value)
    return session


def _check_server(remote: str) -> None:
    """See that somebody speaks the protocol there."""
    try:
        import grpc  # type: ignore[import-untyped]
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
    except ImportError as error:
        raise PipelineError(
            f"Spark Connect needs more packages ({error}): pip install 'headgate[connect]'"
        ) from error
    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(ANSWER_SECONDS_MAX)
    except grpc.FutureTimeoutError:
        raise PipelineError(f"no Spark Connect server answers at {remote}") from None
    finally:
        channel.close()


def packed(folder: Path) -> Path:
    """This package as one file that executors can import from."""
    root = Path(__file__).parents[1]
    path = folder / "headgate.zip"
    if path.exists():
        return path
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(root.rglob("*.py")):
            archive.write(source, Path(root.name) / source.relative_to(root))
    return part.replace(path)


# Failures.


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """A failure of Spark as one line, not a page of Java."""
    try:
        yield
    except HeadgateError:
        raise
    except Exception as error:
        raise PipelineError(f"{what}: {reason(error)}") from error


PREFIX = re.compile(r'(Exception in thread "\w+" |Caused by: |: )?([\w$]+\.)+(?=[\w$]+: )')
"""The text that Java puts before the name of an exception."""

CAUSE = re.compile(r"[\w$]*(Error|Exception|Failure): .+")
"""A line that names a failure; the last of them is the root of the others."""


def reason(error: BaseException) -> str:
    """The line of a failure that a person would look for."""
    lines = [clean(line) for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if CAUSE.fullmatch(line)]
    return (causes[-1:] or lines[:1] or [type(error).__name__])[0]


def clean(line: str) -> str:
    return PREFIX.sub("", line.strip(), count=1)[:400]
