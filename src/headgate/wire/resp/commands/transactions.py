"""Commands that are carried out together: MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from headgate.errors import HeadgateError, LimitReached
from headgate.wire.resp.checks import check_rights
from headgate.wire.resp.codec.replies import (
    NOTHING,
    OK,
    QUEUED,
    CommandError,
    Decided,
    NoArray,
    Parts,
    Reply,
    array_of,
    encode,
)
from headgate.wire.resp.command_cost import Allowance, refusal, steps_of
from headgate.wire.resp.commands.key_commands import stream_steps
from headgate.wire.resp.commands.table import CommandEntry, CommandTable
from headgate.wire.resp.reply_mode import SILENT, is_confirmation
from headgate.wire.resp.streams.awaited import STORE_FAILED, Asked, AskedTogether, ReplyRoom

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

FLAGS = ("noscript", "loading", "stale", "fast", "allow_busy")
CATEGORIES = ("fast", "transaction")


Queued: TypeAlias = list[tuple[CommandEntry, list[bytes]]]

REDIRECTIONS = frozenset(("MOVED", "CROSSSLOT", "CLUSTERDOWN"))
"""Errors that a cluster client acts upon, so they are told as they are."""
WATCHED = (
    "EXECABORT Transaction discarded because of: keys that are watched may change while streams are"
    " written, so that commands on streams cannot depend on them"
)
ARGUMENT_BYTES = 64
"""About what an argument takes besides its bytes."""


def size_of(command: list[bytes]) -> int:
    return sum(map(len, command)) + ARGUMENT_BYTES * len(command)


def queue(session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
    """Keep a command for EXEC, if there is room."""
    assert session.queued is not None, "there is a transaction"
    limits = session.hub.broker.limits
    session.queued_bytes += size_of(command)
    session.queued_steps += steps_of(session, entry, command)
    for name, most, now in (
        ("transaction_commands", limits.transaction_commands, len(session.queued) + 1),
        ("transaction_bytes", limits.transaction_bytes, session.queued_bytes),
        ("command_steps", limits.command_steps, session.queued_steps),
    ):
        if now > most:
            session.broken = True
            session.queued.clear()
            return refusal(session, LimitReached(name, most))
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


@table.command("multi", 1, flags=FLAGS, categories=CATEGORIES, is_queued=False)
def multi(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.queued, session.broken = [], False
    session.queued_bytes = session.queued_steps = 0
    return OK


@table.command(
    "exec",
    1,
    flags=("noscript", "loading", "stale", "skip_slowlog"),
    categories=("slow", "transaction"),
    is_queued=False,
)
def exec(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is None:
        raise CommandError("ERR EXEC without MULTI")
    watched, session.watched = session.watched, {}
    try:
        if session.broken:
            raise CommandError("EXECABORT Transaction discarded because of previous errors.")
        if any(_stamp(session, db, key) != stamp for (db, key), stamp in watched.items()):
            return NoArray()
        if any(_takes_turn(session, *each) for each in session.queued):
            if watched:
                raise CommandError(WATCHED)
            return _ask(session, session.queued)
        return _carry_out(session, session.queued, {})
    finally:
        session.queued = None


def _takes_turn(session: RespSession, entry: CommandEntry, command: list[bytes]) -> bool:
    """Whether a command is about streams, or publishes on a channel that feeds a domain."""
    return entry.takes_turns or (
        entry.publishes is not None
        and session.hub.feeds.is_used
        and bool(session.hub.feeds.of(entry.publishes, command[1]))
    )


def _ask(session: RespSession, queued: Queued) -> Reply:
    """Have the commands on streams carried out, in one turn; the others are when that is settled.
    If the store fails, nothing was done, and each of them is answered with that."""
    session.is_executing = True
    parts: dict[int, Asked] = {}
    answered: dict[int, Reply] = {}
    limits = session.hub.broker.limits
    allowance = Allowance(limits)
    for place, (entry, command) in enumerate(queued):
        if _takes_turn(session, entry, command):
            reply = _attempt(session, entry, command, allowance)
            if isinstance(reply, Asked):
                parts[place] = reply
            else:
                answered[place] = reply
    session.is_executing = False
    if not parts:
        return _carry_out(session, queued, answered)
    reached = LimitReached("reply_bytes", limits.reply_bytes)
    room = ReplyRoom(limits.reply_bytes, lambda: refusal(session, reached))
    return AskedTogether(
        parts,
        lambda found: _settled(session, queued, {**answered, **found}),
        room,
        is_block=True,
    )


def _settled(session: RespSession, queued: Queued, answered: dict[int, Reply]) -> Reply:
    """The turn of a transaction is over."""
    if any(isinstance(r, CommandError) and str(r) == STORE_FAILED for r in answered.values()):
        return [CommandError(STORE_FAILED)] * len(queued)
    return _carry_out(session, queued, answered)


def _carry_out(session: RespSession, queued: Queued, answered: dict[int, Reply]) -> Reply:
    """Whether the client is answered, and in which protocol, may change from one command to the
    next; so each answer is made, or not, when its command is done. Until the last one is, the
    session is in its transaction. A client that ends itself gets the answer to that, and none after
    it."""
    session.is_executing = True
    allowance = Allowance(session.hub.broker.limits)
    result: list[bytes] = [] if session.answers in SILENT else [array_of(len(queued))]
    for place, (entry, command) in enumerate(queued):
        is_over = session.is_closing
        if place in answered:
            reply = answered[place]
        else:
            reply = _attempt(session, entry, command, allowance)
        if type(reply) is Parts:
            reply = Parts(_all_of(session, reply))
        blob = encode(reply, session.protocol)
        allowance.answered(len(blob))
        is_wanted = session.answers not in SILENT or is_confirmation(entry, reply)
        if is_wanted and not is_over:
            result.append(blob)
    session.is_executing = False
    return Decided(result) if result else NOTHING


def _attempt(
    session: RespSession, entry: CommandEntry, command: list[bytes], allowance: Allowance
) -> Reply:
    """Carry out one command of a transaction. Its cost depends on those before it, so each is
    charged when its turn comes; a refusal is the answer in its place."""
    try:
        check_rights(session, entry, command)  # they may have changed since it was queued
        allowance.take(session, entry, command)
    except CommandError as refused:
        return refused
    except LimitReached as reached:
        return refusal(session, reached)
    return session.attempt(entry, command)


def _all_of(session: RespSession, parts: Parts) -> Iterator[Reply]:
    """An answer in parts, made at once. An error in the middle of it is its last part."""
    try:
        yield from parts
    except HeadgateError as failed:
        yield session.failure(failed)


@table.command("discard", 1, flags=FLAGS, categories=CATEGORIES, is_queued=False)
def discard(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is None:
        raise CommandError("ERR DISCARD without MULTI")
    session.queued = None
    session.watched = {}
    return OK


@table.command(
    *("watch", -2),
    flags=FLAGS,
    categories=CATEGORIES,
    keys=(1, -1, 1),
    steps=stream_steps,
    is_queued=False,
)
def watch(session: RespSession, args: list[bytes]) -> Reply:
    if session.queued is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    most = session.hub.broker.limits.watched_keys
    longest = session.hub.broker.limits.name_bytes
    if any(len(key) > longest for key in args):
        raise LimitReached("name_bytes", longest)
    if len(session.watched) + len(args) > most:
        raise LimitReached("watched_keys", most)
    if session.hub.stream_keys.is_used and session.hub.streams_among(session.db, args):
        raise CommandError("ERR a stream cannot be watched: its entries are read by groups")
    for key in args:
        session.watched.setdefault((session.db, key), _stamp(session, session.db, key))
    return OK


@table.command("unwatch", 1, flags=FLAGS, categories=CATEGORIES)
def unwatch(session: RespSession, args: list[bytes]) -> Reply:
    session.watched = {}
    return OK


def _stamp(session: RespSession, db: int, key: bytes) -> int:
    """A number that changes whenever the key does. A key whose time is over dies first."""
    keys = session.hub.keys
    keys.has(db, key, session.hub.shell.clock())
    session.hub.publish_expired()
    return keys.stamp(db, key)
