"""Manual pages, one for each command: ``python -m tools.manual FOLDER``.

They are written from the commands themselves, as the page of the command line is.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click

from headgate.cli import cli

SECTION = 1
EXIT_CODES = (
    "0 done, 1 failed, 2 misused, 3 found something, 4 no router answers, 5 not allowed,"
    " 130 interrupted."
)
PARAGRAPH = "\b"
"""A paragraph that begins with it is as it is written."""


def pages() -> Iterator[tuple[str, str]]:
    """The file name and the text of each page."""
    return _pages(cli, "headgate", None)


def _pages(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name, parent=parent)
    title = context.command_path.replace(" ", "-")
    children = _children(command, context)
    yield f"{title}.{SECTION}", _page(command, context, title, [child for child, _ in children])
    for child, found in children:
        yield from _pages(found, child, context)


def _children(command: click.Command, context: click.Context) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return []
    found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [(name, child) for name, child in found if child is not None]


def _page(command: click.Command, context: click.Context, title: str, children: list[str]) -> str:
    release = version("headgate")
    lines = [
        f'.TH "{title.upper()}" "{SECTION}" "{_date()}" "headgate {release}" "Headgate"',
        ".SH NAME",
        f"{_text(title)} \\- {_text(command.get_short_help_str(1000).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_description(command.help or ""),
    ]
    options = [
        record for param in command.get_params(context) if (record := _option(param, context))
    ]
    if options:
        lines.append(".SH OPTIONS")
        for names, text in options:
            lines += [".TP", f"\\fB{_text(names)}\\fP", _text(text)]
    if children:
        assert isinstance(command, click.Group), "groups have commands"
        lines.append(".SH COMMANDS")
        for child in children:
            found = command.get_command(context, child)
            assert found is not None, "a listed command exists"
            about = _text(found.get_short_help_str(1000))
            lines += [".TP", f"\\fB{_text(f'{title}-{child}')}\\fP(1)", about]
    lines += [".SH EXIT STATUS", _text(EXIT_CODES)]
    if context.parent is not None:
        above = context.parent.command_path.replace(" ", "-")
        lines += [".SH SEE ALSO", f"\\fB{_text(above)}\\fP(1)"]
    return "\n".join(lines) + "\n"


def _date() -> str:
    """Of the sources, where whoever builds a package says so, or else of today."""
    at = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _option(param: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    record = param.get_help_record(context)
    return None if record is None else (record[0], record[1] or record[0])


def _description(help_text: str) -> Iterator[str]:
    paragraphs = re.split(r"\n\s*\n", help_text.strip())
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        if PARAGRAPH in paragraph:
            yield ".nf"
            lines = textwrap.dedent(paragraph.replace(PARAGRAPH, "")).splitlines()
            yield from (_text(line) for line in lines if line.strip())
            yield ".fi"
        else:
            yield from textwrap.wrap(_text(" ".join(paragraph.split())), 78)


def _text(text: str) -> str:
    """Text that roff takes as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    escaped = "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def main(folder: Path) -> None:
    """Write all pages to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
