"""Strings: SET, GET, INCR and their kin."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from headgate.core.redis.keyspace import Keyspace
from headgate.wire.resp.codec.integers import INT64, integer
from headgate.wire.resp.codec.replies import OK, CommandError, Reply
from headgate.wire.resp.commands.key_commands import (
    ALL,
    GROW,
    GROW_FAST,
    PAIRS,
    READ_FAST,
    UNITS,
    WRITE_FAST,
    deadline_of,
    keyed,
    lifetime,
    options,
    replaced_bytes,
    value_bytes,
    values_bytes,
)
from headgate.wire.resp.commands.table import CommandTable

if TYPE_CHECKING:
    pass

table = CommandTable()

NOT_A_FLOAT = "ERR value is not a valid float"
OF_SET = frozenset((*UNITS, b"KEEPTTL", b"NX", b"XX", b"GET"))
OF_GETEX = frozenset((*UNITS, b"PERSIST"))


# Reading and writing values.


@keyed(table, "get", 2, READ_FAST, "string", answer=value_bytes)
def get(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return keys.get(db, args[0], now)


@keyed(table, "mget", -2, READ_FAST, "string", keys=ALL, answer=values_bytes)
def mget(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return [keys.get(db, key, now) for key in args]


@keyed(table, "strlen", 2, READ_FAST, "string")
def strlen(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return keys.length(db, args[0]) if keys.has(db, args[0], now) else 0


@keyed(table, "set", -3, GROW, "string", answer=replaced_bytes)
def set_(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    key, value = args[:2]
    words, amount = options(args[2:], OF_SET)
    deadline = lifetime(words, amount, now, "set")
    before = keys.get(db, key, now) if b"GET" in words else None
    is_there = keys.has(db, key, now)
    if (b"NX" in words and is_there) or (b"XX" in words and not is_there):
        return before
    if b"KEEPTTL" in words:
        keys.change(db, key, value, now)
    else:
        keys.set(db, key, value, now, deadline)
    return before if b"GET" in words else OK


@keyed(table, "getset", 3, GROW_FAST, "string", answer=value_bytes)
def getset(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    before = keys.get(db, args[0], now)
    keys.set(db, args[0], args[1], now)
    return before


@keyed(table, "getdel", 2, WRITE_FAST, "string", answer=value_bytes)
def getdel(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    before = keys.get(db, args[0], now)
    keys.delete(db, args[0], now)
    return before


@keyed(table, "getex", -2, WRITE_FAST, "string", answer=value_bytes)
def getex(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    key = args[0]
    words, amount = options(args[1:], OF_GETEX)
    value = keys.get(db, key, now)
    if value is not None and words:
        keys.expire(db, key, lifetime(words, amount, now, "getex"), now)
    return value


def _setting(name: str, unit: bytes) -> None:
    @keyed(table, name, 4, GROW, "string")
    def setex(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
        key, amount, value = args
        keys.set(db, key, value, now, deadline_of(unit, amount, now, name, least=1))
        return OK


_setting("setex", b"EX")
_setting("psetex", b"PX")


@keyed(table, "setnx", 3, GROW_FAST, "string")
def setnx(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    if keys.has(db, args[0], now):
        return 0
    keys.set(db, args[0], args[1], now)
    return 1


@keyed(table, "mset", -3, GROW, "string", keys=PAIRS)
def mset(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    keys.set_all(db, _pairs(args, "mset"), now)
    return OK


@keyed(table, "msetnx", -3, GROW, "string", keys=PAIRS)
def msetnx(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    values = _pairs(args, "msetnx")
    if any(keys.has(db, key, now) for key in values):
        return 0
    keys.set_all(db, values, now)
    return 1


@keyed(table, "append", 3, GROW_FAST, "string")
def append(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return keys.append(db, args[0], args[1], now)


def _pairs(args: list[bytes], name: str) -> dict[bytes, bytes]:
    if len(args) % 2:
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    return dict(zip(args[::2], args[1::2], strict=True))


# Values as numbers.


@keyed(table, "incrby", 3, GROW_FAST, "string")
def incrby(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    amount = integer(args[1])
    before = keys.get(db, args[0], now)
    number = (0 if before is None else integer(before)) + amount
    if number not in INT64:
        raise CommandError("ERR increment or decrement would overflow")
    keys.change(db, args[0], b"%d" % number, now)
    return number


@keyed(table, "decrby", 3, GROW_FAST, "string")
def decrby(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    amount = -integer(args[1])
    if amount not in INT64:
        raise CommandError("ERR decrement would overflow")
    return incrby(keys, db, now, [args[0], b"%d" % amount])


@keyed(table, "incr", 2, GROW_FAST, "string")
def incr(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return incrby(keys, db, now, [*args, b"1"])


@keyed(table, "decr", 2, GROW_FAST, "string")
def decr(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    return incrby(keys, db, now, [*args, b"-1"])


# Redis calculates with the compiler's long double, on x86 a number with 64 significant bits, and
# writes 17 places. Fractions give the same digits. Numbers beyond those of a double are refused,
# as Redis refuses those beyond a long double: they would be thousands of digits long.
FLOAT = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
INFINITE = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE)
FLOAT_BYTES = 512
FLOAT_MAX = 2**1024
BITS = 64
PLACES = 17


@keyed(table, "incrbyfloat", 3, GROW_FAST, "string")
def incrbyfloat(keys: Keyspace, db: int, now: float, args: list[bytes]) -> Reply:
    before = keys.get(db, args[0], now)
    value = _float(b"0" if before is None else before)
    amount = _float(args[1])
    total = None if value is None or amount is None else _rounded(value + amount)
    if total is None or abs(total) >= FLOAT_MAX:
        raise CommandError("ERR increment would produce NaN or Infinity")
    text = _text(total)
    keys.change(db, args[0], text, now)
    return text


def _float(text: bytes) -> Fraction | None:
    """The number, or nothing if it is infinite."""
    if INFINITE.fullmatch(text):
        return None
    if len(text) > FLOAT_BYTES or not FLOAT.fullmatch(text):
        raise CommandError(NOT_A_FLOAT)
    number = _rounded(Fraction(text.decode()))
    if abs(number) >= FLOAT_MAX:
        raise CommandError(NOT_A_FLOAT)
    return number


def _rounded(number: Fraction) -> Fraction:
    """The nearest number with so many significant bits."""
    size = number.numerator.bit_length() - number.denominator.bit_length()
    unit = Fraction(2) ** (size - BITS)  # at most one bit too fine
    if abs(number) >= unit * 2**BITS:
        unit *= 2
    return round(number / unit) * unit


def _text(number: Fraction) -> bytes:
    shifted = round(abs(number) * 10**PLACES)
    whole, part = divmod(shifted, 10**PLACES)
    sign = b"-" if number < 0 and shifted else b""
    return sign + (b"%d.%017d" % (whole, part)).rstrip(b"0").rstrip(b".")
