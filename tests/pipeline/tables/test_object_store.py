"""The tables in an object store, with moto's S3 server in the place of one.

moto is no package that the tests install: it and botocore take 80 MB. Where ``moto_server`` is on
PATH (``pip install moto flask flask-cors``) they run. Spark's own part needs jars, hadoop-aws and
the SDK that it wants, which JARS names, separated by commas. Files that are uploaded in parts, as
pyiceberg has it, are refused by Arrow as moto 5.2 answers them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from headgate.pipeline.source import weight
from headgate.pipeline.tables import upkeep
from headgate.pipeline.tables.archive import Archive, attempt_of
from headgate.pipeline.tables.manifests import Batch, File, Outdated
from headgate.pipeline.tables.tables import TABLES
from tests.crash.routers import free_port
from tests.support.journals import facts_of_a_day, write_journal

pytestmark = pytest.mark.skipif(
    shutil.which("moto_server") is None, reason="pip install moto flask flask-cors"
)

JARS = "S3A_JARS"
SETTINGS = {
    "path.style.access": "true",
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    # Times as numbers, and not as 60s: so they are understood by a connector that is older than
    # the Hadoop of Spark, which is what PyPI has (hadoop-aws 3.3.1, in sagemaker-pyspark).
    "threads.keepalivetime": "60",
    "connection.establish.timeout": "5000",
    "connection.timeout": "200000",
    "connection.request.timeout": "0",
    "connection.ttl": "-1",
    "multipart.purge.age": "86400",
}
CHANNELS = TABLES["channels"]
DEADLINE_SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    url = f"http://127.0.0.1:{free_port()}"
    with (tmp_path_factory.mktemp("moto") / "log").open("wb") as log:
        process = subprocess.Popen(
            ["moto_server", "-H", "127.0.0.1", "-p", url.rpartition(":")[2]], stdout=log, stderr=log
        )
    with process:
        end = time.monotonic() + DEADLINE_SECONDS
        while not _answers(url):
            assert time.monotonic() < end, "it starts"
            time.sleep(0.1)
        yield url
        process.terminate()


def _answers(url: str) -> bool:
    try:
        with urlopen(Request(f"{url}/tables", method="PUT")):  # it makes the bucket, too
            return True
    except URLError:
        return False


@pytest.fixture
def archive(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return Archive(f"s3a://tables/{tmp_path.name}/pipeline")


def put(archive: Archive, first: int, rows: int = 10) -> File:
    """A file of a table, as a light batch writes it."""
    types = {"bigint": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "string": pa.string()}
    held = {
        name: pa.nulls(rows, types[kind])
        for name, kind in CHANNELS.stored_types.items()
        if kind in types
    }
    held["number"] = pa.array(range(first, first + rows))
    held["day"] = pa.array([date(2026, 11, 15)] * rows)
    attempt = attempt_of(first)
    archive.write(CHANNELS, attempt, pa.table(held))
    (file,) = archive.written(CHANNELS, attempt, first - 1, first + rows - 1)
    return file


def batch_of(file: File, number: int) -> Batch:
    return Batch(number, "query", "", file.after, file.upto, 10, 1.0, 1.0, 1.0)


def numbers(archive: Archive) -> list[int]:
    """What counts, as somebody reads it who has the list of files."""
    files = archive.state().table("channels")
    parts = [archive.storage.columns(file.path, ["number"]) for file in files]
    return sorted(pa.concat_tables(parts)["number"].to_pylist())


def test_a_log_in_an_object_store_is_committed_read_and_cleaned(archive: Archive) -> None:
    for number in range(40):
        file = put(archive, 10 * number + 1)
        archive.commit({"channels": [file]}, batch=batch_of(file, number))
    assert numbers(archive) == list(range(1, 401))
    assert not archive.storage.put(f"_log/{39:020}.json", b"another"), "it is taken"
    with pytest.raises(Outdated, match="was written by another pipeline meanwhile"):
        archive.commit({}, batch=batch_of(file, 39))
    small = archive.state().table("channels")
    whole = put(archive, 1, 400)
    archive.commit({"channels": [whole]}, {"channels": [each.path for each in small]})
    assert numbers(archive) == list(range(1, 401))
    later = Archive(archive.storage.root, clock=lambda: time.time() + upkeep.GRACE_SECONDS + 60)
    assert upkeep.clean(later) == 40
    assert [found.path for found in archive.storage.walk("_data")] == [whole.path]


@pytest.mark.spark
@pytest.mark.timeout(2000)
@pytest.mark.skipif(JARS not in os.environ, reason=f"{JARS} names no jars of hadoop-aws")
def test_spark_keeps_tables_in_an_object_store(archive: Archive, tmp_path: Path) -> None:
    """Of a batch that Spark writes, of a light one after it, and by who asks."""
    facts = facts_of_a_day(weight.LIGHT_FACTS // 2)[: weight.LIGHT_FACTS + 10]
    store = {
        "endpoint": os.environ["AWS_ENDPOINT_URL"],
        "access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
        **SETTINGS,
    }
    conf = {f"spark.hadoop.fs.s3a.{name}": it for name, it in store.items()}
    conf["spark.jars"] = os.environ[JARS]

    settings = [part for name, it in conf.items() for part in ("--conf", f"{name}={it}")]
    place = ["--journal", str(tmp_path / "journal"), "--tables", archive.storage.root]
    program = str(Path(sys.executable).with_name("headgate"))

    def headgate(*command: str) -> str:
        done = subprocess.run(
            [program, "pipeline", *command, *settings, *place],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    first, rest = facts[: weight.LIGHT_FACTS + 1], facts[weight.LIGHT_FACTS + 1 :]
    write_journal(tmp_path / "journal", first, per_segment=len(first))
    headgate("run", "--once")
    assert len(archive.state().table("facts")) > 1, "Spark writes a file for each task"
    write_journal(tmp_path / "journal", rest, per_segment=len(rest), first=len(first) + 1)
    headgate("run", "--once")
    assert archive.state().upto == len(facts)
    query = "select count(*) n, count(distinct number) of from facts"
    assert json.loads(headgate("sql", query, "--json")) == {"n": len(facts), "of": len(facts)}
