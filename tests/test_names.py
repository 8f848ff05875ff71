"""Names: one class for one word, and verbs that a stranger knows."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict

from tests.support.repository import SOURCE

PACKAGES = ("core", "wire")
"""Their classes are met side by side, so no two have one name."""

RIDDLE = re.compile(r"(?i)(^|_)(tell|tells|told|telling|teller|say|says|said|saying)(_|$|s$)")
"""A fact is recorded, an effect encoded, a request replied to: nobody tells or says anything."""

FOREIGN = {"tell"}
"""Methods of others: that of a file."""


def test_no_two_classes_of_the_core_and_the_wires_have_one_name() -> None:
    places = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_nothing_is_named_after_saying() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                name = token.string
                if token.type == tokenize.NAME and RIDDLE.search(name) and name not in FOREIGN:
                    found.append(f"{path.relative_to(SOURCE)}:{token.start[0]} {name}")
    assert found == []
