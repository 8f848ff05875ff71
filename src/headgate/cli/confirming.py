"""The question whether something is meant that cannot be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


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
    if not yes and not click.confirm(text, err=True):
        raise click.UsageError("nothing was done")


def confirm_by_name(yes: bool, text: str, name: str) -> None:
    """Go on only if somebody types the name of what it is about."""
    if yes:
        return
    typed = click.prompt(f"{text} Type {name} to go on", default="", err=True, show_default=False)
    if typed != name:
        raise click.UsageError("nothing was done")
