"""The lease of the tables: one writer at a time, and a second one is told at once.

It is for the person: what keeps rows single is the log of manifests, also where a lock does not
reach. The lock ends with the process that has it, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.errors import PipelineError
from headgate.pipeline.tables.storage import Storage

WRITER = "_lease"
TIDIER = "_lease.tidy"


class Held(PipelineError):
    """The error that somebody else has the lease."""


@contextmanager
def held(storage: Storage, name: str) -> Iterator[None]:
    """Hold a lease of the tables, if they are in a folder of this machine; raise if somebody
    else does."""
    if storage.local is None:
        yield
        return
    descriptor = os.open(storage.local / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 400).decode(errors="replace")
            raise Held(
                f"{holder or 'another process'} is at work on the tables in {storage.root}: let it"
                " go on, or stop it first"
            ) from None
        os.ftruncate(descriptor, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        os.pwrite(
            descriptor,
            f"process {os.getpid()} on {socket.gethostname()}, since {since},".encode(),
            0,
        )
        yield
    finally:
        os.close(descriptor)
