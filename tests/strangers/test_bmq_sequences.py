"""Sequences over the wire, drawn from a seed, held against what the documents say.

They are the same ones each time, so that a change is judged by what it changes. New ones are drawn
by hand (`python -m tests.strangers.bmq_sequences`), or with BMQ_SEQUENCES_SEED and BMQ_SEQUENCES,
which is how many are played.
"""

from __future__ import annotations

import os
import re

import pytest

from tests.strangers.bmq_expressions import NoValue, Refused, tree, value
from tests.strangers.bmq_sequences import play
from tests.strangers.bmq_wire import BINARY, BOOL, CHAR, INT32, INT64, SHORT, STRING, Value
from tests.support.repository import DOCS

PARTS = 10
LIMITS: tuple[dict[str, int], ...] = ({}, {"turn_looks": 3, "turn_expression_bytes": 50})
"""Of every other part: work that takes many turns, with those of others in between."""
SEED = os.environ.get("BMQ_SEQUENCES_SEED", "tests")
COUNT = int(os.environ.get("BMQ_SEQUENCES", "2000"))
PAGE = DOCS / "reference" / "expressions.md"
TYPES = {
    **{"bool": BOOL, "char": CHAR, "short": SHORT, "int32": INT32, "int64": INT64},
    **{"string": STRING, "binary": BINARY},
}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(1800)
def test_whatever_clients_do_the_router_keeps_to_its_documents(part: int) -> None:
    seeds = (f"{SEED}/{number}" for number in range(part, COUNT, PARTS))
    for failure in play(seeds, LIMITS[part % len(LIMITS)]):
        pytest.fail(str(failure), pytrace=False)


def _examples() -> list[tuple[str, str, str]]:
    """Rows of the page's table: expression, properties, result."""
    rows = PAGE.read_text().split("## Examples")[1].split("## ")[0].splitlines()
    cells = [re.split(r"(?<!\\)\|", row)[1:4] for row in rows if row.startswith("| `")]
    return [(e.strip()[1:-1].replace("\\|", "|"), p.strip(), r.strip()) for e, p, r in cells]


@pytest.mark.parametrize(("expression", "properties", "result"), _examples())
def test_the_second_interpreter_reads_the_page_as_it_is_meant(
    expression: str, properties: str, result: str
) -> None:
    given: dict[str, tuple[int, Value]] = {}
    for name, kind, text in re.findall(r"`([\w.]+):(\w+)=([^`]*)`", properties):
        given[name] = (TYPES[kind], _parsed(kind, text))
    try:
        said = str(value(tree(expression), given)).lower()
    except (Refused, NoValue) as error:
        said = str(error)
    assert said == result


def _parsed(kind: str, text: str) -> Value:
    if kind == "bool":
        return text == "true"
    if kind == "binary":
        return bytes.fromhex(text)
    return text if kind == "string" else int(text)
