"""Standby: what a router brings when it wants a store that another may have.

It knows by which address clients know it, as the database should, and how far the database was when
this router last saw it: one that is behind that was put back to an earlier state.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Never

import msgspec

from headgate.errors import ConfigError
from headgate.server.clock import steady
from headgate.server.config import Config
from headgate.server.identity import Identity
from headgate.server.net.passed_sockets import passed_sockets
from headgate.store.backends import masked
from headgate.store.ownership import Ownership
from headgate.store.private import make_file

FILE = "ownership.json"
"""In the state directory: the number of the last batch that this router knows of."""

REAP_TRIES, REAP_PAUSE = 20, 0.01
"""How long a killed child is waited for: one whose disk hangs must not hold up anybody."""


class Remembered(msgspec.Struct, frozen=True):
    """State of a database that is kept between two runs."""

    store: str
    mark: int


def ownership_of(config: Config) -> Ownership | None:
    """For the store of a configuration, if it may be waited for."""
    if not config.store.standby:
        return None
    return Ownership(
        config.store.owner_timeout, steady, partial(identify, config), known_mark(config)
    )


def identify(config: Config, known: bytes | None, is_ours: bool) -> bytes | None:
    """The fingerprint by which clients know the router, made if nobody has one yet; raise if it is
    another than the database knows, since clients would refuse this router."""
    if config.listen.smp is None:
        return known
    folder = config.directory / config.smp.identity
    if known is None:
        return Identity.open(folder, socket.gethostname(), time.time()).fingerprint
    if not folder.exists():
        raise ConfigError(f"{folder} is missing, and {_advice(config, known, folder)}")
    own = Identity.load(folder, time.time()).fingerprint
    if own != known:
        raise ConfigError(
            f"{folder} has the identity {_text(own)}, and {_advice(config, known, folder)}"
        )
    return own


def _advice(config: Config, known: bytes, folder: Path) -> str:
    return (
        f"clients of the store {masked(config.store.url)} know the router by {_text(known)}: they"
        f" would refuse this one. Copy the folder from the other router to {folder}; or, to give up"
        " the old address for good, stop both routers and say"
        " UPDATE headgate.owners SET fingerprint = NULL in the database"
    )


def _text(fingerprint: bytes) -> str:
    return urlsafe_b64encode(fingerprint).decode().rstrip("=")


def known_mark(config: Config) -> int:
    """How far the database was; 0 if that is not known, or was of another database."""
    try:
        kept = msgspec.json.decode((config.directory / FILE).read_bytes(), type=Remembered)
    except (OSError, msgspec.MsgspecError):
        return 0
    return kept.mark if kept.store == masked(config.store.url) else 0


def keep_mark(config: Config, mark: int) -> None:
    """For the next run. A disk that is full has more important things to say."""
    part = config.directory / f".{FILE}.{os.getpid()}"
    kept = Remembered(masked(config.store.url), mark)
    with suppress(OSError):
        with open(make_file(part), "wb") as file:
            file.write(msgspec.json.encode(kept))
        part.replace(config.directory / FILE)


def start_anew(children: Iterable[int]) -> Never:
    """Be a new process under the same number: every connection is closed, every memory is gone;
    only ports that were passed stay. The children were killed; nobody would know of their end
    later."""
    for child in children:
        _reap(child)
    sys.stdout.flush()
    sys.stderr.flush()
    passed_sockets().pass_on()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _reap(child: int) -> None:
    for _ in range(REAP_TRIES):
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                time.sleep(REAP_PAUSE)
                continue
        return
