"""Completion: what shells are given, and what they get back."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import cli
from headgate.cli.completion import PLACES, SHELLS
from headgate.cli.contexts import Context, Contexts


def complete(words: str, **environ: str) -> list[str]:
    given = {"_HEADGATE_COMPLETE": "bash_complete", "COMP_WORDS": words} | environ
    given["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    done = CliRunner().invoke(cli, prog_name="headgate", env=given)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_and_options_are_completed() -> None:
    assert complete("headgate sess") == ["session"]
    assert complete("headgate session ") == ["ls", "show", "close", "trim"]
    assert "--slow" in complete("headgate session ls --s")
    assert "--address" not in complete("headgate session ls --")
    assert complete("headgate completion ") == list(SHELLS)


def test_names_of_contexts_are_completed(tmp_path: Path) -> None:
    Contexts(tmp_path / "headgate").put("prod", Context("http://127.0.0.1:1"))
    assert complete("headgate session ls --context p", XDG_CONFIG_HOME=str(tmp_path)) == ["prod"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_installed_where_the_shell_looks(shell: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}
    done = CliRunner().invoke(cli, ["completion", shell, "--install"], env=environ)
    _, below, file = PLACES[shell]
    path = tmp_path / below / file
    assert done.stdout == f"{path}\n", done.output
    printed = CliRunner().invoke(cli, ["completion", shell], env=environ).stdout
    assert path.read_text() == printed
    assert "_HEADGATE_COMPLETE" in printed


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_reads_its_script(tmp_path: Path) -> None:
    script = CliRunner().invoke(cli, ["completion", "bash"]).stdout
    (tmp_path / "script").write_text(script)
    done = subprocess.run(
        ["bash", "-c", "source ./script && complete -p headgate"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        timeout=60,
        check=True,
    )
    assert done.stdout.strip().endswith("headgate")
