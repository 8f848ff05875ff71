"""``docs/reference/expressions.md`` tells the truth."""

from __future__ import annotations

import re

import pytest

from headgate.cli.properties import parse_properties
from headgate.errors import ExpressionError
from headgate.expr.explain import caret
from headgate.expr.nodes import DEPTH_MAX
from headgate.expr.parser import ExpressionLimits
from headgate.expr.predicate import Failure, compile_expression
from tests.support.repository import DOCS

PAGE = (DOCS / "reference/expressions.md").read_text()
CELL = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")


def examples() -> list[tuple[str, ...]]:
    section = PAGE.split("\n## Examples\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in CELL.split(row)[1:-1]) for row in rows]


def result_of(text: str, properties: list[str]) -> str:
    try:
        result = compile_expression(text).evaluate(parse_properties(properties))
    except ExpressionError as error:
        return error.code
    return str(result) if isinstance(result, Failure) else str(result).lower()


@pytest.mark.parametrize(("expression", "properties", "result"), examples())
def test_every_example_gives_its_result(expression: str, properties: str, result: str) -> None:
    (text,) = CODE.findall(expression.replace("\\|", "|"))
    assert result_of(text, CODE.findall(properties)) == result


def test_the_page_names_the_limits_and_every_error() -> None:
    limits = ExpressionLimits()
    assert f"more than {limits.bytes} bytes" in PAGE
    assert f"more than {limits.operators} operators" in PAGE
    assert f"over {DEPTH_MAX} levels" in PAGE
    for code in (*Failure, "TOO_LONG", "SYNTAX", "TOO_COMPLEX", "NO_PROPERTIES"):
        assert f"| {code} |" in PAGE


def test_the_picture_of_an_error_is_what_is_printed() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("x = 1")
    assert f"$ headgate expr check 'x = 1'\n{caret(caught.value)}\n" in PAGE
