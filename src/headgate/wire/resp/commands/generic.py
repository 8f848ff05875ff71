"""Keys, whatever their values: how long they live, which there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headgate.core.model.glob import Glob
from headgate.core.redis.keyspace import DATABASES, SCAN_KEYS, Item, Keyspace, milliseconds
from headgate.wire.resp.codec.integers import INT64, integer
from headgate.wire.resp.codec.replies import (
    NOTHING,
    OK,
    CommandError,
    Parts,
    Reply,
    Simple,
    text_of,
)
from headgate.wire.resp.command_cost import glob_of, listed, names_in, portions
from headgate.wire.resp.commands.key_commands import (
    ALL,
    NONE,
    READ,
    READ_FAST,
    SYNTAX,
    TWO,
    UNITS,
    WRITE,
    WRITE_FAST,
    deadline_of,
    keyed,
)
from headgate.wire.resp.commands.table import CommandTable

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

table = CommandTable()

NO_KEY = "ERR no such key"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
OUT_OF_RANGE = (
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
)
CURSOR = re.compile(rb"[0-9]{1,20}")
CURSORS = range(2**64)
SCANNED = 10
"""Keys that a SCAN looks at unless it is told how many."""
KEY_STEPS = 2
"""Of a key that is looked at."""


# Deadlines.


def _expiring(name: str, unit: bytes) -> None:
    @keyed(table, name, -3, WRITE_FAST, "keyspace")
    def expire(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
        conditions = _conditions(args[2:])
        deadline = deadline_of(unit, args[1], now, name, least=INT64.start)
        before = keys.deadline(db, args[0], now)
        if before is None:
            met = {b"NX", b"LT"}  # without a deadline it would live longer than with any
        else:
            met = {b"XX"}
            if deadline != before:
                met.add(b"LT" if deadline < before else b"GT")
        return int(conditions <= met and keys.expire(db, args[0], deadline, now))


_expiring("expire", b"EX")
_expiring("pexpire", b"PX")
_expiring("expireat", b"EXAT")
_expiring("pexpireat", b"PXAT")


def _conditions(args: list[bytes]) -> frozenset[bytes]:
    words = frozenset(arg.upper() for arg in args)
    for arg in args:
        if arg.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandError(f"ERR Unsupported option {text_of(arg)}")
    if b"NX" in words and len(words) > 1:
        raise CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if words >= {b"GT", b"LT"}:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    return words


def _add_remaining(name: str, unit: bytes) -> None:
    scale, is_relative = UNITS[unit]

    @keyed(table, name, 2, READ_FAST, "keyspace")
    def ttl(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
        deadline = keys.deadline(db, args[0], now)
        if deadline is None:
            return -1 if keys.has(db, args[0], now) else -2
        result = deadline - milliseconds(now) if is_relative else deadline
        return (result + scale // 2) // scale


_add_remaining("ttl", b"EX")
_add_remaining("pttl", b"PX")
_add_remaining("expiretime", b"EXAT")
_add_remaining("pexpiretime", b"PXAT")


@keyed(table, "persist", 2, WRITE_FAST, "keyspace")
def persist(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    if keys.deadline(db, args[0], now) is None:
        return 0
    return int(keys.expire(db, args[0], None, now))


# Keys, whatever their values.


@keyed(table, "del", -2, WRITE, "keyspace", keys=ALL)
@keyed(table, "unlink", -2, WRITE_FAST, "keyspace", keys=ALL)
def delete(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return sum(keys.delete(db, key, now) for key in args)


@keyed(table, "exists", -2, READ_FAST, "keyspace", keys=ALL)
@keyed(table, "touch", -2, READ_FAST, "keyspace", keys=ALL)
def exists(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return sum(keys.has(db, key, now) for key in args)


@keyed(table, "type", 2, READ_FAST, "keyspace")
def type_(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return Simple("string" if keys.has(db, args[0], now) else "none")


@keyed(table, "rename", 3, WRITE, "keyspace", keys=TWO)
def rename(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    if not keys.has(db, args[0], now):
        raise CommandError(NO_KEY)
    keys.rename(db, args[0], args[1], now)
    return OK


@keyed(table, "renamenx", 3, WRITE_FAST, "keyspace", keys=TWO)
def renamenx(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    if not keys.has(db, args[0], now):
        raise CommandError(NO_KEY)
    if keys.has(db, args[1], now):
        return 0
    keys.rename(db, args[0], args[1], now)
    return 1


def _all_steps(session: RespSession, args: list[bytes]) -> int:
    keys: Keyspace = session.hub.keys
    return KEY_STEPS * keys.size(session.db)


def _all_bytes(session: RespSession, args: list[bytes]) -> int:
    keys: Keyspace = session.hub.keys
    return names_in(session, [item.key for item in keys.items(session.db)])


@table.command(
    "keys",
    2,
    flags=READ,
    categories=("keyspace", "read", "slow", "dangerous"),
    steps=_all_steps,
    answer=_all_bytes,
    is_sliced=True,
)
def keys_(session: RespSession, args: list[bytes]) -> Reply:
    # A star alone stands for every key, even the empty one, which it does not match as a pattern.
    glob = None if args[0] == b"*" else glob_of(session, args[0])
    return Parts(_living(session.hub, session.hub.keys.items(session.db), glob))


def _living(hub: Hub, items: list[Item], glob: Glob | None) -> Iterator[Reply]:
    """The keys that were there when it began, and still are."""
    found: list[bytes] = []
    for portion in portions(items):
        names = hub.keys.living(portion, hub.shell.clock())
        hub.publish_expired()
        found += names if glob is None else filter(glob.matches, names)
        yield NOTHING
    yield from listed(found, None)


def _scan_steps(session: RespSession, args: list[bytes]) -> int:
    return SCAN_KEYS // 2 if len(args) > 1 else 0


@table.command("scan", -2, flags=READ, categories=("keyspace", "read", "slow"), steps=_scan_steps)
def scan(session: RespSession, args: list[bytes]) -> Reply:
    if not CURSOR.fullmatch(args[0]) or int(args[0]) not in CURSORS:
        raise CommandError("ERR invalid cursor")
    count, pattern, kind = SCANNED, b"*", b"string"
    if len(args) % 2 == 0:
        raise CommandError(SYNTAX)
    for word, value in zip(args[1::2], args[2::2], strict=True):
        match word.upper():
            case b"COUNT" if (count := integer(value)) > 0:
                pass
            case b"MATCH":
                pattern = value
            case b"TYPE":
                kind = value.lower()
            case _:
                raise CommandError(SYNTAX)
    # A star alone stands for every key, even the empty one, which it does not match as a pattern.
    glob = None if pattern == b"*" else glob_of(session, pattern)
    hub = session.hub
    cursor, names = hub.keys.scan(session.db, int(args[0]), count, hub.shell.clock())
    hub.publish_expired()
    if glob is not None:
        names = list(filter(glob.matches, names))
    return [b"%d" % cursor, names if kind == b"string" else []]


@keyed(table, "randomkey", 1, READ, "keyspace", keys=NONE)
def randomkey(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return keys.pick(db, int(now * 1_000_000), now)  # nobody can tell the last digits in advance


@keyed(table, "dbsize", 1, READ_FAST, "keyspace", keys=NONE)
def dbsize(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return keys.size(db)


@keyed(table, "flushdb", -1, WRITE, "keyspace", "dangerous", keys=NONE)
def flushdb(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return _flush(keys, [db], args)


@keyed(table, "flushall", -1, WRITE, "keyspace", "dangerous", keys=NONE)
def flushall(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return _flush(keys, range(DATABASES), args)


def _flush(keys: Keyspace, databases: Iterable[int], args: list[bytes]) -> Reply:
    if len(args) > 1 or (args and args[0].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError(SYNTAX)
    for db in databases:
        keys.flush(db)
    return OK


@keyed(table, "srandmember", -2, READ, "set")
def srandmember(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    """There are no sets; who asks for a member of one is told that it is not there."""
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 2 and integer(args[1]) == INT64.start:
        raise CommandError(OUT_OF_RANGE)
    if keys.has(db, args[0], now):
        raise CommandError(WRONG_TYPE)
    return None if len(args) == 1 else []
