"""Systemd: what a server tells it, if it was started by it.

A unit with ``Type=notify-reload`` and ``WatchdogSec=`` hears that the server is ready, that it
still gets somewhere, that it reloads, and that it stops. Started by anybody else, nothing is sent.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


def notify(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Tell systemd, if it started us."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(address)
        channel.sendall(state.encode())


@contextmanager
def reloading(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """A block in which the configuration is read again. With the time systemd knows which of its
    signals this is the answer to; that it is over is the same word as after a start."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}", environ)
    try:
        yield
    finally:
        notify(READY, environ)


class Watchdog:
    """Tells systemd every now and then that the server still gets somewhere. If it hears nothing
    for `WatchdogSec`, it ends the process and starts another."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        # A process that we start inherits the variables; they are not meant for it.
        is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.is_on = is_ours and bool(environ.get("WATCHDOG_USEC"))

    def feed(self, has_moved: bool) -> None:
        """Called every second, with whether the server got somewhere since the last time."""
        if self.is_on and has_moved:
            notify(WATCHDOG, self._environ)
