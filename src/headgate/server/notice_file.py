"""Notices over a restart: what waits for notifiers is in memory, and in a file meanwhile.

A router that is killed loses them, and nothing else: the messages are in the store, and who reads
the queue gets them without having been told.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headgate.core.exclusive.notifiers import Notifiers
from headgate.core.model.ids import MessageId, ServiceId
from headgate.core.model.message import Notice
from headgate.errors import ConfigError

FILE = "notices"

Row = tuple[bytes | None, bytes, bytes, bytes, float]


def save(notifiers: Notifiers, directory: Path) -> None:
    rows: list[Row] = [
        (waiting.service, notice.notifier, notice.secret, notice.message, notice.arrived)
        for waiting in notifiers.waiting.values()
        for notice in waiting.notices
    ]
    if not rows:
        return
    part = directory / f".{FILE}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(msgspec.msgpack.encode(rows))
        file.flush()
        os.fsync(descriptor)
    part.replace(directory / FILE)


def restore(notifiers: Notifiers, directory: Path) -> None:
    """Take what was saved. The file goes: what is told from here on must not be told again."""
    path = directory / FILE
    try:
        rows = msgspec.msgpack.decode(path.read_bytes(), type=list[Row])
    except FileNotFoundError:
        return
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; remove it to start without") from error
    notifiers.adopt(
        (
            None if service is None else ServiceId(service),
            Notice(notifier, secret, MessageId(message), arrived),
        )
        for service, notifier, secret, message, arrived in rows
    )
    path.unlink()
