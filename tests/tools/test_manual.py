"""Manual pages: one for each command, which mandoc has nothing to say about."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_matrix import LEAVES
from tools import manual


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    manual.main(folder)
    return folder


def test_every_command_has_a_page(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    wanted = {f"headgate-{name.replace(' ', '-')}.1" for name in LEAVES}
    assert wanted <= names
    assert "headgate.1" in names


def test_a_page_says_what_help_says(folder: Path) -> None:
    text = (folder / "headgate-session-ls.1").read_text()
    assert "headgate\\-session\\-ls \\- Print the sessions, those in trouble first\n" in text
    assert "\\fB\\-\\-slow\\fP" in text
    assert "address" not in text


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="make peers installs mandoc")
def test_the_pages_are_well_formed(folder: Path) -> None:
    done = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning", *map(str, sorted(folder.iterdir()))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout + done.stderr == ""
