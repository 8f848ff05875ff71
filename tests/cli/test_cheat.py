"""The commands of the cheat sheets are there, with their options."""

from __future__ import annotations

import shlex

import click
import pytest

from headgate.cli import cli
from headgate.cli.cheat import SHEETS

COMMANDS = [command for lines in SHEETS.values() for command, _ in lines]


@pytest.mark.parametrize("text", [each.partition(";")[0].partition(">")[0] for each in COMMANDS])
def test_a_command_that_is_recommended_is_there(text: str) -> None:
    words = shlex.split(text)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    if words and words != ["--help"] and words != ["--version"]:
        context = click.Context(command)
        command.make_parser(context).parse_args(words)
