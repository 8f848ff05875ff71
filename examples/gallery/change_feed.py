"""Every message of a queue as Parquet, without Spark: the journal already is Parquet.

A fact gets to the journal's folder within a second or two after it happened.

python change_feed.py var/journal orders.parquet
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

ORDERS = b"bmq://orders/incoming"


def main(journal: Path, target: Path) -> None:
    segments = [str(path) for path in sorted(journal.glob("*.parquet"))]
    if not segments:
        sys.exit(f"no facts in {journal} yet; wait for a second, or name the folder of the journal")
    facts = ds.dataset(segments, format="parquet")
    is_order = (pc.field("kind") == "Accepted") & (pc.field("queue") == ORDERS)
    orders = facts.to_table(
        columns=["number", "at", "message", "size", "properties"], filter=is_order
    )
    # What was merged lies beside its parts for an hour: take each number once.
    rows = {number: row for row, number in enumerate(orders["number"].to_pylist())}
    pq.write_table(orders.take(list(rows.values())), target)
    print(f"{len(rows)} orders in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
