"""Commands that often stand between PUBLISHes, each carried out in one call.

They are asked for where nothing stands in a command's way: the client may do everything, hears
nothing itself, has no transaction, and nobody looks on. So nothing is left of a command's checks
but those of its own limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from headgate.errors import LimitReached
from headgate.wire.resp.codec.replies import OK, Simple, encode

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

VALUE_BYTES = 1024
"""Bytes of a value that is answered here."""

AtOnce: TypeAlias = "Callable[[RespSession, list[bytes]], bytes | None]"
"""Carries a command out and returns its answer in bytes; or None, with nothing done, if that is
left to the usual steps."""


def ping_at_once(session: RespSession, command: list[bytes]) -> bytes | None:
    """PING without a text."""
    if len(command) != 1:
        return None
    session.last_command = "ping"
    return PONG


def set_at_once(session: RespSession, command: list[bytes]) -> bytes | None:
    """SET without options."""
    if len(command) != 3:
        return None
    hub = session.hub
    _, key, value = command
    try:
        hub.keys.set(session.db, key, value, hub.shell.clock())
    except LimitReached:
        return None  # the steps know what is answered
    hub.publish_expired()
    session.last_command = "set"
    return DONE


def get_at_once(session: RespSession, command: list[bytes]) -> bytes | None:
    """GET of a short value."""
    if len(command) != 2:
        return None
    hub = session.hub
    value = hub.keys.get(session.db, command[1], hub.shell.clock())
    hub.publish_expired()
    if value is not None and len(value) > VALUE_BYTES:
        return None
    session.last_command = "get"
    return encode(value, session.protocol)


DONE = encode(OK, 2)
PONG = encode(Simple("PONG"), 2)
AT_ONCE: Mapping[bytes, AtOnce] = {
    b"PING": ping_at_once,
    b"ping": ping_at_once,
    b"SET": set_at_once,
    b"set": set_at_once,
    b"GET": get_at_once,
    b"get": get_at_once,
}
"""By name, as nearly all clients spell it."""
