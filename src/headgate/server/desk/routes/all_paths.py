"""The paths of the API, version 1, and what each takes.

``docs/reference/openapi.json`` is written from it.
"""

from __future__ import annotations

from headgate.server.desk.asking import CompareQuestion, ExplainQuestion, ExpressionQuestion
from headgate.server.desk.routes.channels import channels, patterns, tail
from headgate.server.desk.routes.domains import (
    aside,
    domain,
    domains,
    shared_queue,
    stored_queues,
)
from headgate.server.desk.routes.expressions import compare, explain, expression, recent
from headgate.server.desk.routes.history import audit, facts, journal, pipeline
from headgate.server.desk.routes.live import attention, live, series
from headgate.server.desk.routes.path import PAGE, Path
from headgate.server.desk.routes.queues import queue, services
from headgate.server.desk.routes.sessions import session, sessions
from headgate.server.desk.routes.settings import me, settings

PATHS = [
    Path("/live", live, "facts", events=True),
    Path("/series", series, "names", "span"),
    Path("/attention", attention),
    Path("/sessions", sessions, "sort", "wire", "q", "slow", *PAGE),
    Path("/sessions/{session}", session),
    Path("/domains", domains, "q", "sort", *PAGE),
    Path("/domains/{domain}", domain, "q", "sort", *PAGE),
    Path("/domains/{domain}/queues", stored_queues, "after", "limit"),
    Path("/domains/{domain}/queues/{queue}", shared_queue),
    Path("/expression", expression, body=ExpressionQuestion),
    Path("/explain", explain, body=ExplainQuestion),
    Path("/recent", recent, "queue", "domain", "aside", "limit"),
    Path("/facts", facts, "level", "kind", "after", "limit"),
    Path("/settings", settings),
    Path("/journal", journal),
    Path("/pipeline", pipeline),
    Path("/audit", audit),
    Path("/me", me),
    Path("/channels", channels, "sort", "q", *PAGE),
    Path("/patterns", patterns, "sort", "q", *PAGE),
    Path("/tail", tail, "pattern", "where", "bodies", events=True),
    Path("/services", services, "sort", *PAGE),
    Path("/queues/{name:path}", queue),
    Path("/domains/{domain}/queues/{queue}/aside", aside, "app", *PAGE),
    Path("/expressions/compare", compare, body=CompareQuestion),
]
"""Everything that may be asked by whoever knows the token."""
