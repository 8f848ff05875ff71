"""Commands on keys, as a client sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from headgate.core.model.limits import Limits
from headgate.core.redis.keyspace import Keyspace
from headgate.wire.resp.codec.replies import CommandError, encode
from headgate.wire.resp.commands import generic, strings
from headgate.wire.resp.commands.table import CommandTable
from headgate.wire.resp.streams.keys import StreamKeys

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

NOW = 1_700_000_000.0

FULL = "-OOM command not allowed when used memory > 'maxmemory'."
SYNTAX = "-ERR syntax error"
NOT_AN_INTEGER = "-ERR value is not an integer or out of range"

table = CommandTable(strings.table, generic.table)


class Desk:
    """What a session, its hub and its shell are to the commands on keys."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.keys = Keyspace(self.limits)
        self.stream_keys = StreamKeys({})
        self.hub = self.broker = self
        self.shell = self
        self.db = 0
        self.now = NOW
        self.told: list[tuple[int, bytes]] = []

    def clock(self) -> float:
        return self.now

    def publish_expired(self) -> None:
        self.told += self.keys.take_expired()

    def answer(self, command: list[bytes], protocol: int = 2) -> bytes:
        try:
            entry = table.find(command)
            assert entry.run is not None
            return encode(entry.run(cast("RespSession", self), command[1:]), protocol)
        except CommandError as refused:
            return encode(refused, protocol)

    def ask(self, line: str) -> str:
        """Words in, lines out, without the sizes that RESP puts before texts."""
        lines = self.answer(line.encode().split(b" ")).decode().split("\r\n")[:-1]
        return " ".join(each for each in lines if each[:1] != "$" or each == "$-1")


def check(transcript: str, desk: Desk | None = None) -> Desk:
    """Ask what stands left of each arrow; what stands right has to be the answer. ``+3`` alone
    lets so many seconds pass."""
    desk = desk or Desk()
    for line in filter(None, map(str.strip, transcript.splitlines())):
        asked, arrow, wanted = line.partition(" -> ")
        if not arrow:
            desk.now += float(asked)
        else:
            assert f"{asked} -> {desk.ask(asked)}" == f"{asked} -> {wanted}"
    return desk


def test_set_and_get() -> None:
    """RESP-65."""
    check("""
        GET k -> $-1
        SET k 1 -> +OK
        GET k -> 1
        SET k 2 XX -> +OK
        SET k 3 NX -> $-1
        SET other 3 XX -> $-1
        SET k 4 GET -> 2
        SET k 5 NX GET -> 4
        SET other 5 XX GET -> $-1
        SET other 5 NX GET -> $-1
        MGET k other none -> *3 4 5 $-1
        GETSET k 6 -> 4
        GETDEL k -> 6
        GETDEL k -> $-1
        SETNX k 7 -> :1
        SETNX k 8 -> :0
        STRLEN k -> :1
        APPEND k 89 -> :3
        APPEND new x -> :1
        GET k -> 789
        TYPE k -> +string
        TYPE none -> +none
    """)


def test_set_gives_a_key_its_time() -> None:
    """RESP-65."""
    check("""
        SET k v EX 10 -> +OK
        TTL k -> :10
        SET k v PX 1499 -> +OK
        TTL k -> :1
        PTTL k -> :1499
        SET k v KEEPTTL -> +OK
        PTTL k -> :1499
        SET k v EXAT 1700000050 -> +OK
        EXPIRETIME k -> :1700000050
        SET k v pxat 1700000060500 nx -> $-1
        SET k v pxat 1700000060500 -> +OK
        PEXPIRETIME k -> :1700000060500
        SET k v -> +OK
        TTL k -> :-1
        SETEX k 5 v -> +OK
        PSETEX k 5500 v -> +OK
        PTTL k -> :5500
        +5.5
        TTL k -> :-2
        PTTL k -> :-2
        EXPIRETIME k -> :-2
        SETNX k w -> :1
        EXPIRETIME k -> :-1
    """)


@pytest.mark.parametrize(
    "options",
    ["EX", "EX 1 PX 1", "KEEPTTL EX 1", "NX XX", "PERSIST", "PXAT", "1 EX", "EX 1 EXAT 5 NX"],
)
def test_options_that_do_not_go_together_are_a_syntax_error(options: str) -> None:
    """RESP-65."""
    check(f"""
        SET k v {options} -> {SYNTAX}
        GET k -> $-1
    """)


