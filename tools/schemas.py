"""Contracts of the pipeline's tables: a file for each version, which is never changed.

    python -m tools.schemas     # writes that of the present version, if there is none

A table whose columns change needs a new version (`SCHEMA_VERSION` in `tables/manifests.py`) and
a file of it. A version may add tables and columns; what was there keeps its type.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headgate.pipeline.tables.manifests import SCHEMA_VERSION
from headgate.pipeline.tables.tables import TABLES

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"

WITHOUT = ("facts",)
"""Its columns are the fields of facts, and the journal has a version of its own."""


def path_of(version: int) -> Path:
    return FOLDER / f"tables-{version}.json"


def text() -> str:
    """The tables as they are: what readers see, and what is in the files where that differs."""
    tables = {}
    for name, table in TABLES.items():
        if name not in WITHOUT:
            seen = {column: type_ for column, (type_, _) in table.columns.items()}
            stored = dict(table.stored_types)
            tables[name] = {"columns": seen, **({"stored": stored} if stored != seen else {})}
    return json.dumps({"version": SCHEMA_VERSION, "tables": tables}, indent=1) + "\n"


def main() -> None:
    path = path_of(SCHEMA_VERSION)
    if path.exists() and path.read_text() != text():
        sys.exit(f"{path} says otherwise, and others rely on it: raise SCHEMA_VERSION")
    FOLDER.mkdir(exist_ok=True)
    path.write_text(text())
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
