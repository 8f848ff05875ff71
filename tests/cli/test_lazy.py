"""The map of commands is that of the commands, and to look at it imports none of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from headgate.cli import cli, completing
from headgate.cli.completing import shadow
from headgate.cli.lazy import COMPLETING, LazyGroup

HELP_MAX = 72
"""Beside a name of eight letters that is a line of a terminal."""


def groups(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, LazyGroup]]:
    if isinstance(group, LazyGroup):
        yield " ".join(path), group
        for name in group.lazy:
            child = group.get_command(click.Context(group), name)
            assert child is not None
            yield from groups(child, (*path, name))


GROUPS = dict(groups(cli))


@pytest.mark.parametrize("path", GROUPS)
def test_the_short_helps_of_the_map_are_those_of_the_commands(path: str) -> None:
    group = GROUPS[path]
    shown = {name: text for name, (_, text) in group.lazy.items()}
    assert shown == {name: short_help(group, name) for name in group.lazy}
    assert {name for name, text in shown.items() if len(text) > HELP_MAX} == set()


def short_help(group: LazyGroup, name: str) -> str:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command.get_short_help_str(limit=1000)


@pytest.mark.parametrize("path", GROUPS)
def test_old_names_lead_to_commands_that_are_there(path: str) -> None:
    group = GROUPS[path]
    assert set(group.hidden_names.values()) <= set(group.lazy)
    assert not set(group.hidden_names) & set(group.lazy)


def loaded(script: str, **environ: str) -> set[str]:
    """The modules of ours, and heavy ones of others, that a process has loaded at its end."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('LOADED', *sys.modules, file=sys.stderr))\n" + script
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | environ,
        timeout=60,
        check=False,
    )
    [line] = [line for line in done.stderr.splitlines() if line.startswith("LOADED ")]
    heavy = ("asyncio", "ssl", "msgspec", "hiredis", "pyarrow", "uvicorn", "cryptography")
    return {m for m in line.split()[1:] if m.startswith("headgate") or m in heavy}


BARE = {"headgate", "headgate.cli", "headgate.cli.lazy", "headgate.errors"}


def test_help_imports_no_command() -> None:
    assert loaded("from headgate.cli import cli; cli(['--help'])") == BARE


def test_completing_names_imports_no_command() -> None:
    script = "from headgate.cli import main; main()"
    found = loaded(
        script, _HEADGATE_COMPLETE="bash_complete", COMP_WORDS="headgate qu", COMP_CWORD="1"
    )
    assert found == BARE


@pytest.mark.parametrize("path", [path for path in GROUPS if path])
def test_completing_names_in_a_group_loads_nothing_heavy(path: str) -> None:
    script = "from headgate.cli import main; main()"
    words = f"headgate {path} "
    found = loaded(
        script,
        _HEADGATE_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split())),
    )
    assert not found & {"asyncio", "msgspec", "hiredis", "pyarrow", "uvicorn", "cryptography"}


def leaves(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in group.lazy:
        child = group.get_command(click.Context(group), name)
        if isinstance(child, LazyGroup):
            yield from leaves(child, (*path, name))
        elif not isinstance(child, click.Group):
            yield (*path, name)


def completed(path: tuple[str, ...], start: str) -> list[tuple[str, str, str | None]]:
    asker = BashComplete(cli, {}, "headgate", COMPLETING)
    found = asker.get_completions(list(path), start)
    return [(item.type, item.value, item.help) for item in found]


@pytest.mark.parametrize("path", list(leaves(cli)), ids=" ".join)
def test_a_shell_is_told_what_the_command_itself_would_tell(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(COMPLETING, raising=False)
    starts = ("--", "")
    asked = [completed(path, start) for start in starts]
    monkeypatch.setenv(COMPLETING, "bash_complete")
    assert shadow(" ".join(path)) is not None, "python -m tools.reference writes the table anew"
    assert [completed(path, start) for start in starts] == asked
    for option in [value for _, value, _ in asked[0] if value.startswith("--")]:
        told = completed((*path, option), "")
        monkeypatch.delenv(COMPLETING)
        assert told == completed((*path, option), ""), option
        monkeypatch.setenv(COMPLETING, "bash_complete")


@pytest.mark.parametrize(
    "path", ["agent send", "pipeline run", "pipeline dryrun", "ntf serve", "demo", "journal tail"]
)
def test_completing_options_imports_no_command(path: str) -> None:
    words = f"headgate {path} --"
    found = loaded(
        "from headgate.cli import main; main()",
        _HEADGATE_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    group = {f"headgate.cli.{path.split()[0]}"} if " " in path else set()
    assert found - group == BARE | {"headgate.cli.completing"}


def test_without_the_table_the_commands_are_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(completing, "TABLE", tmp_path / "none.json")
    monkeypatch.setattr(completing, "read", cache(completing.read.__wrapped__))
    monkeypatch.setenv(COMPLETING, "bash_complete")
    assert shadow("version") is None
    assert ("plain", "--json", "Print one JSON object per line.") in completed(("version",), "--")


def test_a_wrong_name_is_told_what_is_near() -> None:
    done = CliRunner().invoke(cli, ["chekc"])
    assert done.exit_code == 2
    assert "No such command 'chekc'. Did you mean 'check'?" in done.stderr
    assert "Did you mean 'top'?" in CliRunner().invoke(cli, ["status"]).stderr
    assert "Did you mean '--help'?" in CliRunner().invoke(cli, ["help"]).stderr
    assert CliRunner().invoke(cli, ["zzz"]).stderr.endswith("No such command 'zzz'.\n")
