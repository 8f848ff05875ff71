"""``headgate expr repl``"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.cli.expr.prompt import HELP, Trials
from headgate.expr.explain import drawn_values, traced
from headgate.expr.parser import read
from headgate.expr.types import Value
from tests.support.tmux import NO_TMUX, Tmux


def run(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["expr", "repl", *arguments], input=text)


def test_every_part_is_shown_with_what_it_comes_to() -> None:
    trials = Trials({"amount": 7})
    assert trials.answer('amount > 5 && kind == "x"').splitlines() == [
        "&&            NAME",
        "├─ >          true",
        "│  ├─ amount  7",
        "│  └─ 5       5",
        "└─ ==         NAME",
        "   ├─ kind    NAME",
        '   └─ "x"     not reached',
        "",
        "no match: NAME (the message lacks kind)",
    ]


def test_values_are_written_as_expressions_have_them() -> None:
    found: dict[str, Value] = {"t": 'a"b', "b": b"\x00\xff"}
    lines = drawn_values(traced(read('t != "a" && b == 1').tree, found)).splitlines()
    assert [line.split()[-1] for line in lines] == (
        ["TYPE", "true", '"a\\"b"', '"a"', "TYPE", "TYPE", "reached"]
    )


def test_without_properties_it_says_what_a_message_needs() -> None:
    assert "a message matches only if:\n  x is 1" in Trials({}).answer("x == 1")


def test_properties_are_set_shown_and_taken_away() -> None:
    trials = Trials({})
    assert trials.answer(':set amount=42 name="two words" c:char=1') == (
        'a message with amount=42, name="two words", c=1'
    )
    assert trials.answer('name == "two words"').endswith("\nmatch")
    assert trials.answer(":unset name c") == "a message with amount=42"
    assert trials.answer(":unset") == "a message with no properties"
    assert trials.answer(":help") == HELP
    assert trials.mistakes == 0


@pytest.mark.parametrize("line", [":set amount", ":set", ":what", ":set a=1 a=2", 'a = "'])
def test_what_cannot_be_read_is_counted_and_said(line: str) -> None:
    trials = Trials({"a": 1})
    assert trials.answer(line)
    assert trials.mistakes == 1
    assert trials.properties == {"a": 1}


def test_a_warning_comes_before_the_verdict() -> None:
    lines = Trials({"kind": "x"}).answer("kind == EXPRESS").splitlines()
    assert lines[-2].startswith("warning: kind and EXPRESS are both property names")
    assert lines[-1] == "no match: NAME (the message lacks EXPRESS)"


def test_a_pipe_is_answered_as_if_it_was_typed() -> None:
    done = run("# a note\n\n:set a=2\na > 1\n:quit\na = 1\n")
    assert done.exit_code == 0
    assert done.stdout.startswith(
        "expr> # a note\nexpr> :set a=2\na message with a=2\nexpr> a > 1\n"
    )
    assert done.stdout.endswith("match\nexpr> :quit\n")


def test_a_mistake_in_a_pipe_is_told_by_the_exit_code() -> None:
    done = run("a = 1\na == 1\n", "--property", "a=1")
    assert done.exit_code == 1
    assert "\n  ^\n" in done.stdout
    assert done.stdout.endswith("match\n")


def test_with_json_each_expression_is_an_object() -> None:
    done = run("a>1\nb>1\na=1\n:set b\n:set b=3\nb>1\n", "--json", "--property", "a=2")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["ok"] for row in rows] == [True, True, False, False, True]
    assert (rows[0]["result"], rows[0]["matches"], rows[0]["missing"]) == (True, True, None)
    assert (rows[1]["result"], rows[1]["matches"], rows[1]["missing"]) == ("NAME", False, "b")
    assert (rows[2]["code"], rows[2]["offset"], rows[2]["text"]) == ("SYNTAX", 1, "a=1")
    assert rows[4]["matches"] is True
    assert done.exit_code == 1


@NO_TMUX
def test_a_terminal_has_a_prompt_and_a_history(tmp_path: Path) -> None:
    command = (
        f"{sys.executable} -c 'from headgate.cli import main; main()' expr repl; echo GONE; cat"
    )
    environ = os.environ | {"XDG_STATE_HOME": str(tmp_path), "INPUTRC": "/dev/null"}
    for number in range(2):
        (folder := tmp_path / str(number)).mkdir()
        tmux = Tmux(folder, environ, command)
        try:
            tmux.screen(lambda text: "expr>" in text)
            tmux.run("send-keys", ":set a=2", "Enter")
            tmux.screen(lambda text: "a message with a=2" in text)
            if number:  # beyond what was typed just now, to what was typed the last time
                tmux.run("send-keys", "Up", "Up")
                tmux.screen(lambda text: "expr> a > 1" in text)
            else:
                tmux.run("send-keys", "a > 1")
            tmux.run("send-keys", "Enter")
            tmux.screen(lambda text: "\nmatch" in text)
            tmux.run("send-keys", "C-c")
            tmux.run("send-keys", "C-d")
            tmux.screen(lambda text: "GONE" in text)
        finally:
            tmux.run("kill-server")
    history = tmp_path / "headgate" / "expr_history"
    assert history.read_text().splitlines()[:2] == [":set a=2", "a > 1"]
    assert history.stat().st_mode & 0o077 == 0
