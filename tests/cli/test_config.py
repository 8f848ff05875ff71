"""``headgate config diff`` and ``validate``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.cli.config_file import FILE_NAME
from headgate.server.config.reader import FILE_NAME as READ
from tests.support.cli_router import CONFIG, CliRouter, cli_router


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["config", *arguments], prog_name="headgate")


def rows(done: Result) -> list[dict[str, str]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_file_that_is_looked_for_is_the_one_that_is_read() -> None:
    assert FILE_NAME == READ


def test_a_file_is_held_against_the_defaults() -> None:
    Path("headgate.toml").write_text(
        '[listen.resp]\n[admin]\nport = 9\n[domains.a]\nmode = "broadcast"\n'
    )
    done = run("diff", "--json")
    assert done.exit_code == 3
    assert rows(done) == [
        {"key": "admin.port", "before": "8222", "after": "9", "takes": "at a restart"},
        {
            "key": "listen.resp.host",
            "before": None,
            "after": '"127.0.0.1"',
            "takes": "at a restart",
        },
        {"key": "domains.a.mode", "before": None, "after": '"broadcast"', "takes": "at a reload"},
    ]


def test_two_files_are_compared_without_showing_secrets() -> None:
    Path("headgate.toml").write_text('[admin]\ntoken = "one"\n')
    Path("new.toml").write_text('[admin]\ntoken = "two"\n')
    done = run("diff", "new.toml", "--json")
    assert done.exit_code == 3
    assert rows(done) == [
        {
            "key": "admin.token",
            "before": '"(hidden)"',
            "after": '"(hidden)"',
            "takes": "at a restart",
        }
    ]
    Path("new.toml").write_text('[admin]\ntoken = "one"\n')
    same = run("diff", "new.toml")
    assert (same.exit_code, len(same.stdout.splitlines())) == (0, 1)
    assert run("diff", "new.toml", "--running").exit_code == 2


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


def test_a_file_is_held_against_the_router_that_runs(router: CliRouter, tmp_path: Path) -> None:
    changed = tmp_path / "changed.toml"
    changed.write_text(
        CONFIG.replace('directory = "state"', f'directory = "{router.folder}/state"')
        + '[log]\nlevel = "debug"\n[journal]\nkeep = "3 days"\n'
    )
    done = router.run("config", "diff", "--running", "--json", HEADGATE_CONFIG=str(changed))
    assert done.exit_code == 3
    found = {row["key"]: row["takes"] for row in rows(done) if row["key"] != "directory"}
    assert found == {"journal.keep": "at a restart", "log.level": "at a reload"}


def test_a_configuration_is_right_or_the_exit_code_is_3() -> None:
    Path("headgate.toml").write_text("[admin]\nprot = 1\n")
    wrong = run("validate")
    assert wrong.exit_code == 3
    assert wrong.stdout == "FAIL  headgate.toml: admin.prot: unknown key; did you mean port?\n"
    Path("headgate.toml").write_text("[admin]\nport = 1\n")
    assert run("validate").stdout == "ok    headgate.toml\n"
    [row] = rows(run("validate", "--json"))
    assert row == {"config": "headgate.toml", "ok": True, "error": None, "warnings": []}
