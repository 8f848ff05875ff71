"""Row groups of a segment: which numbers each has, and how many bytes its messages are in memory.

Planning, reading and the bound of a micro batch ask here, and none of them opens a body for it. A
footer of another make may have no statistics; then there is no answer, or the larger one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.core.facts import Accepted


def number_bounds(group: pq.RowGroupMetaData) -> tuple[int, int] | None:
    """The least and the largest number of a row group, if it says so."""
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == "number":
            statistics = column.statistics
            return (
                (statistics.min, statistics.max)
                if statistics is not None and statistics.has_min_max
                else None
            )
    return None


def message_sizes(file: pq.ParquetFile, groups: list[int]) -> np.ndarray[Any, Any]:
    """The bytes of body and properties of each row; 0 where no row has a body. How they are stored
    says little of that: equal bodies are stored once."""
    sizes = [np.zeros(0, np.int64)]
    for index in groups:
        group = file.metadata.row_group(index)
        if _has_bodies(group):
            table = file.read_row_group(index, ["kind", "size"], use_threads=False)
            is_message = pc.equal(table["kind"].cast(pa.string()), Accepted.__name__)
            sizes.append(pc.if_else(is_message, table["size"], 0).to_numpy())
        else:
            sizes.append(np.zeros(group.num_rows, np.int64))
    return np.concatenate(sizes)


def _has_bodies(group: pq.RowGroupMetaData) -> bool:
    columns = [group.column(index) for index in range(group.num_columns)]
    found = {column.path_in_schema: column for column in columns}
    if not {"body", "size"} <= found.keys():
        return False
    statistics = found["body"].statistics
    return statistics is None or statistics.null_count < group.num_rows
