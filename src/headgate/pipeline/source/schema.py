"""The journal's columns as Spark types."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headgate.journal.columns import SCHEMA

ARROW = pa.schema(
    [
        pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in SCHEMA
    ]
)
"""As Spark takes it: no dictionaries."""

FACTS: StructType = from_arrow_schema(ARROW)
"""One row per fact: its number, its kind, and the fields that any fact has."""

PROPERTIES = FACTS["properties"].dataType
"""Of a message: names to a struct of an integer, a text and a boolean, of which one is set."""
