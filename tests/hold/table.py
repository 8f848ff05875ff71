"""All cases, and what they have to cover."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

from starlette.routing import Route

from headgate.server.admin.app import make_app
from headgate.server.desk.files import StaticFiles
from headgate.server.desk.routes.all_paths import PATHS
from headgate.server.desk.routes.path import PREFIX
from tests.hold import admin, bmq, crowds, resp, smp, streams
from tests.hold.case import Case

AT_A_FRONT = frozenset(
    (
        *("MGET of many", "MGET of one large value", "EXEC of large answers", "MSET"),
        *("DEL of all keys", "KEYS *, fewer", "SCAN, fewer", "FLUSHALL"),
        *("SUBSCRIBE, allowed", "PSUBSCRIBE", "UNSUBSCRIBE from all", "PSUBSCRIBE without keys"),
        *("PUBLISH among patterns", "PUBLISH in a row, one key", "SPUBLISH in a row"),
        *("EXEC of PUBLISH", "PUBSUB NUMSUB", "PUBSUB CHANNELS", "CLIENT LIST", "MONITOR"),
        *("a pipeline of PING", "a pipeline of PUBLISH", "a pipeline of INFO"),
        *("XADD in one write", "XADD of many fields", "XRANGE of all", "XINFO STREAM FULL"),
        *("XREADGROUP of what is pending", "XAUTOCLAIM of all", "XREADGROUP of a crowd"),
        *("XADD of JSON", "EXEC of XADD of JSON", "a pipeline of HG.EXPR"),
    )
)
"""What is played once more by clients of a worker that passes commands on."""


def at_a_front() -> list[Case]:
    cases = [case for case in (*resp.CASES, *streams.CASES) if case.name in AT_A_FRONT]
    assert len(cases) == len(AT_A_FRONT), "each of them is there"
    return [replace(case, wire="workers", is_quick=False, shares=False) for case in cases]


CASES: list[Case] = [
    *resp.CASES,
    *resp.general(),
    *streams.CASES,
    *at_a_front(),
    *smp.CASES,
    *smp.general(),
    *bmq.CASES,
    *bmq.general(),
    *admin.CASES,
    *crowds.CASES,
]


def covered(wire: str) -> frozenset[str]:
    """What the cases of a wire send."""
    return frozenset[str]().union(*(case.covers for case in CASES if case.wire == wire))


def admin_paths() -> frozenset[str]:
    """Those of the admin port, as they are routed. Nobody is asked anything here, and so whatever
    the application needs may be anything."""
    given: dict[str, Any] = dict.fromkeys(signature(make_app).parameters, dict)
    app = make_app(
        **given
        | {"rows": 1, "token": "t", "operator_token": None, "more": (), "page": StaticFiles()}
    )
    desk = {PREFIX + path.path for path in PATHS}
    return frozenset(desk | {route.path for route in app.routes if isinstance(route, Route)})


def wanted(wire: str) -> frozenset[str]:
    """What a wire can be sent."""
    match wire:
        case "resp":
            return frozenset(entry.name for entry in resp.commands())
        case "smp":
            return smp.TAGS
        case "bmq":
            return bmq.EVENTS | bmq.REQUESTS
        case "admin":
            return admin_paths()
    raise AssertionError(f"{wire} is no wire")
