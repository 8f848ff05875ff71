"""Commands as a shell completes them: with their parameters, and without what they do.

A TAB asks for the options of a command, and a command of Spark or of an agent takes half a second
to import. So the parameters of all commands are in a table beside this module; `make docs` writes
it from the commands, and a test compares.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import click

TABLE = Path(__file__).with_name("parameters.json")


@cache
def read() -> dict[str, Any]:
    """The table; nothing is in it if it is not there."""
    try:
        found: dict[str, Any] = json.loads(TABLE.read_text("utf-8"))
    except (OSError, ValueError):  # then commands are asked themselves
        return {"parameters": [], "commands": {}}
    return found


def shadow(path: str) -> click.Command | None:
    """A command that has the parameters of another and does nothing; None if it is not known."""
    known = read()
    places = known["commands"].get(path)
    if places is None:
        return None
    rows = [known["parameters"][place] for place in places]
    return click.Command(path.rpartition(" ")[2], params=[_parameter(row) for row in rows])


def _parameter(row: dict[str, Any]) -> click.Parameter:
    kind: click.ParamType[Any] | None = None
    if "choices" in row:
        kind = click.Choice(row["choices"], case_sensitive="any_case" not in row)
    elif "folder" in row:
        kind = click.Path(file_okay=not row["folder"])
    if "nargs" in row:
        return click.Argument(row["names"], type=kind, nargs=row["nargs"], required=False)
    options: dict[str, Any] = {"help": row["help"], "hidden": row.get("hidden", False)}
    if row["flag"]:
        return click.Option(["value", *row["names"]], is_flag=True, **options)
    if row.get("optional"):
        options |= {"is_flag": False, "flag_value": ""}
    if row["names"] == ["--context"]:
        options["shell_complete"] = complete_context
    return click.Option(["value", *row["names"]], type=kind, multiple=row["many"], **options)


def complete_context(ctx: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    """Names of contexts that begin so."""
    from headgate.cli.contexts import Contexts

    return [name for name in Contexts.of(os.environ).names() if name.startswith(start)]
