"""All cases, and what they have to cover."""

from __future__ import annotations

from inspect import signature
from typing import Any

from starlette.routing import Route

from headgate.server.admin.app import make_app
from headgate.server.desk.files import StaticFiles
from headgate.server.desk.routes.all_paths import PATHS
from headgate.server.desk.routes.path import PREFIX
from tests.hold import admin, bmq, crowds, resp, smp, streams
from tests.hold.case import Case

CASES: list[Case] = [
    *resp.CASES,
    *resp.general(),
    *streams.CASES,
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
