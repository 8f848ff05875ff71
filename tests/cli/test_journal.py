"""``headgate journal``, and the segments on the admin port."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.journal.segments import segments

HEADGATE = Path(sys.executable).with_name("headgate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state directory of a demo that was played once."""
    folder = tmp_path_factory.mktemp("journal")
    environment = {
        **os.environ,
        "HEADGATE_DIRECTORY": str(folder),
        "HEADGATE_ADMIN__PORT": "0",
    }
    subprocess.run([HEADGATE, "demo", "--once"], env=environment, check=True, timeout=60)
    return folder


def journal(folder: Path, *arguments: str) -> Result:
    environment = {"HEADGATE_DIRECTORY": str(folder)}
    return CliRunner().invoke(cli, ["journal", *arguments], env=environment)


def test_tail_prints_facts_from_a_number_on(folder: Path) -> None:
    done = journal(folder, "tail", "--from", "1", "--count", "3", "--json")
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [fact["number"] for fact in facts] == [1, 2, 3]
    assert [fact["kind"] for fact in facts[:2]] == ["RouterStarted", "SessionOpened"]
    plain = journal(folder, "tail", "--from", "2", "--count", "1").stdout
    assert "SessionOpened" in plain
    assert "name=alice" in plain


def test_tail_without_a_number_prints_the_last_twenty(folder: Path) -> None:
    assert len(journal(folder, "tail").stdout.splitlines()) == 20


@pytest.mark.parametrize("count", [1, 2, 30, 10**6])
def test_tail_prints_the_last_as_many_as_it_is_told(folder: Path, count: int) -> None:
    done = journal(folder, "tail", "--from", "1", "--json")
    numbers = [json.loads(line)["number"] for line in done.stdout.splitlines()]
    last = journal(folder, "tail", "--count", str(count), "--json").stdout.splitlines()
    assert [json.loads(line)["number"] for line in last] == numbers[-count:]
    assert journal(folder, "tail", "--count", "0").stdout == ""


def test_tail_prints_times_as_people_write_them(folder: Path) -> None:
    [line] = journal(folder, "tail", "--count", "1").stdout.splitlines()
    assert re.match(r" *\d+  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\d\+00:00  [A-Z]", line)


def test_stats_count_by_kind(folder: Path) -> None:
    done = journal(folder, "stats", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    counts = {row["kind"]: row["facts"] for row in rows}
    assert counts["Accepted"] == 6
    assert counts["SessionOpened"] == counts["SessionClosed"] == 13


def test_verify_says_which_segment_is_broken(folder: Path, tmp_path: Path) -> None:
    assert journal(folder, "verify").exit_code == 0
    copy = tmp_path / "journal"
    copy.mkdir()
    for segment in segments(folder / "journal"):
        (copy / segment.path.name).write_bytes(segment.path.read_bytes()[:100])
    done = journal(tmp_path, "verify")
    assert done.exit_code == 3
    assert "FAIL" in done.stdout
    assert "move it away" in done.stdout


def test_another_journal_is_named_by_its_folder(folder: Path, tmp_path: Path) -> None:
    """That of a notification server, for instance; the configuration is not asked then."""
    elsewhere = ("--journal", str(folder / "journal"))
    assert len(journal(tmp_path, "tail", *elsewhere).stdout.splitlines()) == 20
    assert journal(tmp_path, "stats", *elsewhere).stdout == journal(folder, "stats").stdout
    assert journal(tmp_path, "verify", *elsewhere).exit_code == 0
    assert journal(tmp_path, "tail", "--journal", str(tmp_path / "nowhere")).exit_code == 2


def test_a_configuration_without_a_journal_says_so(folder: Path) -> None:
    environment = {"HEADGATE_STORE__URL": "memory:"}
    done = CliRunner().invoke(cli, ["journal", "stats"], env=environment)
    assert done.exit_code == 1
    assert "keeps no journal" in done.stderr


def test_segments_are_listed_and_downloadable(folder: Path, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    environment = {**os.environ, "HEADGATE_DIRECTORY": str(folder), "HEADGATE_ADMIN__PORT": "0"}
    with subprocess.Popen(
        [HEADGATE, "serve", "--ready-file", ready], env=environment, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while not ready.exists():
                assert process.poll() is None
            admin = json.loads(ready.read_text())["admin"]
            address = f"http://{admin['host']}:{admin['port']}/journal/segments"
            token = Path(admin["token_file"]).read_text().strip()

            def asked(url: str) -> urllib.request.Request:
                return urllib.request.Request(url, headers={"authorization": f"Bearer {token}"})

            with urllib.request.urlopen(asked(address), timeout=10) as answer:
                [listed, *_] = json.loads(answer.read())
            assert listed["first"] == 1
            with urllib.request.urlopen(asked(f"{address}/{listed['name']}"), timeout=10) as answer:
                table = pq.read_table(io.BytesIO(answer.read()))
            assert table["number"][0].as_py() == 1
            for wrong in ("../../queues.db", "%2e%2e%2fqueues.db", "x.parquet"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(asked(f"{address}/{wrong}"), timeout=10)
        finally:
            process.terminate()
