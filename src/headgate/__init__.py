"""Headgate: a message router with four ways to subscribe.

The names here are the public API; docs/reference/api.md lists it, and everything else is internal.
A name is imported when it is first used, so `import headgate` costs nothing.

The packages, from top to bottom; imports go downwards only, which contracts in `pyproject.toml`
enforce:

- `cli`: the `headgate` command; `demo`: the scene of `make run`.
- `embedded`: a router in your process; `ntf_server`: the notification server as a process.
- `server`: the router as a process; `pipeline`: its facts on Spark.
- `testing`: the simulator, and tools for tests.
- `agent`: a client of SMP routers that reconnects and subscribes again.
- `notify`: the decisions and pushes of a notification server, and opening a push.
- `store`: stored queues; `journal`: facts in files; `wire`: protocols; `client`: clients.
- `crypto`: keys, boxes and proofs.
- `core`: all decisions, without I/O; `expr`: the language of predicates; `errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.client.bmq import Client, Subscription, connect
    from headgate.core.model.domain import Domain, Mode
    from headgate.core.model.limits import Limits
    from headgate.core.model.message import Message
    from headgate.embedded import Delivery, Router, Session
    from headgate.errors import HeadgateError

    __version__: str

__all__ = [
    "Client",
    "Delivery",
    "Domain",
    "HeadgateError",
    "Limits",
    "Message",
    "Mode",
    "Router",
    "Session",
    "Subscription",
    "__version__",
    "connect",
]

PLACES = {
    "Client": "client.bmq",
    "Delivery": "embedded",
    "Domain": "core.model.domain",
    "HeadgateError": "errors",
    "Limits": "core.model.limits",
    "Message": "core.model.message",
    "Mode": "core.model.domain",
    "Router": "embedded",
    "Session": "embedded",
    "Subscription": "client.bmq",
    "connect": "client.bmq",
}
MODULES = ("agent", "client", "errors", "expr", "pipeline", "store", "testing")


def __getattr__(name: str) -> object:
    if name in PLACES:
        found: object = getattr(import_module(f"headgate.{PLACES[name]}"), name)
    elif name in MODULES:
        found = import_module(f"headgate.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        found = version("headgate")
    else:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *MODULES})
