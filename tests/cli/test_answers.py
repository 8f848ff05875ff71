"""What commands show are fields of what the router answers."""

from __future__ import annotations

import click
import pytest

from headgate.cli.live import channel, domain, kinds, queue, service, session
from headgate.cli.live.session import CLOSED
from headgate.cli.live.support import PAGES
from headgate.cli.table import Column
from headgate.server.desk import answers
from headgate.server.desk.actions import ACTIONS
from headgate.server.desk.routes.all_paths import PATHS

COMPUTED = {"state", "sweep"}
"""Made of several fields by the command."""


def columns(command: click.Command) -> list[str]:
    [option] = [param for param in command.params if param.name == "names"]
    assert isinstance(option, click.Option)
    assert option.help is not None
    return option.help.removeprefix("Only these, of: ").rstrip(".").split(", ")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (session.ls, answers.SessionRow),
        (channel.ls, answers.ChannelRow),
        (channel.patterns, answers.PatternRow),
        (domain.ls, answers.DomainRow),
        (queue.peek, answers.MessageRow),
        (service.ls, answers.ServiceRow),
    ],
)
def test_columns_are_fields_of_the_rows(
    command: click.Command, answer: type[answers.Answer]
) -> None:
    assert set(columns(command)) - COMPUTED <= set(answer.__struct_encode_fields__)


def test_columns_of_sessions_that_ended_are_fields_too() -> None:
    names = {column.name for column in CLOSED}
    assert names <= set(answers.ClosedRow.__struct_encode_fields__)
    assert all(isinstance(column, Column) for column in CLOSED)


def test_what_is_packed_can_be_asked_for() -> None:
    known = {path.path: set(path.parameters) for path in PATHS}
    for path, query in PAGES.values():
        assert set(query) <= known[path], path


def test_every_action_has_a_command() -> None:
    """And what the router says it did is told in the right words. An audit needs no router: who is
    on its machine asks `headgate pipeline audit` for one."""
    from headgate.cli.live.actions import ABOUT_THE_ROUTER, COUNTED

    assert len(ACTIONS) == len({*COUNTED, *ABOUT_THE_ROUTER, "audit"})


def test_kinds_are_those_of_the_nouns() -> None:
    assert set(kinds.show.lazy) == {name.rstrip("s") for name in kinds.ls.lazy} - {
        "channel",
        "pattern",
        "sink",
    }
