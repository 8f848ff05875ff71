"""``headgate expr repl``: expressions that are typed one after another, and what each comes to.

A line is an expression, or begins with a colon and is about the message that expressions are tried
on. From a terminal there is a prompt with a history; from a pipe each line is answered, and the
exit code says whether all could be read.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.expr.trying import error_object, print_text, report, verdict
from headgate.cli.output import json_option
from headgate.cli.properties import parse_properties, property_option
from headgate.errors import ExpressionError
from headgate.expr.explain import caret, drawn_values, explain, literal, traced
from headgate.expr.predicate import Failure, Predicate
from headgate.expr.undecided import missing_property

if TYPE_CHECKING:
    from headgate.core.model.message import Declared
    from headgate.expr.types import Value

PROMPT = "expr> "
HISTORY_LINES = 1000
WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+')
"""Of a line as it was typed; a blank in quotes is not its end."""
HELP = """\
EXPRESSION            try it on the message
:set NAME=VALUE ...   give the message properties, as --property does: amount=42 kind=express
:unset [NAME ...]     take some from it, or all
:show                 print its properties
:help, :quit          this list; the end, as Ctrl-D"""


class Ended(Exception):
    """The exception by which somebody ends the prompt."""


class Trials:
    """A message, and the expressions that are tried on it."""

    def __init__(self, properties: Mapping[str, Value], as_json: bool = False) -> None:
        self.properties = dict(properties)
        self.names = set(properties)
        """Of properties that were mentioned, for a shell to complete."""
        self.mistakes = 0
        """Lines that could not be read."""
        self._as_json = as_json

    def answer(self, line: str) -> str:
        """The text to print for a line; none, as a rule, for one about the message."""
        line = line.strip()
        if not line or line.startswith("#"):
            return ""
        return self._directive(line) if line.startswith(":") else self._tried(line)

    def _directive(self, line: str) -> str:
        command, *words = line.split()
        match command, words:
            case ":set", [_, *_]:
                return self._set(line)
            case ":unset", _:
                for name in words or list(self.properties):
                    self.properties.pop(name, None)
                return self._message()
            case ":show", []:
                return self._message()
            case ":help", _:
                return HELP
            case ((":quit" | ":q" | ":exit"), _):
                raise Ended
        return self._wrong(f"{line} is not known; :help lists what is")

    def _set(self, line: str) -> str:
        try:
            given = parse_properties(WORD.findall(line)[1:])
        except click.BadParameter as error:
            return self._wrong(error.message)
        self.properties |= given
        self.names |= set(given)
        return self._message()

    def _message(self) -> str:
        if self._as_json:
            return ""
        shown = (f"{name}={literal(item)}" for name, item in self.properties.items())
        return f"a message with {', '.join(shown) or 'no properties'}"

    def _tried(self, text: str) -> str:
        try:
            explained = explain(text)
        except ExpressionError as error:
            self.mistakes += 1
            return (
                json.dumps({"text": text, **error_object(error)}) if self._as_json else caret(error)
            )
        predicate = Predicate(explained.text, explained.tree)
        self.names |= set(predicate.properties)
        result = predicate.evaluate(self.properties)
        if self._as_json:
            is_absent = result is Failure.NAME
            return json.dumps(
                {
                    "ok": True,
                    "text": explained.text,
                    "result": result,
                    "matches": result is True,
                    "missing": missing_property(predicate, self.properties) if is_absent else None,
                    "warnings": explained.warnings,
                }
            )
        if not self.properties:
            return report(explained)
        lines = [drawn_values(traced(explained.tree, self.properties)), ""]
        lines += [f"warning: {each}" for each in explained.warnings]
        return "\n".join([*lines, verdict(predicate, self.properties, result)])

    def _wrong(self, text: str) -> str:
        self.mistakes += 1
        return json.dumps({"ok": False, "message": text}) if self._as_json else text


@click.command()
@property_option
@json_option
@click.pass_context
def repl(ctx: click.Context, properties: Declared, as_json: bool) -> None:
    """Try expressions one after another.

    Each line is an expression; what every part of it comes to is shown for a message whose
    properties are set with ":set amount=42 kind=express". ":help" lists the rest. From a terminal
    there is a prompt with a history. Lines of a pipe or a file are answered as well; then the exit
    code is 1 if one of them could not be read.

    \b
    Example:
      headgate expr repl --property amount=42
      printf 'amount > 5\\nkind == "x"\\n' | headgate expr repl --property amount=42 --json
    """
    trials = Trials(properties, as_json)
    is_typed = sys.stdin.isatty()
    with suppress(Ended):
        for line in _typed(trials) if is_typed else sys.stdin:
            if not is_typed and not as_json and line.strip():
                print_text(PROMPT + line.rstrip("\n"))
            if answer := trials.answer(line):
                print_text(answer)
    ctx.exit(1 if trials.mistakes and not is_typed else 0)


def _typed(trials: Trials) -> Iterator[str]:
    """Lines that somebody types, until Ctrl-D; Ctrl-C drops the line."""
    import readline

    path = history_file()
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    readline.set_completer(_completer(trials))
    readline.set_completer_delims(" ()!<>=&|+-*/%")
    readline.parse_and_bind("tab: complete")
    click.echo("an expression, or :help; Ctrl-D ends", err=True)
    try:
        while True:
            try:
                yield input(PROMPT)
            except KeyboardInterrupt:
                click.echo(err=True)
            except EOFError:
                click.echo(err=True)
                return
    finally:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(path)


def _completer(trials: Trials) -> Callable[[str, int], str | None]:
    def complete(start: str, number: int) -> str | None:
        known = [*sorted(trials.names), ":set", ":unset", ":show", ":help", ":quit"]
        found = [each for each in known if each.startswith(start)]
        return found[number] if number < len(found) else None

    return complete


def history_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where lines are kept that were typed."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", "/"), ".local/state")
    return Path(base) / "headgate" / "expr_history"
