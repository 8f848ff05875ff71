"""Starting a query that reads the journal, also where the machine is busy.

The source is Python, in a process that Spark starts with the query and gives ten seconds to connect
back, which cannot be set. A machine with much other work may need longer, and a query that ends
because of that has not done anything yet. A server of Spark Connect does the same for what is done
with a batch, before there is a query.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

STARTS = 5
"""How often it is tried."""
SLOW = (
    "Python worker failed to connect back",
    "Timed out while waiting for the Python worker to connect back",
)
"""The texts of Spark and of its server in that case."""
INITIALIZING = "Initializing"
"""How the status of a query begins before its source is there."""
LOOK_SECONDS = 0.05


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has its source, or that failed for another reason, which following it tells."""
    for _ in range(STARTS - 1):
        try:
            query = start()
        except Exception as error:
            if not _is_slow(error):
                raise
            continue
        while query.isActive and query.status["message"].startswith(INITIALIZING):
            time.sleep(LOOK_SECONDS)
        if query.recentProgress or not _is_slow(query.exception()):
            return query
    return start()


def _is_slow(error: Exception | None) -> bool:
    return any(text in str(error) for text in SLOW)
