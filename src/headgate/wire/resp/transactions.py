"""Commands that are carried out together: MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.errors import LimitReached
from headgate.wire.resp.replies import OK, QUEUED, CommandError, NoArray, Reply
from headgate.wire.resp.table import Entry, Table

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = Table()

FLAGS = ("noscript", "loading", "stale", "fast", "allow_busy")
CATEGORIES = ("fast", "transaction")


REDIRECTIONS = frozenset(("MOVED", "CROSSSLOT", "CLUSTERDOWN"))
"""Errors that a cluster client acts upon, so they are told as they are."""
ARGUMENT_BYTES = 64
"""About what an argument takes besides its bytes."""


def size_of(command: list[bytes]) -> int:
    return sum(map(len, command)) + ARGUMENT_BYTES * len(command)


def queue(session: RespSession, entry: Entry, command: list[bytes]) -> Reply:
    """Keep a command for EXEC, if there is room."""
    assert session.queued is not None, "there is a transaction"
    limits = session.hub.broker.limits
    session.queued_bytes += size_of(command)
    for name, most, now in (
        ("transaction_commands", limits.transaction_commands, len(session.queued) + 1),
        ("transaction_bytes", limits.transaction_bytes, session.queued_bytes),
    ):
        if now > most:
            reached = LimitReached(name, most)
            session.broken = True
            session.queued.clear()
            session.hub.tell_limit(session.id, reached)
            return CommandError(f"ERR {reached}")
    session.queued.append((entry, command))
    return QUEUED


def rejected(session: RespSession, command: list[bytes], error: CommandError) -> CommandError:
    """A command that was not even tried spoils the transaction it was for; an EXEC ends it."""
    if command[0].upper() != b"EXEC":
        session.broken = True
        return error
    session.queued, session.watched = None, {}
    code, _, text = str(error).partition(" ")
    if code in REDIRECTIONS:
        return error
    why = text if code == "ERR" else str(error)
    return CommandError(f"EXECABORT Transaction discarded because of: {why}")


@table.command("multi", 1, flags=FLAGS, categories=CATEGORIES)
def multi(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.queued, session.queued_bytes, session.broken = [], 0, False
    return OK


@table.command(
    "exec",
    1,
    flags=("noscript", "loading", "stale", "skip_slowlog"),
    categories=("slow", "transaction"),
)
def exec(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is None:
        raise CommandError("ERR EXEC without MULTI")
    queued, session.queued = session.queued, None
    watched, session.watched = session.watched, {}
    if session.broken:
        raise CommandError("EXECABORT Transaction discarded because of previous errors.")
    if any(_stamp(session, db, key) != stamp for (db, key), stamp in watched.items()):
        return NoArray()
    session.is_executing = True
    replies = [_attempt(session, entry, command) for entry, command in queued]
    session.is_executing = False
    return replies


def _attempt(session: RespSession, entry: Entry, command: list[bytes]) -> Reply:
    try:
        session.check_rights(entry, command)  # they may have changed since it was queued
    except CommandError as refused:
        return refused
    return session.attempt(entry, command)


@table.command("discard", 1, flags=FLAGS, categories=CATEGORIES)
def discard(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is None:
        raise CommandError("ERR DISCARD without MULTI")
    session.queued = None
    session.watched = {}
    return OK


@table.command("watch", -2, flags=FLAGS, categories=CATEGORIES, keys=(1, -1, 1))
def watch(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    most = session.hub.broker.limits.watched_keys
    longest = session.hub.broker.limits.name_bytes
    if any(len(key) > longest for key in args):
        raise LimitReached("name_bytes", longest)
    if len(session.watched) + len(args) > most:
        raise LimitReached("watched_keys", most)
    for key in args:
        session.watched.setdefault((session.db, key), _stamp(session, session.db, key))
    return OK


@table.command("unwatch", 1, flags=FLAGS, categories=CATEGORIES)
def unwatch(session: RespSession, args: list[bytes]) -> Reply:
    session.watched = {}
    return OK


def _stamp(session: RespSession, db: int, key: bytes) -> int:
    """What changes whenever the key does. A key whose time is over dies first."""
    keys = session.hub.keys
    keys.has(db, key, session.hub.shell.clock())
    session.hub.tell_expired()
    return keys.stamp(db, key)
