"""Commands on keys against redis-server: the same bytes for the same random commands."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random

import hiredis
import pytest

from tests.support.resp_servers import start_redis
from tests.wire.resp.commands.test_strings import Desk, table

SEEDS = range(4)
COMMANDS = 20_000
PIPELINE = 100
SKEW_SECONDS = 120
"""The two do not carry a command out at the same moment."""

CHANNEL = b"__keyevent@0__:expired"
END = b"the end"

KEYS = [b"a", b"b", b"kc", b"kd", b""]
VALUES = [b"", b"1", b"-5", b"10.5", b"text", b" 7", b"007", b"\xff\0\r\n", b"9223372036854775807"]
# A suffix does not make a number of another kind, such as 0x1 or 1e3: we refuse some of those.
SUFFIXES = [b"", b"0", b".5", b"y", b"\xff"]
INTEGERS = [b"1", b"-1", b"17", b"0", b"-0", b"+1", b"1.5", b"", b"x"]
INTEGERS += [b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808"]
FLOATS = [b"0.1", b"-0.3", b"+2", b"1e3", b"3.", b".5", b"1e-20", b"inf", b"-Infinity", b"nan"]
FLOATS += [b"", b"x", b"1 ", b"12345678901234567890.123456789", b"-1.5E+10"]
TIMES = [b"0", b"-1", b"", b"x", b"1.5", b"9223372036854775000", b"9223372036854775"]
PATTERNS = [b"*", b"k?", b"[ab]", b"none", b"", b"k*", b"**"]

LEFT = (b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME")
UNORDERED = (b"KEYS", b"SCAN")


class Commands:
    """Random commands on few keys."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._began = int(time.time())
        self._kinds: list[Callable[[], list[list[bytes]]]] = [
            *[self._write] * 4,
            *[self._read] * 4,
            *[self._count] * 2,
            *[self._expire] * 3,
            *[self._options] * 3,
            self._rest,
        ]

    def draw(self) -> list[list[bytes]]:
        commands = self._random.choice(self._kinds)()
        last = commands[-1]
        if self._random.random() < 0.03:
            last.append(b"zz")
        elif self._random.random() < 0.03 and len(last) > 1:
            last.pop()
        if self._random.random() < 0.3:
            last[0] = last[0].lower()
        return commands

    def _one(self, *words: list[bytes]) -> bytes:
        return self._random.choice(self._random.choice(words))

    def _several(self, words: list[bytes], most: int = 4) -> list[bytes]:
        return [self._one(words) for _ in range(self._random.randint(1, most))]

    def _amount(self, scale: int, is_relative: bool) -> bytes:
        """A time that is far away, and from any other one; or an odd one."""
        if self._random.random() < 0.25:
            return self._one(TIMES)
        seconds = 1000 + 1000 * self._random.randrange(1_000_000)
        return b"%d" % ((seconds if is_relative else self._began + seconds) * scale)

    def _lifetime(self) -> list[bytes]:
        match self._random.randrange(6):
            case 0:
                return [b"EX", self._amount(1, True)]
            case 1:
                return [b"px", self._amount(1000, True)]
            case 2:
                return [b"EXAT", self._amount(1, False)]
            case 3:
                return [b"PXAT", self._amount(1000, False)]
            case 4:
                return [b"PXAT", b"1"]
            case _:
                return [b"KEEPTTL"]

    def _write(self) -> list[list[bytes]]:
        pairs = [word for key in self._several(KEYS) for word in (key, self._one(VALUES))]
        key, value = self._one(KEYS), self._one(VALUES)
        names = [b"SET", b"GETSET", b"SETNX"]
        match self._random.randrange(6):
            case 0:
                return [[self._one([b"MSET", b"MSETNX"]), *pairs]]
            case 1:
                return [[b"APPEND", key, self._one(SUFFIXES)]]
            case 2:
                return [[b"SETEX", key, self._amount(1, True), value]]
            case 3:
                return [[b"PSETEX", key, self._amount(1000, True), value]]
            case 4:
                return [[b"SET", key, value, b"PXAT", b"1"]]  # dead at once
            case _:
                return [[self._one(names), key, value]]

    def _options(self) -> list[list[bytes]]:
        words: list[bytes] = []
        for _ in range(self._random.randint(0, 3)):
            words += self._random.choice([[b"NX"], [b"xx"], [b"GET"], self._lifetime()])
        if self._random.random() < 0.7:
            return [[b"SET", self._one(KEYS), self._one(VALUES), *words]]
        words = self._random.choice([[], [b"PERSIST"], self._lifetime(), words])
        return [[b"GETEX", self._one(KEYS), *words]]

    def _read(self) -> list[list[bytes]]:
        if self._random.random() < 0.4:
            names = [b"MGET", b"EXISTS", b"TOUCH", b"DEL", b"UNLINK"]
            return [[self._one(names), *self._several(KEYS)]]
        names = [b"GET", b"GET", b"STRLEN", b"GETDEL", b"TYPE", b"SRANDMEMBER"]
        return [[self._one(names, list(LEFT)), self._one(KEYS)]]

    def _count(self) -> list[list[bytes]]:
        key = self._one(KEYS)
        match self._random.randrange(4):
            case 0:
                return [[self._one([b"INCR", b"DECR"]), key]]
            case 1:
                return [[self._one([b"INCRBY", b"DECRBY"]), key, self._one(INTEGERS)]]
            case 2:
                return [[b"INCRBYFLOAT", key, self._one(FLOATS)]]
            case _:
                number = self._random.uniform(-1000, 1000) * 10 ** self._random.randint(-6, 12)
                return [
                    [b"SET", key, b"%.9f" % self._random.uniform(-1000, 1000)],
                    [b"INCRBYFLOAT", key, repr(number).encode()],
                ]

    def _expire(self) -> list[list[bytes]]:
        name, scale, is_relative = self._random.choice(
            [
                (b"EXPIRE", 1, True),
                (b"PEXPIRE", 1000, True),
                (b"EXPIREAT", 1, False),
                (b"PEXPIREAT", 1000, False),
            ]
        )
        if self._random.random() < 0.1:
            return [[b"PERSIST", self._one(KEYS)]]
        words = self._random.choices([b"NX", b"xx", b"GT", b"LT"], k=self._random.choice([0, 1, 2]))
        return [[name, self._one(KEYS), self._amount(scale, is_relative), *words]]

    def _rest(self) -> list[list[bytes]]:
        # Redis counts and flushes what is dead but not yet found so; an EXISTS finds it.
        look = [b"EXISTS", *KEYS]
        match self._random.randrange(6):
            case 0:
                return [[self._one([b"RENAME", b"RENAMENX"]), self._one(KEYS), self._one(KEYS)]]
            case 1:
                return [[b"KEYS", self._one(PATTERNS)]]
            case 2:
                options = [[], [b"MATCH", self._one(PATTERNS)], [b"TYPE", b"list"], [b"COUNT"]]
                return [[b"SCAN", b"0", b"COUNT", b"100", *self._random.choice(options)]]
            case 3:
                return [look, [b"DBSIZE"]]
            case 4:
                return [look, [b"RANDOMKEY"]]
            case _:
                options = [[], [b"ASYNC"], [b"sync"], [b"now"]]
                return [
                    look,
                    [self._one([b"FLUSHDB", b"FLUSHALL"]), *self._random.choice(options)],
                ]