@pytest.mark.parametrize("amount", ["0", "-1", "9223372036854775807", "9223372036854775"])
def test_a_time_to_live_is_positive_and_does_not_overflow(amount: str) -> None:
    """RESP-65."""
    check(f"""
        SET k v -> +OK
        SET k w EX {amount} -> -ERR invalid expire time in 'set' command
        SETEX k {amount} w -> -ERR invalid expire time in 'setex' command
        GETEX k EX {amount} -> -ERR invalid expire time in 'getex' command
        GETEX none EX {amount} -> $-1
        GET k -> v
        TTL k -> :-1
    """)


def test_getex_changes_the_time_of_what_it_reads() -> None:
    desk = check(f"""
        SET k v EX 10 -> +OK
        GETEX k -> v
        TTL k -> :10
        GETEX k PERSIST -> v
        TTL k -> :-1
        GETEX k PX 5000 -> v
        TTL k -> :5
        GETEX k EX ten -> {NOT_AN_INTEGER}
        GETEX k EX 1 PERSIST -> {SYNTAX}
        GETEX k KEEPTTL -> {SYNTAX}
        GETEX k PXAT 1 -> v
        EXISTS k -> :0
    """)
    assert desk.told == []


def test_expire_sets_a_deadline_and_answers_whether_it_did() -> None:
    """RESP-65."""
    check(f"""
        EXPIRE k 10 -> :0
        SET k v -> +OK
        EXPIRE k 10 -> :1
        TTL k -> :10
        PEXPIRE k 2500 -> :1
        PTTL k -> :2500
        EXPIREAT k 1700000020 -> :1
        TTL k -> :20
        PEXPIREAT k 1700000030500 -> :1
        PEXPIRETIME k -> :1700000030500
        PERSIST k -> :1
        PERSIST k -> :0
        PERSIST none -> :0
        EXPIRE k ten -> {NOT_AN_INTEGER}
        EXPIRE k 9223372036854775807 -> -ERR invalid expire time in 'expire' command
        PEXPIRE k 9223372036854775807 -> -ERR invalid expire time in 'pexpire' command
        EXPIRE k -9223372036854775808 -> -ERR invalid expire time in 'expire' command
        PEXPIREAT k 9223372036854775807 -> :1
        EXPIRE k 0 -> :1
        EXISTS k -> :0
    """)


def test_expire_under_conditions() -> None:
    """RESP-65: a key without a deadline counts as one that lives longest."""
    check("""
        SET k v -> +OK
        EXPIRE k 10 XX -> :0
        EXPIRE k 10 GT -> :0
        EXPIRE k 10 NX -> :1
        EXPIRE k 20 NX -> :0
        EXPIRE k 10 GT -> :0
        EXPIRE k 10 LT -> :0
        EXPIRE k 20 LT -> :0
        EXPIRE k 20 GT -> :1
        EXPIRE k 15 xx lt -> :1
        TTL k -> :15
        EXPIRE k -1 GT -> :0
        PERSIST k -> :1
        EXPIRE k 10 LT -> :1
        EXPIRE k 10 NX XX -> -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 10 GT LT -> -ERR GT and LT options at the same time are not compatible
        EXPIRE k ten soon -> -ERR Unsupported option soon
    """)


def test_a_dead_key_is_absent_and_told_once() -> None:
    """RESP-67: with its database."""
    desk = Desk()
    desk.db = 9
    check(
        """
        SET k v EX 1 -> +OK
        +1
        GET k -> $-1
        GET k -> $-1
        EXISTS k -> :0
        """,
        desk,
    )
    assert desk.told == [(9, b"k")]


@pytest.mark.parametrize(
    "command",
    [
        "SET k w",
        "DEL k",
        "EXISTS k",
        "TTL k",
        "PERSIST k",
        "KEYS *",
        "SCAN 0",
        "RANDOMKEY",
        "INCR k",
    ],
)
def test_any_command_that_meets_a_dead_key_tells_it(command: str) -> None:
    """RESP-67."""
    desk = check("""
        SET k v PX 10 -> +OK
        +0.01
    """)
    desk.ask(command)
    assert desk.told == [(0, b"k")]


def test_a_refused_command_tells_of_the_dead_too() -> None:
    desk = check("""
        SET k v PX 10 -> +OK
        +0.01
        RENAME k l -> -ERR no such key
    """)
    assert desk.told == [(0, b"k")]


