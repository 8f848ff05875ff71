"""The wires that a router can listen for."""

from __future__ import annotations

from headgate.server.wires.bmq import BMQ
from headgate.server.wires.resp import RESP
from headgate.server.wires.smp import SMP
from headgate.server.wires.wire import Wire

WIRES: tuple[Wire, ...] = (SMP, RESP, BMQ)
"""In the order of the configuration. `serve`, `check` and `demo` go through it."""
