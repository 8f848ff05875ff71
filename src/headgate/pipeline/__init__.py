"""The data pipeline on Spark: what the router makes, as tables; and its expressions, as columns.

Only this package imports PySpark. Every step takes DataFrames and plain options, so the same
functions run on a laptop, a cluster and Spark Connect; `session.py` alone builds a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.lazy_names import lazy_names

if TYPE_CHECKING:
    from headgate.pipeline.routing.columns import in_map, matches
    from headgate.pipeline.routing.routing import matching, route
    from headgate.pipeline.routing.subscriptions import Subscriptions
    from headgate.pipeline.session import open_session
    from headgate.pipeline.source.format import register

__all__ = [
    "Subscriptions",
    "in_map",
    "matches",
    "matching",
    "open_session",
    "register",
    "route",
]

PLACES = {
    "Subscriptions": "routing.subscriptions",
    "in_map": "routing.columns",
    "matches": "routing.columns",
    "matching": "routing.routing",
    "open_session": "session",
    "register": "source.format",
    "route": "routing.routing",
}

__getattr__ = lazy_names(__name__, PLACES)
