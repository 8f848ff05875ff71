"""Parts that the commands on keys have in common.

A handler of theirs is given the keys, the database and one time for the whole command. Keys that a
command found dead are told, and a full house is Redis's own error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.redis.keyspace import Keyspace, milliseconds
from headgate.errors import LimitReached
from headgate.wire.resp.codec.integers import INT64, integer
from headgate.wire.resp.codec.replies import CommandError, Reply, Simple
from headgate.wire.resp.command_cost import NAME_BYTES
from headgate.wire.resp.commands.table import CommandTable, Weigh
from headgate.wire.resp.commands.table import Keys as Positions

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

Work: TypeAlias = Callable[[Keyspace, int, float, list[bytes]], Reply]
"""Carries a command out: the keys, the database, the time, the arguments."""

READ, READ_FAST = ("readonly",), ("readonly", "fast")
WRITE, WRITE_FAST = ("write",), ("write", "fast")
GROW, GROW_FAST = ("write", "denyoom"), ("write", "denyoom", "fast")

CATEGORIES = ("keyspace", "read", "write", "set", "string", "fast", "slow", "dangerous")
"""In the order in which Redis tells them."""

NONE, ONE, TWO, ALL, PAIRS = (0, 0, 0), (1, 1, 1), (1, 2, 1), (1, -1, 1), (1, -1, 2)

FULL = "OOM command not allowed when used memory > 'maxmemory'."
TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
ROOM = frozenset(("keys", "keys_bytes"))
"""The limits that this is about."""
SYNTAX = "ERR syntax error"

DURABLE = frozenset(
    (
        *("del", "unlink", "rename", "renamenx", "persist"),
        *("expire", "pexpire", "expireat", "pexpireat"),
    )
)
"""Commands that a stream does not support."""
DURABLE_ERROR = (
    "ERR a stream is durable and is not deleted here; acknowledge its entries, or change the"
    " configuration"
)
KNOWING = frozenset(("type", "exists"))
"""Commands for streams as well as strings."""

UNITS = {b"EX": (1000, True), b"PX": (1, True), b"EXAT": (1000, False), b"PXAT": (1, False)}
"""Milliseconds in one, and whether it counts from now."""
LIFETIMES = frozenset((*UNITS, b"KEEPTTL", b"PERSIST"))


def keyed(
    table: CommandTable,
    name: str,
    arity: int,
    flags: tuple[str, ...],
    *families: str,
    keys: Positions = ONE,
    answer: Weigh | None = None,
) -> Callable[[Work], Work]:
    """Register a command. Its flags say whether it writes and whether it is fast."""
    access = "write" if "write" in flags else "read"
    speed = "fast" if "fast" in flags else "slow"
    categories = tuple(each for each in CATEGORIES if each in (*families, access, speed))

    def register(work: Work) -> Work:
        has_care = name in DURABLE or name in KNOWING

        def run(session: RespSession, args: list[bytes]) -> Reply:
            hub = session.hub
            streams = 0
            if has_care and hub.stream_keys.is_used:
                streams = hub.streams_among(session.db, args[:1] if keys == ONE else args)
            if streams and name in DURABLE:
                raise CommandError(DURABLE_ERROR)
            try:
                reply = work(hub.keys, session.db, hub.shell.clock(), args)
            except LimitReached as reached:
                if reached.name in ROOM:
                    raise CommandError(FULL) from None
                if reached.name == "bulk_bytes":
                    raise CommandError(TOO_LONG) from None
                raise
            finally:
                hub.publish_expired()
            return reply if not streams else _with_streams(reply, streams)

        steps = stream_steps if has_care and keys == ALL else 0
        table.command(
            *(name, arity),
            flags=flags,
            categories=categories,
            keys=keys,
            steps=steps,
            answer=answer,
        )(run)
        return work

    return register


def stream_steps(session: RespSession, keys: list[bytes]) -> int:
    """The steps of finding streams among keys."""
    stream_keys = session.hub.stream_keys
    return stream_keys.weigh(keys) if stream_keys.is_used else 0


def _with_streams(reply: Reply, streams: int) -> Reply:
    """The reply of TYPE or EXISTS, with the streams among its keys."""
    return streams + reply if isinstance(reply, int) else Simple("stream")


def value_bytes(session: RespSession, args: list[bytes]) -> int:
    """The length of the value of a key."""
    return session.hub.keys.length(session.db, args[0])


def values_bytes(session: RespSession, args: list[bytes]) -> int:
    """The bytes that the values of keys take together, with room for each."""
    length, db = session.hub.keys.length, session.db
    return sum([length(db, key) for key in args]) + NAME_BYTES * len(args)


def replaced_bytes(session: RespSession, args: list[bytes]) -> int:
    """The length of the value before, if it is asked for."""
    is_asked = any(word.upper() == b"GET" for word in args[2:])
    return value_bytes(session, args) if is_asked else 0


def options(args: list[bytes], known: frozenset[bytes]) -> tuple[frozenset[bytes], bytes]:
    """The options of a command, and the amount of time if one of them takes it."""
    words, amount = [], b""
    rest = iter(args)
    for arg in rest:
        word = arg.upper()
        following = next(rest, None) if word in UNITS else amount
        if word not in known or following is None:
            raise CommandError(SYNTAX)
        words.append(word)
        amount = following
    found = frozenset(words)
    if len(found & LIFETIMES) > 1 or found >= {b"NX", b"XX"}:
        raise CommandError(SYNTAX)
    return found, amount


def lifetime(words: frozenset[bytes], amount: bytes, now: float, name: str) -> int | None:
    """The deadline that one of the options asks for, if any does."""
    for unit in words & UNITS.keys():
        return deadline_of(unit, amount, now, name, least=1)
    return None


def deadline_of(unit: bytes, amount: bytes, now: float, name: str, least: int) -> int:
    scale, is_relative = UNITS[unit]
    span = integer(amount) * scale
    deadline = span + milliseconds(now) if is_relative else span
    if span < least or deadline not in INT64:
        raise CommandError(f"ERR invalid expire time in '{name}' command")
    return deadline