class Client:
    """A connection that gives replies as they came."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")

    def send(self, commands: list[list[bytes]]) -> None:
        self._socket.sendall(b"".join(map(encoded, commands)))

    def reply(self) -> bytes:
        line = self._file.readline()
        assert line.endswith(b"\r\n"), f"redis-server hung up: {line!r}"
        if line[:1] == b"*":
            return line + b"".join([self.reply() for _ in range(int(line[1:]))])
        if line[:1] == b"$" and line[1:2] != b"-":
            return line + self._file.read(int(line[1:]) + 2)
        return line

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def encoded(words: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def decoded(reply: bytes) -> object:
    reader = hiredis.Reader()
    reader.feed(reply)
    value: object = reader.gets()
    return value


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("redis")
    with start_redis(folder, notify_keyspace_events="Ex") as server:
        yield server.address[1]


def agree(command: list[bytes], ours: bytes, theirs: bytes, desk: Desk) -> bool:
    """Whether both answered the same, as far as the command has only one answer."""
    name = command[0].upper()
    if ours == theirs:
        return True
    if ours[:1] != theirs[:1] or ours[:1] == b"-":
        return False
    if name in LEFT:
        mine, other = int(ours[1:]), int(theirs[1:])
        skew = SKEW_SECONDS * (1000 if name.startswith(b"P") else 1)
        return mine > 0 and other > 0 and abs(mine - other) <= skew
    if name in UNORDERED:
        return members(ours) == members(theirs)
    if name == b"RANDOMKEY":
        chosen = decoded(theirs)
        return isinstance(chosen, bytes) and desk.keys.has(desk.db, chosen, desk.now)
    return False


def members(reply: bytes) -> list[object]:
    """What a reply holds, in an order of its own; of SCAN the cursor first."""
    items = decoded(reply)
    assert isinstance(items, list)
    if items and isinstance(items[-1], list):
        return [items[0], sorted(items[1])]
    return sorted(items)


@pytest.mark.parametrize("seed", SEEDS)
def test_replies_and_expired_events_are_those_of_redis(redis_port: int, seed: int) -> None:
    """RESP-65, RESP-67, RESP-69."""
    commands, desk, asked = Commands(seed), Desk(), Counter[bytes]()
    with closing(Client(redis_port)) as client, closing(Client(redis_port)) as listener:
        client.send([[b"FLUSHALL"]])
        client.reply()
        listener.send([[b"SUBSCRIBE", CHANNEL]])
        listener.reply()
        while asked.total() < COMMANDS:
            batch = [command for _ in range(PIPELINE) for command in commands.draw()]
            client.send(batch)
            for command in batch:
                asked[command[0].upper()] += 1
                desk.now = time.time()
                ours, theirs = desk.answer(command), client.reply()
                assert agree(command, ours, theirs, desk), (
                    f"seed {seed}, command {asked.total()}: {command} is answered {ours!r},"
                    f" by Redis {theirs!r}"
                )
        assert set(asked) == {entry.name.upper().encode() for entry in table}, "each is compared"
        client.send([[b"EXISTS", *KEYS], [b"PUBLISH", CHANNEL, END]])
        desk.answer([b"EXISTS", *KEYS])
        end = encoded([b"message", CHANNEL, END])
        events = Counter(iter(listener.reply, end))
    assert events.total() > COMMANDS / 100
    assert events == Counter(encoded([b"message", CHANNEL, key]) for _, key in desk.told)


def test_commands_are_described_as_redis_describes_them(redis_port: int) -> None:
    with closing(Client(redis_port)) as client:
        for entry in table:
            client.send([[b"COMMAND", b"INFO", entry.name.encode()]])
            description = decoded(client.reply())
            assert isinstance(description, list)
            name, arity, flags, *keys, categories = description[0][:7]
            assert (entry.name.encode(), entry.arity) == (name, arity)
            assert [*entry.flags] == [each.decode() for each in flags]
            assert [*entry.keys] == keys
            assert [f"@{each}" for each in entry.categories] == [
                each.decode() for each in categories
            ]