@pytest.mark.parametrize("command", ["DEL k", "SET k w", "PERSIST k", "FLUSHALL", "EXPIRE k -1"])
def test_what_ends_a_deadline_otherwise_tells_nothing(command: str) -> None:
    """RESP-69."""
    desk = check("SET k v EX 1 -> +OK")
    desk.ask(command)
    desk.now += 2
    check("KEYS none -> *0", desk)
    desk.keys.sweep(desk.now)
    desk.publish_expired()
    assert desk.told == []


def test_a_key_set_with_a_deadline_in_the_past_expires() -> None:
    """RESP-65: unlike EXPIRE, which deletes then."""
    desk = check("""
        SET k v PXAT 1 -> +OK
        GET k -> $-1
    """)
    assert desk.told == [(0, b"k")]


def test_several_keys_in_one_command() -> None:
    check("""
        MSET a 1 b 2 a 3 -> +OK
        MGET a b -> *2 3 2
        MSETNX b 4 c 5 -> :0
        MSETNX c 5 d 6 -> :1
        MSET a 1 b -> -ERR wrong number of arguments for 'mset' command
        MSETNX a 1 b -> -ERR wrong number of arguments for 'msetnx' command
        EXISTS a b a none -> :3
        TOUCH a none -> :1
        DEL a a b none -> :2
        UNLINK c none -> :1
        DBSIZE -> :1
    """)


def test_mset_takes_twenty_thousand_arguments() -> None:
    desk = Desk()
    words = [b"%d" % number for number in range(20_000)]
    assert desk.answer([b"MSET", *words]) == b"+OK\r\n"
    check("DBSIZE -> :10000", desk)


def test_counting() -> None:
    check(f"""
        INCR n -> :1
        INCRBY n 41 -> :42
        DECR n -> :41
        DECRBY n 50 -> :-9
        SET n 9223372036854775807 -> +OK
        INCR n -> -ERR increment or decrement would overflow
        DECRBY n -9223372036854775808 -> -ERR decrement would overflow
        INCRBY n 1.5 -> {NOT_AN_INTEGER}
        SET n 01 EX 10 -> +OK
        INCR n -> {NOT_AN_INTEGER}
        SET n 1 KEEPTTL -> +OK
        INCR n -> :2
        TTL n -> :10
    """)


def test_counting_in_fractions() -> None:
    """With the digits of Redis, noise in the last place included."""
    check("""
        INCRBYFLOAT n 10.5 -> 10.5
        INCRBYFLOAT n 0.1 -> 10.6
        INCRBYFLOAT n 5.0e3 -> 5010.60000000000000009
        SET n 3.0e3 -> +OK
        INCRBYFLOAT n -200 -> 2800
        INCRBYFLOAT n -2800.25 -> -0.25
        INCRBYFLOAT n .25 -> 0
        INCRBYFLOAT n -1e-20 -> 0
        INCRBYFLOAT n 1e30 -> 1000000000000000000024696061952
        SET n 1 EX 10 -> +OK
        INCRBYFLOAT n 1 -> 2
        TTL n -> :10
    """)


def test_a_value_does_not_grow_beyond_what_can_be_set() -> None:
    """Each APPEND of a byte to a value of hundreds of megabytes would copy it."""
    check(
        """
        SET k 123456 -> +OK
        APPEND k 78 -> :8
        APPEND k 9 -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        APPEND k 90 -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        GET k -> 12345678
        """,
        Desk(Limits(bulk_bytes=8)),
    )


def test_fractions_that_are_none_or_too_large_are_refused() -> None:
    desk = check("""
        SET n 1.7e308 -> +OK
        INCRBYFLOAT n 1e308 -> -ERR increment would produce NaN or Infinity
        INCRBYFLOAT n -inf -> -ERR increment would produce NaN or Infinity
        INCRBYFLOAT n nan -> -ERR value is not a valid float
        INCRBYFLOAT n 1e309 -> -ERR value is not a valid float
        INCRBYFLOAT n 1e99999 -> -ERR value is not a valid float
        INCRBYFLOAT n one -> -ERR value is not a valid float
        SET n inf -> +OK
        INCRBYFLOAT n 1 -> -ERR increment would produce NaN or Infinity
    """)
    assert desk.answer([b"SET", b"n", b""]) == b"+OK\r\n"
    check("INCRBYFLOAT n 1 -> -ERR value is not a valid float", desk)


