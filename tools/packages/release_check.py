"""A release, tried without publishing anything: `python -m tools.packages.release_check FOLDER`.

Wheel and source archive are built twice and compared; the wheel is installed where nothing else is,
and its demo is played; what it stands on is written down as a list of parts (CycloneDX).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import version
from pathlib import Path

from tools.packages.distribution import ROOT, build, epoch

EXTRAS = "postgres,push"
DEMO_SECONDS = 300


def build_twice(folder: Path) -> list[Path]:
    """What is released, in the folder; raise if a second build differs."""
    made = build(folder)
    with tempfile.TemporaryDirectory() as again:
        digests = [[_digest(path) for path in files] for files in (made, build(Path(again)))]
    assert digests[0] == digests[1], "two builds of one commit differ"
    for path, digest in zip(made, digests[0], strict=True):
        print(f"{path.name}  {path.stat().st_size:,} bytes  sha256 {digest}")
    return made


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def install(wheel: Path, folder: Path) -> Path:
    """A Python that has the wheel and what it needs, and nothing else."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    _pip(python, f"{wheel}[{EXTRAS}]")
    return python


def _pip(python: Path, *wanted: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "-c", str(ROOT / "constraints.txt"), *wanted], check=True)


def play(python: Path) -> None:
    """The version and the demo of what was installed, in an empty folder."""
    headgate = python.with_name("headgate")
    # Nothing of the repository is found by chance.
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    environment["HEADGATE_ADMIN__PORT"] = "0"
    with tempfile.TemporaryDirectory() as folder:
        for command in (["--version"], ["demo", "--once"]):
            began = time.monotonic()
            done = subprocess.run(
                [headgate, *command],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                timeout=DEMO_SECONDS,
                check=True,
            )
            lines = done.stdout.splitlines()
            seconds = time.monotonic() - began
            print(f"headgate {' '.join(command)}: {len(lines)} lines in {seconds:.1f} s")
            assert lines


def list_parts(python: Path, target: Path, folder: Path) -> None:
    """The list of parts of what was installed, by a program that is installed elsewhere."""
    venv.create(folder, with_pip=True)
    _pip(folder / "bin" / "python", "cyclonedx-bom")
    program = str(folder / "bin" / "cyclonedx-py")
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--of", "JSON"]
    places = ["-o", str(target), str(python)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}
    command = [program, "environment", *options, *places]
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    parts = json.loads(target.read_text())
    print(f"{target.name}: CycloneDX {parts['specVersion']}, {len(parts['components'])} parts")


def main(folder: Path) -> None:
    made = build_twice(folder)
    [wheel] = (path for path in made if path.suffix == ".whl")
    with tempfile.TemporaryDirectory() as place:
        python = install(wheel, Path(place) / "clean")
        play(python)
        target = folder / f"headgate-{version('headgate')}.cdx.json"
        list_parts(python, target, Path(place) / "tools")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
