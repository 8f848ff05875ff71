"""Every command: what it prints, as text and as JSON, and its exit code if no router answers or the
token is wrong.

The commands are found by walking through them. One that is new has to be given arguments here, or a
reason why it cannot be tried here.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from headgate.cli import cli
from tests.support.cli_router import OPERATOR, CliRouter, cli_router

Words = dict[str, Callable[[], str]]


@dataclass(frozen=True)
class Case:
    """How a command is tried."""

    arguments: tuple[str, ...] = ()
    code: int = 0
    """Its exit code when all is well."""
    or_else: int | None = None
    """Another one, if it depends on how the router is at the moment."""
    is_silent: bool = False
    """It may have nothing to print."""
    acts: bool = False
    """It changes something: the token that only looks is refused."""
    typed: str | None = None
    """What comes on standard input."""
    away: int = 4
    wrong: int = 5
    """Its exit codes if no router answers, and if the token or password is wrong."""


def case(text: str = "", **others: object) -> Case:
    return Case(tuple(text.split()), **others)  # type: ignore[arg-type]


ASKING = {
    "top": case("--once"),
    "ls sessions": case(),
    "ls queues": case(),
    "ls domains": case(),
    "ls sinks": case(is_silent=True),
    "show session": case("{session}"),
    "show queue": case("work/jobs"),
    "show domain": case("work"),
    "session ls": case(),
    "session show": case("{session}"),
    "queue ls": case("work"),
    "queue show": case("work/jobs"),
    "queue peek": case("work/jobs"),
    "queue purge": case("{queue} --yes", acts=True),
    "queue delete": case("{queue} --yes", acts=True),
    "queue look-again": case("work/jobs", acts=True),
    "domain ls": case(),
    "domain show": case("work"),
    "explain": case("work/jobs --property kind=express"),
    "expr impact": case('kind=="x" --queue work/jobs'),
    "config diff": case("--running", is_silent=True),
    "check": case("--nagios", or_else=1, away=2, wrong=3),
    "support": case("--out {folder}/s.tar.gz"),
    "ls channels": case(),
    "ls patterns": case(),
    "ls services": case(is_silent=True),
    "show service": case("ab", code=1),
    "session close": case("{guest} --yes", acts=True),
    "session trim": case("{session} --yes", acts=True),
    "channel ls": case(),
    "channel tail": case("ticks.* --count 1"),
    "pattern ls": case(),
    "service ls": case(is_silent=True),
    "service show": case("ab", code=1),
    "service sweep": case("ab", code=1),
    "domain aside": case("work/jobs"),
    "domain poison": case(is_silent=True),
    "expr compare": case("{folder}/set.jsonl {folder}/set.jsonl --domain work"),
    "drain": case("--yes", acts=True),
    "undrain": case(acts=True),
    "reload": case(acts=True),
    "log-level": case("debug", acts=True),
    "request": case("sessions"),
}
"""Commands that ask a running router, over its admin port."""

CONNECTING = {
    "pub": case("news hello"),
    "sub": case("ticks.AAPL --count 1"),
    "bench pub": case("--count 100"),
    "bench sub": case("--count 10 --subscribers 2"),
    "bench rtt": case("--count 10"),
}
"""Commands that connect to a listener of channels."""

ALONE = {
    "version": case(),
    "cheat": case("look"),
    "config show": case(),
    "config validate": case(),
    "cert ls": case(),
    "context show": case(),
    "context add": case("there --url http://127.0.0.1:1 --yes"),
    "context ls": case(is_silent=True),
    "docs": case("command-line"),
    "expr check": case('kind=="x"'),
    "expr repl": case("--property kind=x", typed='kind == "x"\n'),
    "init": case(),
}
"""Commands that need no router, and have ``--json``."""

ELSEWHERE = {
    "serve": "runs until it is stopped: tests/server/test_serve.py",
    "demo": "plays a scene: tests/cli/test_demo.py",
    "simulate": "has no router: tests/cli/test_cli.py and the worlds",
    "login": "asks for a token: tests/cli/test_context.py",
    "context use": "prints nothing: tests/cli/test_context.py",
    "context rm": "prints nothing: tests/cli/test_context.py",
    "completion": "prints a script: tests/cli/test_completion.py",
    "config default": "prints a file: tests/cli/test_cli.py",
    "cert renew": "makes a leaf: tests/cli/test_cert.py",
    "expr test": "reads and prints lines of its own: tests/cli/test_expr.py",
    "store copy": "has no router: tests/store/test_copy.py",
    "store check": "has no router: tests/store/test_inspection.py",
    "store vacuum": "has no router: tests/store/test_inspection.py",
    "bench queue": "over another wire: tests/cli/test_bench.py",
    "bench route": "over another wire: tests/cli/test_bench.py",
    "journal": "reads files: tests/cli/test_journal.py",
    "pipeline": "starts Spark: tests/cli/test_pipeline.py, tests/pipeline/test_commands.py",
    "agent": "has routers of its own: tests/cli/test_agent.py",
    "ntf": "is another server: tests/cli/test_ntf.py",
}
"""Commands that are tried elsewhere, and why; of a group, all of them."""


def leaves(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        here = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from leaves(command, here)
        else:
            yield here, command


LEAVES = dict(leaves(cli))
TRIED = ASKING | CONNECTING | ALONE


def test_every_command_is_tried_or_has_a_reason() -> None:
    named = [name for name in LEAVES if name in TRIED or _elsewhere(name)]
    assert sorted(LEAVES) == sorted(named)
    assert set(TRIED) <= set(LEAVES)
    assert {n for n in ELSEWHERE if not any(_is_in(leaf, n) for leaf in LEAVES)} == set()
    assert {name for name in TRIED if _elsewhere(name)} == set()


def _elsewhere(name: str) -> bool:
    return any(_is_in(name, prefix) for prefix in ELSEWHERE)


def _is_in(name: str, prefix: str) -> bool:
    return f"{name} ".startswith(f"{prefix} ")


def options(command: click.Command) -> set[str]:
    return {option for param in command.params for option in param.opts}


def test_those_that_ask_a_router_can_all_be_pointed_at_one() -> None:
    asking = {
        name
        for name, command in LEAVES.items()
        if {"--url", "--token-file"} <= options(command) and not _elsewhere(name)
    }
    assert asking - {"context show"} == set(ASKING)
    for name in asking | set(CONNECTING):
        assert {"--context", "--url", "--config"} <= options(LEAVES[name]), name


def test_every_command_that_prints_has_json() -> None:
    without = {name for name, command in LEAVES.items() if "--json" not in options(command)}
    assert {name for name in without if not _elsewhere(name)} == set()


def test_every_list_has_the_same_options() -> None:
    wanted = {"--watch", "--columns", "--sort", "--limit", "--no-header", "--wide", "--json"}
    for name, command in LEAVES.items():
        if name.endswith(" ls") or name.startswith("ls "):
            assert wanted <= options(command), name


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("set.jsonl").write_text('{"id": "a", "app": "", "expression": "n > 0", "priority": 1}\n')


@pytest.fixture(autouse=True)
def served(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a drain the router serves again."""
    yield
    if "drain" in request.node.name and "router" in request.fixturenames:
        router: CliRouter = request.getfixturevalue("router")
        assert router.run("undrain", HEADGATE_TOKEN=OPERATOR).exit_code == 0


