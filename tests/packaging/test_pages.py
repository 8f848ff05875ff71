"""The pages about installing and running: commands print what they say, and files are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from headgate.server.config import load_config
from tests.support.packages import PACKAGING
from tests.support.repository import DOCS, ROOT

NAMES = (
    "install",
    "alerts",
    "behind-a-proxy-with-tls",
    "back-up-and-restore",
    "upgrade",
    "size-a-machine",
    "threat-model",
    "design/packages",
)
PAGES = [DOCS / f"{name}.md" for name in NAMES]
PAGES += [PACKAGING / "README.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def run(command: str, folder: Path) -> str:
    binaries = str(Path(sys.executable).parent)
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    environment["PATH"] = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=200,
    )
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """Line by line, in one folder; `...` is whatever stands there."""
    for console in blocks(page, "console"):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.M):
            pattern = re.escape(expected).replace(r"\.\.\.", ".*")
            printed = run(command, tmp_path)
            assert re.fullmatch(pattern, printed), f"{command}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    names = re.findall(r"\b(packaging/[\w./-]+|tools/[\w/]+\.py)", page.read_text())
    missing = [name for name in names if not (ROOT / name.rstrip("./")).exists()]
    assert [name for name in missing if not name.endswith("/wheels")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_has_in_other_languages_can_be_read(page: Path, tmp_path: Path) -> None:
    for text in blocks(page, "yaml"):
        yaml.safe_load(text)
    for number, text in enumerate(blocks(page, "toml")):
        tomllib.loads(text)
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        load_config(path, {})
    for text in blocks(page, "sh"):
        subprocess.run(["bash", "-n", "-c", text], check=True)
