"""Names that people have for sessions and queues."""

from __future__ import annotations

import re

from headgate.core.delivery.sessions import Session
from headgate.core.model.ids import QueueId
from headgate.core.model.queue_uri import SCHEME
from headgate.core.model.tally import name_of
from headgate.server.desk.asking import shown

PLACE = re.compile(r"@\S+ pid [0-9]+$")
"""The ending that clients of queues add to their names: their machine and their process."""
IDS = 8
"""Bytes of a digest that are shown."""


def short_name(session: Session) -> str:
    """Of a session: without where it runs, which clients of queues add."""
    called = PLACE.sub("", session.called)
    return shown(called or session.agent or session.peer or f"session {session.id}")


def local_name(uri: str) -> str:
    """The name of a queue in its domain."""
    return uri.removeprefix(SCHEME).partition("/")[2]


def digest(queue: QueueId) -> str:
    """An exclusive queue as it is called outside of the router."""
    return name_of(queue)[:IDS].hex()
