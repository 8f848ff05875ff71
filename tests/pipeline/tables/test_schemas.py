"""What others read of the tables changes with a version, and is never taken away."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from headgate.pipeline.tables.manifests import SCHEMA_VERSION
from tools.schemas import path_of, text


def contract(version: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path_of(version).read_text())
    assert found["version"] == version
    tables: dict[str, Any] = found["tables"]
    return tables


def test_tables_are_as_the_file_of_their_version_says() -> None:
    advice = "raise SCHEMA_VERSION, then python -m tools.schemas"
    assert path_of(SCHEMA_VERSION).read_text() == text(), advice


def test_a_version_adds_and_takes_nothing_away() -> None:
    for one, other in pairwise(range(1, SCHEMA_VERSION + 1)):
        new = contract(other)
        for name, table in contract(one).items():
            for form, columns in table.items():
                assert columns.items() <= new[name][form].items(), (other, name)
