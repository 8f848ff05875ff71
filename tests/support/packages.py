"""What is shipped beside the code, for tests that read it, and the programs that judge it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.repository import DOCS, ROOT

PACKAGING = ROOT / "packaging"


def program(name: str, package: str) -> str:
    """Where a program of Debian is, which `make peers` installs."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (apt-get install {package})")
    return path


def run(*command: str | Path, folder: Path = ROOT) -> str:
    """What a program prints, that has to end well."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def documents(path: Path) -> list[dict[str, object]]:
    """The YAML documents of a file."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def documented_metrics() -> set[str]:
    page = (DOCS / "reference" / "metrics.md").read_text()
    return set(re.findall(r"^### `([a-z_]+)`", page, re.M))
