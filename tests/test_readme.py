"""What the README shows works when it is pasted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text()
CONSOLES = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)

COMMANDS = [
    (command, expected)
    for console in CONSOLES
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
]


def run(arguments: list[str], folder: Path) -> str:
    binaries = str(Path(sys.executable).parent)
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    environment["PATH"] = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.stdout


def test_there_are_five_things_to_paste() -> None:
    assert len(CONSOLES) + len(PROGRAMS) == 5


@pytest.mark.parametrize(("command", "expected"), COMMANDS)
def test_a_command_prints_what_the_readme_says(command: str, expected: str, tmp_path: Path) -> None:
    printed = run(["bash", "-c", command], tmp_path)
    if expected.endswith("...\n"):
        expected = expected.removesuffix("...\n")
        printed = printed[: len(expected)]
    assert printed == expected


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_prints_what_its_comments_say(program: str, tmp_path: Path) -> None:
    expected = "".join(f"{line}\n" for line in re.findall(r"print\(.*\)  # (.*)", program))
    assert run([sys.executable, "-c", program], tmp_path) == expected


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (README.parent / target).exists(), target


def test_the_two_commands_are_verbs_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for verb in ("run", "test"):
        assert f"make {verb} " in TEXT
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE)
