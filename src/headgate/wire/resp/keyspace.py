"""Keys, whatever their values: how long they live, which there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headgate.core.glob import Glob
from headgate.core.keys import DATABASES, Keys, milliseconds
from headgate.wire.resp.keyed import (
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
from headgate.wire.resp.numbers import INT64, integer
from headgate.wire.resp.replies import OK, CommandError, Reply, Simple, text_of
from headgate.wire.resp.table import Table

if TYPE_CHECKING:
    pass

table = Table()

NO_KEY = "ERR no such key"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
OUT_OF_RANGE = (
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
)
CURSOR = re.compile(rb"[0-9]{1,20}")
CURSORS = range(2**64)
SCANNED = 10
"""Keys that a SCAN looks at unless it is told how many."""


# Deadlines.


def _expiring(name: str, unit: bytes) -> None:
    @keyed(table, name, -3, WRITE_FAST, "keyspace")
    def expire(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
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


def _telling(name: str, unit: bytes) -> None:
    scale, is_relative = UNITS[unit]

    @keyed(table, name, 2, READ_FAST, "keyspace")
    def ttl(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
        deadline = keys.deadline(db, args[0], now)
        if deadline is None:
            return -1 if keys.has(db, args[0], now) else -2
        told = deadline - milliseconds(now) if is_relative else deadline
        return (told + scale // 2) // scale


_telling("ttl", b"EX")
_telling("pttl", b"PX")
_telling("expiretime", b"EXAT")
_telling("pexpiretime", b"PXAT")


@keyed(table, "persist", 2, WRITE_FAST, "keyspace")
def persist(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    if keys.deadline(db, args[0], now) is None:
        return 0
    return int(keys.expire(db, args[0], None, now))


# Keys, whatever their values.


@keyed(table, "del", -2, WRITE, "keyspace", keys=ALL)
@keyed(table, "unlink", -2, WRITE_FAST, "keyspace", keys=ALL)
def delete(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return sum(keys.delete(db, key, now) for key in args)


@keyed(table, "exists", -2, READ_FAST, "keyspace", keys=ALL)
@keyed(table, "touch", -2, READ_FAST, "keyspace", keys=ALL)
def exists(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return sum(keys.has(db, key, now) for key in args)


@keyed(table, "type", 2, READ_FAST, "keyspace")
def type_(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return Simple("string" if keys.has(db, args[0], now) else "none")


@keyed(table, "rename", 3, WRITE, "keyspace", keys=TWO)
def rename(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    if not keys.has(db, args[0], now):
        raise CommandError(NO_KEY)
    keys.rename(db, args[0], args[1], now)
    return OK


@keyed(table, "renamenx", 3, WRITE_FAST, "keyspace", keys=TWO)
def renamenx(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    if not keys.has(db, args[0], now):
        raise CommandError(NO_KEY)
    if keys.has(db, args[1], now):
        return 0
    keys.rename(db, args[0], args[1], now)
    return 1


@keyed(table, "keys", 2, READ, "keyspace", "dangerous", keys=NONE)
def keys_(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return _matching(args[0], keys.names(db, now))


@keyed(table, "scan", -2, READ, "keyspace", keys=NONE)
def scan(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
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
    cursor, names = keys.scan(db, int(args[0]), count, now)
    found = _matching(pattern, names) if kind == b"string" else []
    return [b"%d" % cursor, found]


def _matching(pattern: bytes, names: list[bytes]) -> list[bytes]:
    if pattern == b"*":
        return names  # even the empty one, which a star as a pattern does not match
    matches = Glob(pattern).matches
    return [name for name in names if matches(name)]


@keyed(table, "randomkey", 1, READ, "keyspace", keys=NONE)
def randomkey(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return keys.pick(db, int(now * 1_000_000), now)  # nobody can tell the last digits in advance


@keyed(table, "dbsize", 1, READ_FAST, "keyspace", keys=NONE)
def dbsize(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return keys.size(db)


@keyed(table, "flushdb", -1, WRITE, "keyspace", "dangerous", keys=NONE)
def flushdb(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return _flush(keys, [db], args)


@keyed(table, "flushall", -1, WRITE, "keyspace", "dangerous", keys=NONE)
def flushall(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    return _flush(keys, range(DATABASES), args)


def _flush(keys: Keys, databases: Iterable[int], args: list[bytes]) -> Reply:
    if len(args) > 1 or (args and args[0].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError(SYNTAX)
    for db in databases:
        keys.flush(db)
    return OK


@keyed(table, "srandmember", -2, READ, "set")
def srandmember(keys: Keys, db: int, now: float, args: list[bytes]) -> Reply:
    """There are no sets; who asks for a member of one is told that it is not there."""
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 2 and integer(args[1]) == INT64.start:
        raise CommandError(OUT_OF_RANGE)
    if keys.has(db, args[0], now):
        raise CommandError(WRONG_TYPE)
    return None if len(args) == 1 else []
