"""Starting a query that reads the journal, also where the machine is busy.

The source is Python, in a process that Spark starts with the query and gives ten seconds to connect
back, which cannot be set. A machine with much other work may need longer, and a query that ends
because of that has not done anything yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

STARTS = 5
"""How often it is tried."""
SLOW = "Python worker failed to connect back"
"""What Spark says then."""
INITIALIZING = "Initializing"
"""How the status of a query begins before its source is there."""
LOOK_SECONDS = 0.05


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has its source, or that failed for another reason, which following it tells."""
    query = start()
    for _ in range(STARTS - 1):
        while query.isActive and query.status["message"].startswith(INITIALIZING):
            time.sleep(LOOK_SECONDS)
        if SLOW not in str(query.exception()) or query.recentProgress:
            break
        query = start()
    return query
