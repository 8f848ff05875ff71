"""Contexts: files that only their owner can read, and which router is asked in the end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.cli.contexts import Context, Contexts
from headgate.cli.which_router import Asked
from headgate.errors import ConfigError
from tests.support.cli_router import TOKEN, CliRouter, cli_router

HERE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HEADGATE_URL", "HEADGATE_CONTEXT", "HEADGATE_ROUTER", "HEADGATE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=answer, prog_name="headgate")


def test_a_context_is_written_used_shown_and_removed(home: Path) -> None:
    added = run("context", "add", "prod", "--url", "router:8222", "--resp", "router:6379", "--use")
    path = home / "config" / "headgate" / "contexts" / "prod.toml"
    assert added.stdout == f"prod: {path}\n"
    assert "the token goes to router unencrypted" in added.stderr
    assert run("context", "add", "near", "--url", HERE).stderr == ""
    run("context", "rm", "near")
    assert path.read_text() == 'url = "http://router:8222"\nresp = "router:6379"\n'
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    [row] = [json.loads(line) for line in run("context", "ls", "--json").stdout.splitlines()]
    assert row["in_use"] is True
    assert "because  the context in use, prod" in run("context", "show").stdout
    assert run("context", "rm", "prod").exit_code == 0
    assert run("context", "ls", "--json").stdout == ""
    assert Contexts.of(os.environ).current is None


def test_a_context_is_not_replaced_by_mistake() -> None:
    run("context", "add", "prod", "--url", HERE)
    again = run("context", "add", "prod", "--url", "http://other:1")
    assert (again.exit_code, again.stderr) == (
        1,
        "headgate: there is a context prod; to replace it, say --yes\n",
    )
    assert run("context", "add", "prod", "--url", "http://other:1", "--yes").exit_code == 0


@pytest.mark.parametrize("name", ["../etc", "", ".hidden", "a b", "x" * 65])
def test_a_name_is_one_of_a_file(name: str) -> None:
    done = run("context", "add", name, "--url", HERE)
    assert done.exit_code == 1
    assert "is no name of a context" in done.stderr


def test_a_context_that_is_not_there_says_which_are() -> None:
    run("context", "add", "prod", "--url", HERE)
    done = run("context", "use", "prd")
    assert done.exit_code == 1
    assert "there is no context prd; known are: prod" in done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [("url = 1", "url is not a text"), ("urk = ''", "unknown key urk"), ("=", "is not TOML")],
)
def test_a_file_that_is_wrong_says_where(home: Path, text: str, error: str) -> None:
    run("context", "add", "prod", "--url", HERE)
    Contexts.of(os.environ).file("prod").write_text(text)
    assert error in run("session", "ls", "--context", "prod").stderr


def test_a_token_is_not_shown() -> None:
    run("context", "add", "prod", "--url", HERE, "--token", "open sesame")
    for words in (("ls", "--wide"), ("ls", "--json"), ("show", "prod"), ("show", "prod", "--json")):
        shown = run("context", *words).output
        assert "sesame" not in shown
        assert "(hidden)" in shown
    assert "sesame" not in repr(Contexts.of(os.environ).get("prod"))


def test_what_is_said_nearest_counts(home: Path) -> None:
    contexts = Contexts.of(os.environ)
    for name in ("option", "variable", "used"):
        contexts.put(name, Context(f"http://{name}:1"))
    contexts.use("used")
    config = home / "headgate.toml"
    asked = Asked("http://url:1", "option", None, config)
    environ = {
        "XDG_CONFIG_HOME": str(home / "config"),
        "HEADGATE_URL": "http://variable-url:1",
        "HEADGATE_CONTEXT": "variable",
    }

    def url(asked: Asked, *without: str) -> str | None:
        left = {name: text for name, text in environ.items() if name not in without}
        return asked.chosen(left).context.url

    assert url(asked) == "http://url:1"
    assert url(Asked(None, "option", None, config)) == "http://option:1"
    assert url(Asked(None, None, None, config)) == "http://variable-url:1"
    assert url(Asked(None, None, None, config), "HEADGATE_URL") == "http://variable:1"
    both = ("HEADGATE_URL", "HEADGATE_CONTEXT")
    assert url(Asked(None, None, None, config), *both) is None
    assert url(Asked(), *both) == "http://used:1"
    contexts.use(None)
    assert url(Asked(), *both) is None
    assert Asked().place()[0] == "http://127.0.0.1:8222"


def test_a_token_in_a_file_is_read(home: Path) -> None:
    (home / "token").write_text("abc\n")
    Contexts.of(os.environ).put("prod", Context(HERE, f"file:{home}/token"))
    assert Asked(context="prod").place() == (HERE, "abc", None)
    (home / "token").unlink()
    with pytest.raises(ConfigError, match="the token cannot be read from"):
        Asked(context="prod").place()


def test_a_listener_that_the_context_does_not_name_is_said_to_be_missing() -> None:
    Contexts.of(os.environ).put("prod", Context(HERE))
    done = run("pub", "--context", "prod", "news", "x")
    assert done.exit_code == 1
    assert "--resp HOST:PORT" in done.stderr


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


def test_a_login_keeps_a_token_that_is_right(router: CliRouter) -> None:
    wrong = run("login", "here", "--url", router.url, answer="nonsense\n")
    assert wrong.exit_code == 5
    assert Contexts.of(os.environ).names() == []
    right = run("login", "here", "--url", router.url, answer=f"{TOKEN}\n")
    assert right.stdout == f"here: {router.url}\n", right.output
    token_file = Contexts.of(os.environ).token_file("here")
    assert token_file.stat().st_mode & 0o777 == 0o600
    assert run("domain", "ls").exit_code == 0
    assert run("context", "rm", "here").exit_code == 0
    assert not token_file.exists()


def test_pub_goes_where_the_context_says(router: CliRouter) -> None:
    host, port = router.resp
    Contexts.of(os.environ).put(
        "here", Context(router.url, resp=f"redis://:sesame@{host}:{port}", bmq=router.bmq)
    )
    assert run("pub", "--context", "here", "ticks.AAPL", "1").exit_code == 0
    assert run("pub", "--context", "here", "bmq://work/other", "1").exit_code == 0