def test_renaming() -> None:
    check("""
        RENAME a b -> -ERR no such key
        RENAMENX a b -> -ERR no such key
        SET a 1 EX 10 -> +OK
        RENAME a b -> +OK
        TTL b -> :10
        RENAME b b -> +OK
        SET c 3 -> +OK
        RENAMENX b c -> :0
        RENAMENX b d -> :1
        MGET a b c d -> *4 $-1 $-1 3 1
    """)


def test_keys_and_databases() -> None:
    desk = check("""
        MSET one 1 two 2 -> +OK
        KEYS t* -> *1 two
        KEYS * -> *2 one two
        RANDOMKEY -> one
    """)
    desk.db = 1
    check(
        f"""
        DBSIZE -> :0
        RANDOMKEY -> $-1
        SET k v -> +OK
        FLUSHDB NOW -> {SYNTAX}
        FLUSHDB ASYNC SYNC -> {SYNTAX}
        FLUSHDB async -> +OK
        DBSIZE -> :0
        """,
        desk,
    )
    desk.db = 0
    check(
        """
        DBSIZE -> :2
        FLUSHALL SYNC -> +OK
        DBSIZE -> :0
        """,
        desk,
    )


def test_a_star_means_all_keys_even_the_one_without_a_name() -> None:
    desk = Desk()
    desk.answer([b"SET", b"", b"v"])
    assert desk.answer([b"KEYS", b"*"]) == b"*1\r\n$0\r\n\r\n"
    assert desk.answer([b"KEYS", b"**"]) == b"*0\r\n"


def test_scanning_all_keys_in_steps() -> None:
    desk = Desk()
    desk.answer([b"MSET", *(b"%02d" % (number // 2) for number in range(50))])
    seen, cursor, steps = list[str](), "0", 0
    while steps == 0 or cursor != "0":
        _, cursor, _, *names = desk.ask(f"SCAN {cursor}").split()
        seen += names
        steps += 1
    assert steps == 3
    assert sorted(seen) == [f"{number:02}" for number in range(25)]


def test_scanning_with_options() -> None:
    check(f"""
        MSET a 1 b 2 -> +OK
        SCAN 0 MATCH a COUNT 100 -> *2 0 *1 a
        SCAN 0 COUNT 1 -> *2 1 *1 b
        SCAN 1 COUNT 1 TYPE string -> *2 0 *1 a
        SCAN 0 TYPE list -> *2 0 *0
        SCAN 5000 -> *2 0 *2 a b
        SCAN x -> -ERR invalid cursor
        SCAN 18446744073709551616 -> -ERR invalid cursor
        SCAN 0 COUNT -> {SYNTAX}
        SCAN 0 COUNT 0 -> {SYNTAX}
        SCAN 0 COUNT x -> {NOT_AN_INTEGER}
        SCAN 0 LIMIT 1 -> {SYNTAX}
    """)


def test_there_are_no_sets() -> None:
    least = -(2**63)
    range_error = f"value is out of range, value must between {least + 1} and {-least - 1}"
    check(f"""
        SRANDMEMBER none -> $-1
        SRANDMEMBER none 3 -> *0
        SRANDMEMBER none x -> {NOT_AN_INTEGER}
        SRANDMEMBER none 1 2 -> {SYNTAX}
        SRANDMEMBER none {least} -> -ERR {range_error}
        SET k v -> +OK
        SRANDMEMBER k -> -WRONGTYPE Operation against a key holding the wrong kind of value
    """)
    assert Desk().answer([b"SRANDMEMBER", b"none"], 3) == b"_\r\n"


def test_beyond_the_limits_what_would_grow_is_refused_as_redis_does() -> None:
    check(
        f"""
        MSET a 1 b 2 -> +OK
        SET c 3 -> {FULL}
        MSET b 3 c 4 -> {FULL}
        INCR c -> {FULL}
        APPEND a 0 -> :2
        APPEND a 012345 -> {FULL}
        GET a -> 10
        MGET b c -> *2 2 $-1
        DEL a -> :1
        SETEX c 10 3 -> +OK
        """,
        Desk(Limits(keys=2, keys_bytes=8)),
    )


def test_names_and_values_are_bytes() -> None:
    desk = Desk()
    odd = bytes(range(256)) + b"\r\n"
    assert desk.answer([b"set", odd, odd]) == b"+OK\r\n"
    assert desk.answer([b"gEt", odd]) == b"$258\r\n" + odd + b"\r\n"
