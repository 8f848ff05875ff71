"""What the README shows works when it is pasted."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import DOCS, ROOT

README = ROOT / "README.md"
TEXT = README.read_text()
CONSOLES: list[str] = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
SHELLS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def run(arguments: list[str], folder: Path) -> str:
    binaries = str(Path(sys.executable).parent)
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    environment["PATH"] = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=200,
    )
    return done.stdout


def test_there_are_three_things_to_paste() -> None:
    assert len(CONSOLES) + len(SHELLS) + len(PROGRAMS) == 3


@pytest.mark.timeout(600)
def test_programs_pass_the_strict_type_checker(tmp_path: Path) -> None:
    """Those of a user who has the package: of the README, the client and the Python API."""
    for page in (README, DOCS / "client.md", DOCS / "reference" / "api.md"):
        [program] = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        (tmp_path / f"of_{page.stem.lower()}.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *sorted(tmp_path.glob("*.py"))],
        cwd=ROOT,  # for the settings, and for what it knows of the package
        capture_output=True,
        text=True,
    )
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("console", CONSOLES)
def test_commands_print_what_the_readme_says(console: str, tmp_path: Path) -> None:
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE):
        printed = run(["bash", "-c", command], tmp_path)
        if expected.endswith("...\n"):
            expected = expected.removesuffix("...\n")
            printed = printed[: len(expected)]
        assert printed == expected


def test_a_message_goes_from_one_redis_cli_to_the_other(tmp_path: Path) -> None:
    """Of `make run`, which is `headgate demo`, with whatever port it has got."""
    [shell] = SHELLS
    subscribe, publish = (shlex.split(line, comments=True) for line in shell.splitlines())
    headgate = Path(sys.executable).with_name("headgate")
    environment = {**os.environ, "HEADGATE_ADMIN__PORT": "0", "HEADGATE_STORE__URL": "memory:"}
    with subprocess.Popen(
        [headgate, "demo"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        said = next(line.split() for line in demo.stdout if "redis-cli" in line)
        where = said[1 : said.index("subscribe")]
        subscribe[1:1] = publish[1:1] = where
        with subprocess.Popen(subscribe, stdout=subprocess.PIPE, text=True) as listening:
            assert listening.stdout is not None
            for expected in ("subscribe", "news", "1"):
                assert listening.stdout.readline() == f"{expected}\n"
            assert run(publish, tmp_path) == "1\n"
            for expected in ("message", "news", "rain tomorrow"):
                assert listening.stdout.readline() == f"{expected}\n"
            listening.terminate()
        demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=20) == 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_prints_what_its_comments_say(program: str, tmp_path: Path) -> None:
    expected = "".join(f"{line}\n" for line in re.findall(r"print\(.*\)  # (.*)", program))
    assert run([sys.executable, "-c", program], tmp_path) == expected


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (README.parent / target).exists(), target


def test_its_numbers_are_five_and_those_of_the_page_of_numbers() -> None:
    [table] = re.findall(r"## Five numbers\n[^|]*\|.*\n\|---\|---\|\n((?:\|.*\n)+)", TEXT)
    rows = table.splitlines()
    known = (DOCS / "numbers.md").read_text()
    shown = [number for row in rows for number in re.findall(r"\d[\d,.]*\d", row.split("|")[2])]
    assert len(rows) == 5
    assert shown
    assert [number for number in shown if number not in known] == []


def test_the_two_commands_are_verbs_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for verb in ("run", "test"):
        assert f"make {verb} " in TEXT
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE)
