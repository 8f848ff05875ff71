"""MONITOR: a session that is told every command that is carried out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headgate.wire.resp.codec.replies import OK, CommandError, Reply
from headgate.wire.resp.commands.table import CommandEntry, CommandTable

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

table = CommandTable()

HIDDEN = b"(redacted)"
NOT_MONITORED = "admin"
"""As in Redis, who administers is not overheard: ACL SETUSER and CONFIG SET carry passwords."""

UNPRINTABLE = re.compile(rb"[^ !#-\[\]-~]")
"""Quotes and backslashes too."""
ESCAPES = {
    byte: b"\\%c" % letter for byte, letter in zip(b'\\"\n\r\t\a\b', b'\\"nrtab', strict=True)
}


@table.command(
    "monitor",
    1,
    flags=("admin", "noscript", "loading", "stale"),
    categories=("admin", "slow", "dangerous"),
)
def monitor(session: RespSession, args: list[bytes]) -> Reply:
    if session.is_executing:
        raise CommandError("ERR MONITOR isn't allowed for DENY BLOCKING client")
    session.hub.monitors[session.id] = session
    return OK


def send_to_monitors(
    hub: Hub, session: RespSession, entry: CommandEntry, command: list[bytes]
) -> None:
    """Tell every monitor a command that a session is about to carry out."""
    if NOT_MONITORED in entry.flags:
        return
    seconds, micros = divmod(int(hub.shell.clock() * 1_000_000), 1_000_000)
    words = b" ".join([quoted(word) for word in disclosed(entry.name, command)])
    line = b"+%d.%06d [%d %b] %b\r\n" % (seconds, micros, session.db, session.peer.encode(), words)
    for each in list(hub.monitors.values()):
        each.outlet.deliver(line, 1)


def disclosed(name: str, command: list[bytes]) -> list[bytes]:
    """A command without what nobody else may know."""
    if name == "auth":
        return [command[0]] + [HIDDEN] * (len(command) - 1)
    if name == "hello":
        secret = {
            place + distance
            for place, word in enumerate(command)
            if word.upper() == b"AUTH"
            for distance in (1, 2)
        }
        return [HIDDEN if place in secret else word for place, word in enumerate(command)]
    return command


def quoted(word: bytes) -> bytes:
    return b'"%b"' % UNPRINTABLE.sub(_escaped, word)


def _escaped(found: re.Match[bytes]) -> bytes:
    byte = found[0][0]
    return ESCAPES.get(byte) or b"\\x%02x" % byte
