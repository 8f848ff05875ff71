"""The table of all commands' parameters that `headgate.cli.completing` reads at a TAB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click


def described(group: click.Group, path: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Every command below a group, by its path, with its parameters."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, "a listed command exists"
        here = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from described(command, here)
        else:
            yield here, [_row(parameter) for parameter in command.params]


def _row(parameter: click.Parameter) -> dict[str, Any]:
    row: dict[str, Any] = {"names": [*parameter.opts, *parameter.secondary_opts]}
    if isinstance(parameter, click.Option):
        row |= {"help": parameter.help, "flag": parameter.is_flag, "many": parameter.multiple}
        row |= {"hidden": True} if parameter.hidden else {}
        row |= {"optional": True} if _takes_nothing_or_one(parameter) else {}
    else:
        row |= {"nargs": parameter.nargs}
    kind = parameter.type
    if isinstance(kind, click.Choice):
        row |= {"choices": list(kind.choices)}
        row |= {} if kind.case_sensitive else {"any_case": True}
    elif isinstance(kind, click.Path | click.File):
        row |= {"folder": isinstance(kind, click.Path) and not kind.file_okay}
    if getattr(parameter, "_custom_shell_complete", None) is not None:
        assert row["names"] == ["--context"], "only contexts are known here"
    return row


def _takes_nothing_or_one(option: click.Option) -> bool:
    """Whether its value may be left out, as that of --watch."""
    return not option.is_flag and getattr(option, "_flag_needs_value", False)


def table(group: click.Group) -> str:
    """The table as it is kept: every kind of parameter once, and of each command their places."""
    kinds: dict[str, int] = {}
    commands = {
        path: [kinds.setdefault(json.dumps(row), len(kinds)) for row in rows]
        for path, rows in described(group)
    }
    rows = ",\n ".join(kinds)
    listed = ",\n".join(f" {json.dumps(path)}: {places}" for path, places in commands.items())
    return f'{{"parameters": [\n {rows}\n],\n"commands": {{\n{listed}\n}}}}\n'
