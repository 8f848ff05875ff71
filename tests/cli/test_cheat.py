"""Commands that others recommend are there, with their options: cheat sheets, and sentences of the
router about what needs attention."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from headgate.cli import cli
from headgate.cli.cheat import SHEETS
from tests.support.repository import SOURCE

SENTENCES = (SOURCE / "server" / "desk" / "findings.py").read_text()
RECOMMENDED = [
    *(
        command.partition(";")[0].partition(">")[0]
        for lines in SHEETS.values()
        for command, _ in lines
    ),
    *(
        re.sub(r"\{[^}]*\}", "1", each)
        for each in re.findall(r'f?"(headgate [a-z][^"]*)"', SENTENCES)
    ),
]


def test_there_are_both() -> None:
    assert "headgate session show 1" in RECOMMENDED
    assert "headgate top" in RECOMMENDED


@pytest.mark.parametrize("text", RECOMMENDED)
def test_a_command_that_is_recommended_is_there(text: str) -> None:
    words = shlex.split(text)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    if words and words not in (["--help"], ["--version"]):
        command.make_parser(click.Context(command)).parse_args(words)
