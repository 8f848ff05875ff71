"""The columns of a segment: one for each field of any fact, null where a fact does not have it."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pyarrow as pa

from headgate.core.facts import KINDS
from headgate.core.ntf_facts import NTF_KINDS

VERSION = 1
"""Version of the journal. A reader refuses a newer one: its meaning may differ."""

VERSION_KEY = b"headgate.journal"

PROPERTY = pa.struct([("i", pa.int64()), ("s", pa.string()), ("b", pa.bool_())])
"""Exactly one is not null; a property of bytes is left out."""

FIELD_NAMES: dict[str, list[str]] = {
    kind.__name__: [field.name for field in fields(kind)] for kind in (*KINDS, *NTF_KINDS)
}


def _columns() -> dict[str, pa.DataType]:
    """A column for each field of any fact."""
    types: dict[str, pa.DataType] = {}
    for kind in (*KINDS, *NTF_KINDS):
        for name, hint in get_type_hints(kind).items():
            types.setdefault(name, _type_of(name, str(hint)))
    return types


def _type_of(name: str, hint: str) -> pa.DataType:
    if name == "properties":
        return pa.map_(pa.string(), PROPERTY)
    for word, column in (
        ("bytes", pa.binary()),
        ("QueueId", pa.binary()),
        ("MessageId", pa.binary()),
        ("ServiceId", pa.binary()),
        ("SessionId", pa.int64()),
        ("float", pa.float64()),
        ("bool", pa.bool_()),
        ("int", pa.int64()),
        ("str", pa.string()),
    ):
        if word in hint:
            return column
    raise AssertionError(f"no column type for {name}: {hint}")


COLUMNS = _columns()
SCHEMA = pa.schema(
    [("number", pa.int64()), ("kind", pa.dictionary(pa.int32(), pa.string())), *COLUMNS.items()],
    metadata={VERSION_KEY: str(VERSION)},
)
