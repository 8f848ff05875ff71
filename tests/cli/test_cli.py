from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from headgate import cli as package
from headgate.cli import Commands, cli
from headgate.cli import serve as serve_module
from headgate.errors import ConfigError, StoreError
from headgate.server.config import default_text


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str, **environ: str) -> Result:
    return CliRunner().invoke(cli, args, env=environ, prog_name="headgate")


def process(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from headgate.cli import main; main()", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_version_is_printed() -> None:
    assert run("--version").output == "headgate 0.1.0\n"


def test_help_names_the_commands() -> None:
    output = run("--help").output
    for name in ("serve", "check", "config", "expr"):
        assert f"\n  {name} " in output


def test_misuse_is_2() -> None:
    for args in (["nope"], ["serve", "--nope"], ["config"], ["config", "nope"]):
        result = run(*args)
        assert result.exit_code == 2
    assert "No such command 'nope'" in run("nope").stderr


def test_an_error_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    result = run("serve", "--config", "none.toml")
    assert result.exit_code == 1
    assert result.stderr == "headgate: none.toml: cannot be read: No such file or directory\n"
    assert result.stdout == ""


def test_debug_shows_the_traceback() -> None:
    assert isinstance(run("--debug", "serve", "--config", "none.toml").exception, ConfigError)
    done = process("--debug", "config", "show", "--config", "none.toml")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def failing(error: BaseException) -> Result:
    """What the group makes of a command that raises."""

    class Failing(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return click.Command(cmd_name, callback=self.fail)

        def fail(self) -> None:
            raise error

    group = Failing(params=[click.Option(["--debug"], is_flag=True)])
    return CliRunner().invoke(group, ["act"])


def test_every_error_of_ours_is_one_line() -> None:
    result = failing(StoreError("disk full"))
    assert (result.exit_code, result.stderr) == (1, "headgate: disk full\n")


def test_an_interrupt_is_130() -> None:
    result = failing(KeyboardInterrupt())
    assert (result.exit_code, result.output) == (130, "")


def test_a_closed_pipe_is_quiet() -> None:
    script = "from headgate.cli import main; main()"
    done = subprocess.run(
        f"{sys.executable} -c '{script}' config default | true",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""


def test_a_command_does_not_import_the_others() -> None:
    code = (
        "import sys; from headgate.cli import cli; "
        "cli(['expr', 'check', 'x > 1'], standalone_mode=False); "
        "assert 'uvicorn' not in sys.modules, 'slow'"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert done.stderr == b""


# config


def test_the_default_file_is_printed_as_it_is() -> None:
    assert run("config", "default").output == default_text()


def test_config_show_says_where_values_come_from(tmp_path: Path) -> None:
    Path("headgate.toml").write_text('[admin]\ntoken = "open sesame"\n[domains."a.b"]\n')
    result = run("config", "show", HEADGATE_ADMIN__PORT="1234")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "admin.port = 1234 # environment HEADGATE_ADMIN__PORT" in lines
    assert 'admin.token = "(hidden)" # file' in lines
    assert 'domains."a.b".mode = "priority" # default' in lines
    assert "# smp.create_password is not set # default" in lines
    assert "sesame" not in result.output
    assert tomllib.loads(result.stdout)["admin"]["port"] == 1234


def test_config_show_prints_json_lines_and_warnings_apart() -> None:
    Path("other.toml").write_text('[listen.bmq]\n[domains.x]\nsubscriptions = { a = ["b > 1"] }\n')
    result = run("config", "show", "--json", "--config", "other.toml")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"key": "listen.bmq.port", "value": "30114", "origin": "default"} in rows
    assert result.stderr.startswith("warning: domains.x.subscriptions.a: ")


def test_the_file_can_be_named_in_the_environment() -> None:
    Path("other.toml").write_text("directory = 'there'\n")
    result = run("config", "show", HEADGATE_CONFIG="other.toml")
    assert 'directory = "there"' in result.stdout


# check and serve


def test_check_prints_a_line_per_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.server.check.is_in_container", lambda: False)
    Path("headgate.toml").write_text("[admin]\nport = 0\n")
    result = run("check")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["warn" if name == "listen" else "ok", name]
        for name in ("config", "directory", "store", "admin", "listen", "files", "compiled")
    ]
    assert "warning" not in result.stdout
    rows = [json.loads(line) for line in run("check", "--json").stdout.splitlines()]
    assert rows[0]["name"] == "config"
    assert rows[0]["ok"] is True


def test_check_fails_if_something_does() -> None:
    Path("headgate.toml").write_text("[admin]\nprot = 0\n")
    result = run("check")
    assert result.exit_code == 3
    assert result.stdout == (
        "FAIL  config       headgate.toml: admin.prot: unknown key; did you mean port?\n"
    )
    Path("headgate.toml").write_text("directory = 'headgate.toml'\n[admin]\nport = 0\n")
    result = run("check")
    assert result.exit_code == 3
    assert "\nFAIL  directory    " in result.stdout


def test_serve_hands_the_configuration_to_the_router(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[SimpleNamespace] = []
    monkeypatch.setattr(
        serve_module,
        "serve_router",
        lambda config, ready: calls.append(SimpleNamespace(c=config, r=ready)),
    )
    assert run("serve", "--ready-file", "r.json", HEADGATE_ADMIN__PORT="7").exit_code == 0
    assert calls[0].c.admin.port == 7
    assert calls[0].r == Path("r.json")


def test_the_console_script_is_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[dict[str, str]] = []
    monkeypatch.setattr(package, "cli", lambda **kwargs: called.append(kwargs))
    package.main()
    assert called == [{"prog_name": "headgate"}]
