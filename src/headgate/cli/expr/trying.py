"""``headgate expr check`` and ``test``: look at expressions without a router."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import click

from headgate.cli.properties import property_option
from headgate.cli.property_values import property_value
from headgate.core.model.message import Declared
from headgate.errors import ExpressionError
from headgate.expr.explain import Explanation, caret, drawn, explain, hint
from headgate.expr.nodes import Binary, Tree, Unary, text_of
from headgate.expr.predicate import Failure, Predicate, compile_expression
from headgate.expr.types import Value
from headgate.expr.undecided import failure_reason

BATCH_LINE_BYTES = 1024 * 1024
"""A longer line of ``--batch`` is an error; it is skipped without being kept."""


@click.command()
@click.argument("expression", metavar="EXPR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(expression: str, as_json: bool) -> None:
    """Show how an expression is read, and what looks wrong.

    It says what a message needs to match. Exits with 0 if the expression can be used, else with 1.
    """
    try:
        explanation = explain(expression)
    except ExpressionError as error:
        if as_json:
            print_text(json.dumps(error_object(error)))
        else:
            click.echo(caret(error), err=True)
        sys.exit(1)
    print_text(json.dumps(_object(explanation)) if as_json else report(explanation))


@click.command()
@click.argument("expression", metavar="[EXPR]", required=False)
@property_option
@click.option(
    "--batch",
    is_flag=True,
    help="Read JSON lines from standard input, write one JSON line for each.",
)
def test(expression: str | None, properties: Declared, batch: bool) -> None:
    """Evaluate an expression for a message.

    Exits with 0 if the message matches, 3 if it does not, 2 if the expression or a property
    is wrong. With --batch: 0 if every line could be read, else 1.
    """
    if batch:
        if expression is not None or properties:
            raise click.UsageError("--batch takes expressions and properties from its lines")
        sys.exit(_run_batch(sys.stdin.buffer))
    if expression is None:
        raise click.UsageError("give an expression, or --batch")
    try:
        predicate = compile_expression(expression)
    except ExpressionError as error:
        click.echo(caret(error), err=True)
        sys.exit(2)
    result = predicate.evaluate(properties)
    print_text(verdict(predicate, properties, result))
    sys.exit(0 if result is True else 3)


def verdict(predicate: Predicate, properties: Mapping[str, Value], result: bool | Failure) -> str:
    """The result of an evaluation, in a line."""
    if isinstance(result, Failure):
        return f"no match: {result} ({failure_reason(predicate, properties, result)})"
    return "match" if result else "no match: the expression is false"


def _run_batch(stream: BinaryIO) -> int:
    code = 0
    for line in _lines(stream):
        try:
            answer = _answer(line)
        except ValueError as error:
            answer = {"error": str(error)}
            code = 1
        print_text(json.dumps(answer))
    return code


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines; of one that is too long, a piece that is still too long."""
    while line := stream.readline(BATCH_LINE_BYTES + 1):
        rest = line
        while len(rest) > BATCH_LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(BATCH_LINE_BYTES + 1)
        yield line.removesuffix(b"\n")


def _answer(line: bytes) -> dict[str, object]:
    if len(line) > BATCH_LINE_BYTES:
        raise ValueError(f"the line is longer than {BATCH_LINE_BYTES} bytes")
    try:
        request = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the line is not JSON: {error}") from None
    if not isinstance(request, dict) or not isinstance(request.get("expr"), str):
        raise ValueError('the line is not an object with a text "expr"')
    message = _message(request.get("properties", {}))
    try:
        predicate = compile_expression(request["expr"])
    except ExpressionError as error:
        return {"compile": error.code, "result": None, "matches": None}
    return {
        "compile": "ok",
        "result": predicate.evaluate(message),
        "matches": predicate.matches(message),
    }


def _message(properties: object) -> dict[str, Value]:
    if not isinstance(properties, dict):
        raise ValueError('"properties" is not an object')
    message = {}
    for name, item in properties.items():
        if not isinstance(item, dict) or "type" not in item or "value" not in item:
            raise ValueError(f'property {name!a} is not an object with "type" and "value"')
        try:
            message[name] = property_value(item["type"], item["value"])
        except ValueError as error:
            raise ValueError(f"property {name!a}: {error}") from None
    return message


def report(explanation: Explanation) -> str:
    """How an expression is read, for people."""
    lines = [drawn(explanation.tree), "", "a message matches only if:"]
    if explanation.keys is None:
        lines.append("  (nothing is known before evaluation)")
    elif not explanation.keys:
        lines.append("  (never)")
    else:
        lines += [f"  {'or ' if n else ''}{key}" for n, key in enumerate(explanation.keys)]
    lines += [f"\nwarning: {text}" for text in explanation.warnings]
    return "\n".join(lines)


def _object(explanation: Explanation) -> dict[str, object]:
    keys = explanation.keys
    return {
        "ok": True,
        "text": explanation.text,
        "tree": _nested(explanation.tree),
        "keys": None if keys is None else [str(key) for key in keys],
        "warnings": explanation.warnings,
    }


def _nested(tree: Tree) -> object:
    """An operator with its operands as a list, anything else as its text."""
    match tree:
        case Unary(op, operand):
            return [op, _nested(operand)]
        case Binary(op, left, right):
            return [op, _nested(left), _nested(right)]
        case _:
            return text_of(tree)


def error_object(error: ExpressionError) -> dict[str, object]:
    """The error of an expression, for programs."""
    return {
        "ok": False,
        "code": error.code,
        "message": error.message,
        "offset": error.offset,
        "hint": hint(error),
    }


def print_text(text: str) -> None:
    """Print, also what came from the command line and is not UTF-8."""
    click.echo(text.encode("utf-8", "backslashreplace").decode())
