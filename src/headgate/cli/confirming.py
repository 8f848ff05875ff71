"""The question whether something is meant that cannot be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headgate.errors import HeadgateError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def yes_option(command: F) -> F:
    """Add ``--yes`` to a command that asks first."""
    return click.option("--yes", is_flag=True, help="Do not ask whether that is meant.")(command)


def reason_option(command: F) -> F:
    """Add ``--reason`` to a command, for the fact that tells of it."""
    return click.option(
        "--reason",
        default="",
        metavar="TEXT",
        help="Why, for the log and the journal.",
    )(command)


def confirm(yes: bool, text: str) -> None:
    """Go on only if that is meant."""
    if not yes and not _answer(lambda: click.confirm(text, err=True)):
        raise HeadgateError("nothing was done")


def confirm_by_name(yes: bool, text: str, name: str) -> None:
    """Go on only if somebody types the name of what it is about."""
    if yes:
        return
    question = f"{text} Type {name} to go on"
    typed = _answer(lambda: click.prompt(question, default="", err=True, show_default=False))
    if typed != name:
        raise HeadgateError(f"nothing was done, as that is not {name}")


def _answer(ask: Callable[[], T]) -> T:
    """The answer of the user; without a terminal it has to be an option of the command."""
    try:
        return ask()
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        click.echo(err=True)  # the question has no end of its line yet
        raise HeadgateError("nothing was done, as nobody said yes; --yes does not ask") from None
