"""The wheel and the source archive: everything is in them, nothing else is, and twice the same."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_build import PAGES
from tests.support.repository import ROOT, SOURCE
from tools.packages.distribution import build, epoch


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("dist"))


def tracked(folder: Path) -> set[str]:
    """Files that belong to the repository, from a folder of it on."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", str(folder)]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name for name in listed.splitlines() if (ROOT / name).exists()}


def test_the_wheel_has_every_file_of_the_package(made: list[Path]) -> None:
    """Whatever its kind: SQL, what says that it is typed, pages that a browser shows."""
    wheel, _ = made
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {name.removeprefix("src/") for name in tracked(SOURCE)}
    built = {name for name in names if name.endswith(".so")}
    # Of all sources in C or, without a compiler, of none; the wheel is of a platform then.
    assert len(built) in (0, sum(name.endswith(".c") for name in expected))
    assert ("none-any" in wheel.name) == (not built)
    expected |= built
    assert {"headgate/py.typed"} <= expected
    assert any(name.endswith(".sql") for name in expected)
    packed = {name for name in names if ".dist-info/" not in name}
    pages = {name for name in packed if name.startswith("headgate/docs/")}
    assert packed - pages == expected
    docs = {name for pattern in PAGES for name in map(str, (ROOT / "docs").glob(pattern))}
    assert {str(ROOT / name.removeprefix("headgate/")) for name in pages} == docs


def test_the_wheel_has_its_licence_and_its_command(made: list[Path]) -> None:
    wheel, _ = made
    with zipfile.ZipFile(wheel) as archive:
        [commands] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "headgate = headgate.cli:main" in archive.read(commands).decode()
        [licence] = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_the_source_archive_has_what_the_repository_has_and_no_secrets(made: list[Path]) -> None:
    _, archive = made
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert names - {"PKG-INFO"} <= tracked(ROOT)
    assert {"Makefile", "LICENSE", "packaging/systemd/headgate.service"} <= names
    assert not any("secrets/" in name or "wheels/" in name for name in names)


def test_two_builds_are_the_same(made: list[Path], tmp_path: Path) -> None:
    again = build(tmp_path)
    assert [path.name for path in again] == [path.name for path in made]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in made]


def test_times_are_those_of_the_last_commit(made: list[Path]) -> None:
    _, archive = made
    with tarfile.open(archive) as opened:
        assert {member.mtime for member in opened.getmembers()} == {epoch()}