@pytest.fixture
def words(router: CliRouter, tmp_path: Path) -> Iterator[Words]:
    """What stands for something that has to be there, or be new."""
    with router.client() as guest:
        guest.ask("CLIENT", "SETNAME", "guest")
        yield {
            "{session}": lambda: session(router, "listener"),
            "{guest}": lambda: session(router, "guest"),
            "{queue}": lambda: new_queue(router),
            "{folder}": lambda: str(tmp_path),
        }


def arguments(name: str, words: Words) -> list[str]:
    given = []
    for word in TRIED[name].arguments:
        for placeholder, make in words.items():
            if placeholder in word:
                word = word.replace(placeholder, make())
        given.append(word)
    return [*name.split(), *given]


def session(router: CliRouter, name: str) -> str:
    """The number of a session."""
    rows = router.run("session", "ls", "--search", name, "--json").stdout.splitlines()
    return str(json.loads(rows[0])["session"])


def new_queue(router: CliRouter) -> str:
    """A queue with a message that nobody needs."""
    name = f"work/old-{secrets.token_hex(4)}"
    assert router.run("pub", f"bmq://{name}", "x").exit_code == 0
    return name


def credentials(name: str) -> dict[str, str | None]:
    return {"HEADGATE_TOKEN": OPERATOR} if TRIED[name].acts else {}


@pytest.mark.parametrize("name", TRIED)
def test_for_people(router: CliRouter, name: str, words: Words) -> None:
    done = router.run(*arguments(name, words), answer=TRIED[name].typed, **credentials(name))
    assert done.exit_code in (TRIED[name].code, TRIED[name].or_else), done.output
    assert done.stdout or TRIED[name].is_silent or TRIED[name].code == 1
    assert "Traceback" not in done.output
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", TRIED)
def test_for_programs(router: CliRouter, name: str, words: Words) -> None:
    """Each line is an object, and nothing else is among them."""
    given = [*arguments(name, words), "--json"]
    done = router.run(*given, answer=TRIED[name].typed, **credentials(name))
    assert done.exit_code in (TRIED[name].code, TRIED[name].or_else), done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(isinstance(row, dict) for row in rows)
    assert rows or TRIED[name].is_silent or TRIED[name].code == 1


@pytest.mark.parametrize("name", [*ASKING, *CONNECTING])
def test_without_a_router(router: CliRouter, name: str, words: Words) -> None:
    given = arguments(name, words)
    done = router.run(*given, "--url", "127.0.0.1:1")
    assert done.exit_code == TRIED[name].away, (done.output, done.exception)
    complains(name, done.stderr, done.stdout)


@pytest.mark.parametrize("name", [*ASKING, *CONNECTING])
def test_with_a_wrong_token(router: CliRouter, name: str, words: Words) -> None:
    given = arguments(name, words)
    done = router.run(*given, HEADGATE_TOKEN="wrong", HEADGATE_PASSWORD="wrong")
    assert done.exit_code == TRIED[name].wrong, (done.output, done.exception)
    complains(name, done.stderr, done.stdout)


@pytest.mark.parametrize("name", [name for name, case in ASKING.items() if case.acts])
def test_with_a_token_that_only_looks(router: CliRouter, name: str, words: Words) -> None:
    given = arguments(name, words)
    done = router.run(*given, HEADGATE_TOKEN="look here")
    assert done.exit_code == 5, (done.output, done.exception)


def complains(name: str, stderr: str, stdout: str) -> None:
    """An error is one line that begins with the program's name."""
    if name == "check":
        assert stdout.startswith(("CRITICAL ", "UNKNOWN "))
        return
    assert stderr.startswith("headgate: ")
    assert stderr.count("\n") == 1
    assert stdout == ""
