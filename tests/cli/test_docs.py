"""What ``docs/command-line.md`` shows is what commands print; ``...`` stands for what differs."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_router import CONFIG, CliRouter, cli_router
from tests.support.repository import DOCS

TEXT = (DOCS / "command-line.md").read_text()
RESULT = "echo $?"


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def examples() -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", "\n".join(blocks("console")), flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.strip()


def pattern(output: str) -> str:
    """Spaces may be more or fewer, and dots are anything."""
    words = [".*?".join(re.escape(piece) for piece in word.split("...")) for word in output.split()]
    return r"\s+".join(words)


def test_the_commands_print_what_the_page_shows(
    router: CliRouter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = 0
    for command, expected in examples():
        if command == RESULT:
            assert str(code) == expected
            continue
        words = shlex.split(command)
        assert words[0] == "headgate"
        done = router.run(*words[1:])
        code = done.exit_code
        assert code in (0, 1, 2) if "--nagios" in words else code == 0, (command, done.output)
        assert re.fullmatch(pattern(expected), done.stdout.strip(), re.DOTALL), (
            command,
            done.stdout,
        )


def test_the_router_of_the_page_is_that_of_the_tests() -> None:
    [config] = map(tomllib.loads, blocks("toml"))
    assert config["domains"].items() <= tomllib.loads(CONFIG)["domains"].items()


def test_every_command_that_the_page_names_is_there() -> None:
    from tests.cli.test_matrix import LEAVES

    known = {word for name in LEAVES for word in (name, name.split()[0])}
    named = re.findall(r"`headgate ([a-z][a-z-]*(?: [a-z-]+)?)", TEXT)
    wrong = [n for n in named if n not in known and n.split()[0] not in known]
    assert wrong == []
