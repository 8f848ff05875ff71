"""The columns in which wanted expressions are kept between batches."""

from __future__ import annotations

import pyarrow as pa

WANTED = pa.schema(
    [
        ("queue", pa.binary()),
        ("app", pa.string()),
        ("session", pa.int64()),
        ("expressions", pa.list_(pa.string())),
    ]
)
"""The wishes as they are kept from batch to batch."""
