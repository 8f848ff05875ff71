"""The folder of the tables: what is put is there whole and once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from headgate.errors import PipelineError
from headgate.pipeline.tables import storage as storage_module
from headgate.pipeline.tables.storage import Storage


def test_of_many_who_put_at_once_one_does(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        put = list(pool.map(lambda n: storage.put("log/1", b"%d" % n), range(40)))
    assert sum(put) == 1
    assert storage.read("log/1") == b"%d" % put.index(True)
    assert storage.names("log") == ["1"], "nothing else is left"
    assert (tmp_path / "log" / "1").stat().st_mode & 0o777 == 0o600


def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}")
    assert storage.read("a/b") is None
    assert storage.names("a") == []
    assert storage.walk("a") == []
    storage.delete("a/b")


def test_files_are_found_below_a_folder_and_folders_go_with_their_last_file(tmp_path: Path) -> None:
    storage = Storage(f"{tmp_path}/")
    storage.put("data/t/one/day=1/a", b"12")
    storage.put("data/t/one/day=2/b", b"345")
    storage.put("data/t/one/_SUCCESS", b"")
    storage.put("data/u/c", b"")
    found = [(each.path, each.bytes) for each in storage.walk("data/t/one")]
    assert found[1:] == [("data/t/one/day=1/a", 2), ("data/t/one/day=2/b", 3)]
    storage.delete("data/t/one/day=1/a")
    assert (tmp_path / "data/t/one/day=2").exists()
    storage.delete("data/t/one/day=2/b")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["u"]


def test_elsewhere_a_name_is_looked_for_before_it_is_written(tmp_path: Path) -> None:
    storage = Storage(f"local://{tmp_path}")
    storage.root = f"file://{tmp_path}"  # what Arrow opens like any other file system
    assert storage.put("log/1", b"one")
    assert not storage.put("log/1", b"two")
    assert storage.read("log/1") == b"one"


def test_a_place_that_arrow_does_not_know_is_named() -> None:
    with pytest.raises(PipelineError, match="cannot get at tables in gopher://host/tables"):
        Storage("gopher://host/tables").names("_log")


def test_a_store_that_does_not_answer_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands without Spark ended with a page of Python."""

    def silent(*asked: object) -> None:
        raise OSError("nobody answers")

    asks = ("get_file_info", "open_input_stream", "delete_file")
    files = SimpleNamespace(**dict.fromkeys(asks, silent))
    found = SimpleNamespace(from_uri=lambda uri: (files, "bucket"))
    replaced = SimpleNamespace(**{**vars(fs), "FileSystem": found})
    monkeypatch.setattr(storage_module, "fs", replaced)
    storage = Storage("s3a://bucket/tables")
    for look in (storage.names, storage.walk, storage.read, storage.delete):
        with pytest.raises(PipelineError, match="cannot get at tables in s3a://bucket/tables: nob"):
            look("_log")


def test_spark_and_arrow_each_hear_their_own_name_of_a_bucket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """D10: the documented name worked for neither."""
    asked = []

    def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
        asked.append(uri)
        return fs.LocalFileSystem(), str(tmp_path)

    monkeypatch.setattr(
        storage_module,
        "fs",
        SimpleNamespace(**{**vars(fs), "FileSystem": SimpleNamespace(from_uri=from_uri)}),
    )
    storage = Storage("s3a://bucket/tables")
    assert storage.names("_log") == []
    assert asked == ["s3://bucket/tables?allow_delayed_open=true"]
    assert storage.uri("x") == "s3a://bucket/tables/x"


def test_the_folder_of_the_tables_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old").chmod(0o755)
    for root in (str(tmp_path / "new"), f"file://{tmp_path}/url", str(tmp_path / "old")):
        Storage(root).make()
    Storage("s3://bucket/tables").make()
    found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert found == dict.fromkeys(("new", "url", "old"), 0o700)
