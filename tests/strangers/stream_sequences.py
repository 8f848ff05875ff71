"""Commands on streams, drawn, given to redis-server and to the router, and compared byte by byte.

    python -m tests.strangers.stream_sequences --count 200000 --seed 1

Two connections, one of them of RESP3, say the same to both servers, one command after the other, or
one waits while the other adds; many sequences are played side by side. Only this is not compared as
it stands:

* ids, which each server makes: the first that was made is ``#0`` in what both are told and say;
* how long an entry was held.

Every other sequence is played on streams of a domain that has open groups and keeps a history:
there groups come and go, and ranges, lengths and reads without a group are drawn as well.

What is not drawn, since it is a difference that docs/redis-streams.md tells: what an XACK of an
entry says that was not delivered, the length of a stream after an entry was acknowledged by all,
XGROUP DELCONSUMER of a consumer that holds something, whether a consumer is known that read nothing
(7.0 does not know it, 7.2 does), FORCE, a body that is not the last field, ids
of the client's own, XDEL of an entry that somebody was given, XTRIM of what was not acknowledged,
XGROUP SETID back, which hands out pending entries in Redis, and XINFO.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from tests.strangers.resp_draw import multibulk
from tests.strangers.resp_frames import first, shown
from tests.strangers.resp_sequences import Line
from tests.strangers.seeds import seed_options, tell
from tests.support.resp_servers import start_redis
from tests.support.stream_router import StreamRouter

Word: TypeAlias = bytes | int | tuple[bytes, int]
"""A number is that of an id; with bytes these go before it."""
Command: TypeAlias = tuple[Any, ...]
"""Words."""
Move: TypeAlias = tuple[int, Command]
"""A connection, and what it says."""

STEPS = range(5, 40)
GROUPS = (b"g", b"h")
MORE_GROUPS = (b"i", b"j")
"""Those that come and go."""
CONSUMERS = (b"c", b"d", b"", b"e\r\n")
VALUES = (
    b"",
    b"v",
    b"10",
    b"007",
    b"-3",
    b"2.5",
    b"true",
    b"\0\r\n\xff",
    b"long " * 30,
    "ü".encode(),
)
NAMES = (b"a", b"b", b"kind", b"amount", b"with space", "größe".encode())
WRONG = (
    (b"XADD", b"KEY", b"*", b"a"),
    (b"XADD", b"KEY", b"MAXLEN", b"-1", b"*", b"a", b"1"),
    (b"XADD", b"KEY", b"MAXLEN", b"x", b"*", b"a", b"1"),
    (b"XADD", b"KEY", b"MAXLEN", b"=", b"5", b"LIMIT", b"1", b"*", b"a", b"1"),
    (b"XADD", b"KEY", b"LIMIT", b"1", b"*", b"a", b"1"),
    (b"XADD", b"KEY", b"MINID", b"x", b"*", b"a", b"1"),
    (b"XADD", b"KEY", b"MINID", b"1", b"MAXLEN", b"1", b"*", b"a", b"1"),
    (b"XADD", b"KEY", b"nonsense", b"a", b"1"),
    (b"XADD", b"KEY"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"KEY", b"$"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"KEY", b"x"),
    (b"XREADGROUP", b"GROUP", b"nobody", b"c", b"STREAMS", b"KEY", b">"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"-1", b"STREAMS", b"KEY", b">"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"x", b"STREAMS", b"KEY", b">"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"x", b"STREAMS", b"KEY", b">"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"KEY", b"KEY2", b">"),
    (b"XREADGROUP", b"COUNT", b"1", b"NOACK", b"STREAMS", b"KEY", b">"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"WHAT", b"STREAMS", b"KEY", b">"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"NOACK", b"COUNT", b"1", b"STREAMS"),
    (b"XREAD", b"STREAMS", b"KEY", b">"),
    (b"XREAD", b"GROUP", b"g", b"c", b"STREAMS", b"KEY", b">"),
    (b"XREAD", b"NOACK", b"STREAMS", b"KEY", b">"),
    (b"XACK", b"KEY", b"g", b"x"),
    (b"XACK", b"KEY", b"nobody", b"1-1"),
    (b"XPENDING", b"KEY", b"nobody"),
    (b"XPENDING", b"KEY", b"g", b"-", b"+"),
    (b"XPENDING", b"KEY", b"g", b"x", b"+", b"1"),
    (b"XPENDING", b"KEY", b"g", b"-", b"+", b"x"),
    (b"XPENDING", b"KEY", b"g", b"IDLE", b"x", b"-", b"+", b"1"),
    (b"XPENDING", b"KEY", b"g", b"IDLE", b"1", b"-", b"+"),
    (b"XPENDING", b"KEY", b"g", b"-", b"+", b"1", b"c", b"d"),
    (b"XPENDING", b"KEY", b"g", b"(%d-%d" % (2**64 - 1, 2**64 - 1), b"+", b"1"),
    (b"XCLAIM", b"KEY", b"g", b"c", b"x", b"1-1"),
    (b"XCLAIM", b"KEY", b"g", b"c", b"0", b"x"),
    (b"XCLAIM", b"KEY", b"g", b"c", b"0", b"1-1", b"WHAT"),
    (b"XCLAIM", b"KEY", b"g", b"c", b"0", b"1-1", b"IDLE", b"x"),
    (b"XCLAIM", b"KEY", b"g", b"c", b"0", b"1-1", b"RETRYCOUNT", b"x"),
    (b"XCLAIM", b"KEY", b"nobody", b"c", b"0", b"1-1"),
    (b"XAUTOCLAIM", b"KEY", b"g", b"c", b"x", b"0"),
    (b"XAUTOCLAIM", b"KEY", b"g", b"c", b"0", b"x"),
    (b"XAUTOCLAIM", b"KEY", b"g", b"c", b"0", b"0", b"COUNT", b"0"),
    (b"XAUTOCLAIM", b"KEY", b"g", b"c", b"0", b"0", b"WHAT"),
    (b"XAUTOCLAIM", b"KEY", b"nobody", b"c", b"0", b"0"),
    (b"XGROUP", b"CREATE", b"KEY", b"g", b"$"),
    (b"XGROUP", b"CREATE", b"KEY", b"g", b"0", b"MKSTREAM"),
    (b"XGROUP", b"CREATECONSUMER", b"KEY", b"nobody", b"c"),
    (b"XTRIM", b"KEY", b"WHAT", b"1"),
    (b"XTRIM", b"KEY", b"MAXLEN", b"x"),
    (b"CLIENT", b"UNBLOCK", b"1", b"WHAT"),
    (b"CLIENT", b"UNBLOCK", b"x"),
    (b"CLIENT", b"UNBLOCK", b"999999"),
)
HELD = re.compile(rb"(\*4\r\n\$\d+\r\n#\d+\r\n\$\d+\r\n[^*]*?\r\n):\d+\r\n:")
"""Of an entry of XPENDING: how long it was held."""
ID = re.compile(rb"\$\d+\r\n(\d{9,}-\d+)\r\n")
NUMBERED = re.compile(rb"\$\d+\r\n#(\d+)\r\n")
TOGETHER = 100
"""Sequences that are played side by side."""
IN_ONE_ARENA = 4_000
"""Sequences for which servers are kept: each has two streams, and a domain has 10,000."""


class Drawing:
    """Draws the commands of one sequence; it follows what was added and delivered."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.keeps = seed % 2 == 1
        name = b"k%d" % seed if self.keeps else b"s%d" % seed
        self.keys = (name + b".1", name + b".2")
        self._groups = GROUPS + MORE_GROUPS if self.keeps else GROUPS
        self.added: dict[bytes, list[int]] = {key: [] for key in self.keys}
        """The numbers of the ids of each stream."""
        self.seen: dict[tuple[bytes, bytes], set[int]] = {}
        """Those that a group was given."""
        self._is_acknowledged = False

    def steps(self) -> int:
        return self._random.choice(STEPS)

    def command(self) -> Command:
        draw = self._random.choices(
            (
                self._add, self._read, self._held, self._acknowledge, self._summary, self._listing,
                self._claim, self._sweep, self._wrong, self._length, self._consumer, self._several,
            ),
            weights=(8, 8, 3, 4, 2, 3, 3, 3, 4, 1, 1, 2),
        )[0]  # fmt: skip
        return draw()

    def moves(self) -> list[Move]:
        """What is said next: a command, a transaction, or a read that waits and what it gets."""
        chance, number = self._random.random(), self._random.randrange(2)
        if self.keeps and self._random.random() < 0.3:
            return [(number, self._kept())]
        if self.keeps and chance < 0.03:
            key = self._random.choice(self.keys)
            # From an id: with $ it would matter who comes first.
            after: Word = self.added[key][-1] if self.added[key] else b"0"
            wait = (b"XREAD", b"BLOCK", b"0", b"STREAMS", key, after)
            return [(number, wait), (1 - number, self._add(key, makes=True))]
        if chance < 0.08:
            key = self._random.choice(self.keys)
            return [(number, self._block(key)), (1 - number, self._add(key, makes=True))]
        if chance < 0.16:
            inside = [self.command() for _ in range(3)]
            return [(number, each) for each in ((b"MULTI",), *inside, (b"EXEC",))]
        return [(number, self.command())]

    def is_waiting(self, moves: list[Move]) -> bool:
        return len(moves) == 2

    def follow(self, moves: list[Move], answers: list[bytes]) -> None:
        """Note what was added and delivered."""
        answered = list(zip([command for _, command in moves], answers, strict=True))
        if moves[0][1] == (b"MULTI",):
            _, executed = answered.pop()
            queued = [command for command, answer in answered[1:] if answer == b"+QUEUED\r\n"]
            answered = list(zip(queued, _elements(executed), strict=False))
        for command, answer in sorted(answered, key=lambda pair: pair[0][0].upper() != b"XADD"):
            name = command[0].upper()
            if name == b"XADD" and isinstance(command[1], bytes):
                self.added[command[1]] += _ids_in(answer)
            elif name == b"XDEL" and isinstance(command[1], bytes):
                self.added[command[1]] = [n for n in self.added[command[1]] if n not in command[2:]]
            elif name == b"XGROUP" and command[1] == b"DESTROY":
                self.seen.pop((command[2], command[3]), None)
            elif name == b"XREADGROUP" and isinstance(command[2], bytes):
                for number in _ids_in(answer):
                    for key, numbers in self.added.items():
                        if number in numbers:
                            self.seen.setdefault((key, command[2]), set()).add(number)

    def _kept(self) -> Command:
        """What needs a history, or groups that come and go."""
        random, key = self._random, self._random.choice(self.keys)
        given = {n for numbers in self.seen.values() for n in numbers}
        new = [n for n in self.added[key] if n not in given]
        bounds = [random.choice([b"-", self._bound(key)]), random.choice([b"+", self._bound(key)])]
        count = random.choice([(), (b"COUNT", b"%d" % random.choice([-1, 0, 1, 2, 10]))])
        some = random.choice([(), (b"COUNT", b"2")])
        group = random.choice(MORE_GROUPS)
        last = random.choice([b"$", b"0", self._id(key)])
        return random.choice(
            [
                (b"XRANGE", key, *bounds, *count),
                (b"XREVRANGE", key, *bounds[::-1], *count),
                (b"XREAD", *some, b"STREAMS", key, self._id(key)),
                (b"XREAD", *some, b"STREAMS", *self.keys, b"0", random.choice([b"0", b"$"])),
                (b"XLEN", key),
                (b"XDEL", key, random.choice(new) if new else b"1-1"),
                (b"XTRIM", key, b"MAXLEN", b"10000"),
                (b"XGROUP", b"CREATE", key, group, last, b"MKSTREAM"),
                (b"XGROUP", b"CREATE", key, group, last),
                (b"XGROUP", b"DESTROY", key, group),
                (b"XGROUP", b"SETID", key, random.choice(self._groups), b"$"),
            ]
        )

    def _bound(self, key: bytes) -> Word:
        word = self._id(key)
        return (b"(", word) if isinstance(word, int) and self._random.random() < 0.3 else word

    def _add(self, key: bytes | None = None, *, makes: bool = False) -> Command:
        random = self._random
        key = key or random.choice(self.keys)
        names = random.sample(NAMES, random.randint(1, 4))
        fields = [word for name in names for word in (name, random.choice(VALUES))]
        if len(names) > 1 and random.random() < 0.5:
            fields += [b"data", random.choice([b"body", b"\xff" * 1100])]
        options: Command = random.choice(
            [(), (), (b"MAXLEN", b"~", b"1000"), (b"NOMKSTREAM",), (b"MINID", b"0")]
        )
        if makes and options == (b"NOMKSTREAM",):
            options = ()
        return (random.choice([b"XADD", b"xadd"]), key, *options, b"*", *fields)

    def _block(self, key: bytes) -> Command:
        """A read that waits, unless there is something."""
        group = self._random.choice(self._groups)
        return (
            b"XREADGROUP",
            b"GROUP",
            group,
            b"waits",
            b"COUNT",
            b"1",
            b"BLOCK",
            b"0",
            b"STREAMS",
            key,
            b">",
        )

    def _read(self) -> Command:
        random = self._random
        options: list[Word] = []
        if random.random() < 0.6:
            options += [b"COUNT", b"%d" % random.choice([0, 1, 1, 2, 3, -1])]
        if random.random() < 0.1:
            options += [b"NOACK"]
            self._is_acknowledged = True
        if random.random() < 0.2:
            options += [b"BLOCK", b"1"]
        return (*self._reader(), *options, b"STREAMS", random.choice(self.keys), b">")

    def _several(self) -> Command:
        ids = [self._random.choice([b">", b">", b"0"]) for _ in self.keys]
        return (*self._reader(), b"STREAMS", *self.keys, *ids)

    def _held(self) -> Command:
        key = self._random.choice(self.keys)
        return (*self._reader(), b"COUNT", b"3", b"STREAMS", key, self._id(key))

    def _reader(self) -> Command:
        return (b"XREADGROUP", b"GROUP", self._random.choice(self._groups), self._consumer_name())

    def _consumer_name(self) -> bytes:
        return self._random.choice(CONSUMERS)

    def _id(self, key: bytes) -> Word:
        words: list[Word] = [b"0", b"0-0", b"5-5", *self.added[key][-5:]]
        return self._random.choice(words)

    def _given(self, key: bytes, group: bytes) -> list[Word]:
        """Ids that the group was given, or nobody has."""
        seen = sorted(self.seen.get((key, group), ()))
        words: list[Word] = [b"1-1", b"7", *seen]
        some = [self._random.choice(words) for _ in range(self._random.randint(1, 3))]
        return [word for word in some if word != b"7" or len(some) > 1] or [b"1-1"]

    def _acknowledge(self) -> Command:
        key, group = self._random.choice(self.keys), self._random.choice(self._groups)
        self._is_acknowledged = True
        return (b"XACK", key, group, *self._given(key, group))

    def _summary(self) -> Command:
        return (b"XPENDING", self._random.choice(self.keys), self._random.choice(self._groups))

    def _listing(self) -> Command:
        random, key = self._random, self._random.choice(self.keys)
        bounds = [random.choice([b"-", self._id(key)]), random.choice([b"+", self._id(key)])]
        consumer = [self._consumer_name()] if random.random() < 0.3 else []
        idle = [b"IDLE", b"0"] if random.random() < 0.2 else []
        count = b"%d" % random.choice([0, 1, 2, 10, -1])
        return (b"XPENDING", key, random.choice(self._groups), *idle, *bounds, count, *consumer)

    def _claim(self) -> Command:
        random, key, group = (
            self._random,
            self._random.choice(self.keys),
            self._random.choice(self._groups),
        )
        least = random.choice([b"0", b"0", b"3600000", b"-1"])
        options = random.choice(
            [(), (b"JUSTID",), (b"RETRYCOUNT", b"7"), (b"IDLE", b"0"), (b"LASTID", b"1")]
        )
        ids = self._given(key, group)
        return (b"XCLAIM", key, group, self._consumer_name(), least, *ids, *options)

    def _sweep(self) -> Command:
        random, key = self._random, self._random.choice(self.keys)
        options = random.choice([(), (b"COUNT", b"1"), (b"COUNT", b"2"), (b"JUSTID",)])
        least = random.choice([b"0", b"0", b"3600000"])
        group, name = random.choice(self._groups), self._consumer_name()
        return (b"XAUTOCLAIM", key, group, name, least, self._id(key), *options)

    def _wrong(self) -> Command:
        names = {b"KEY": self.keys[0], b"KEY2": self.keys[1]}
        return tuple(names.get(word, word) for word in self._random.choice(WRONG))

    def _length(self) -> Command:
        is_told = self.keeps or not self._is_acknowledged
        return (b"XLEN", self.keys[0]) if is_told else self._summary()

    def _consumer(self) -> Command:
        key, group = self._random.choice(self.keys), self._random.choice(self._groups)
        name = self._random.choice([b"made", b"made too"])
        return (b"XGROUP", b"CREATECONSUMER", key, group, name)


class Seat:
    """What one server sees of a sequence: two connections, and the ids that it made. The
    connections serve one sequence after the other."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.lines = [Line(address), Line(address)]
        self.ids: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self.say(1, (b"HELLO", b"3"))
        self.hear(1)

    def clear(self) -> None:
        """Forget the ids of the sequence before."""
        self.ids, self._numbers = [], {}

    def say(self, connection: int, command: Command) -> None:
        self.lines[connection].send(self._bytes(command))

    def say_all(self, moves: list[Move]) -> None:
        """Say what is said over one connection, in one write."""
        self.lines[moves[0][0]].send(b"".join(self._bytes(command) for _, command in moves))

    def _bytes(self, command: Command) -> bytes:
        return multibulk(tuple([self._word(word) for word in command]))

    def _word(self, word: Word) -> bytes:
        if isinstance(word, bytes):
            return word
        return word[0] + self.ids[word[1]] if isinstance(word, tuple) else self.ids[word]

    def hear(self, connection: int) -> bytes:
        """The next answer, as it stands on the wire."""
        line = self.lines[connection]
        while (found := first(bytes(line.data))) is None:
            line.read()
        return line.take(found[1])

    def plain(self, answer: bytes) -> bytes:
        """An answer with the numbers of ids, all of which this server made, and without the time
        that entries were held."""
        answer = ID.sub(self._number, answer)
        return HELD.sub(rb"\1:0\r\n:", answer) if b"*4" in answer else answer

    def _number(self, found: re.Match[bytes]) -> bytes:
        id = found[1]
        number = self._numbers.get(id)
        if number is None:
            number = self._numbers[id] = len(self.ids)
            self.ids.append(id)
        text = b"#%d" % number
        return b"$%d\r\n%s\r\n" % (len(text), text)

    def close(self) -> None:
        for line in self.lines:
            line.close()


class Game:
    """One sequence, played at a seat of each server."""

    def __init__(self, seed: int, seats: Sequence[Seat]) -> None:
        self.seats = seats
        self._seed = seed
        self._drawing = Drawing(seed)
        self._left = self._drawing.steps()
        self._said: list[str] = []
        self._moves: list[Move] = []
        self.trouble: str | None = None
        for seat in seats:
            seat.clear()

    @property
    def is_over(self) -> bool:
        return self._left == 0 or self.trouble is not None

    def set_up(self) -> None:
        """Say what makes the streams of the sequence."""
        keys = self._drawing.keys
        making: list[Move] = [
            (0, (b"XGROUP", b"CREATE", key, group, b"$", b"MKSTREAM"))
            for key in keys
            for group in GROUPS
        ]
        # Redis gives entries of two streams the same ids; of the second they are larger here.
        later: list[Move] = [(0, (b"XSETID", keys[1], b"9999999999999-0"))]
        self.seats[0].say_all(making + later)
        self.seats[1].say_all(making)

    def see_set_up(self) -> None:
        for seat, count in zip(self.seats, (5, 4), strict=True):
            for _ in range(count):
                seat.hear(0)

    def say(self) -> None:
        """Draw what is next, and say it; of a read that waits and what it gets only the read."""
        self._moves = self._drawing.moves()
        self._said += [f"{number}> {_shown(command)}" for number, command in self._moves]
        first = self._moves[:1] if self.is_waiting else self._moves
        for seat in self.seats:
            seat.say_all(first)

    @property
    def is_waiting(self) -> bool:
        return self._drawing.is_waiting(self._moves)

    def say_rest(self) -> None:
        for seat in self.seats:
            seat.say(*self._moves[1])

    def hear(self) -> None:
        """Hear the answers, and compare them."""
        heard = [self._answers(seat) for seat in self.seats]
        if heard[0] != heard[1]:
            told = ["\n".join(map(shown, answers)) for answers in heard]
            self.trouble = "\n".join(
                [f"seed {self._seed}", *self._said, "redis:", told[0], "router:", told[1]]
            )
            return
        self._drawing.follow(self._moves, heard[0])
        self._left -= 1

    def _answers(self, seat: Seat) -> list[bytes]:
        """What one server answers to each move, in the order of the moves."""
        if self.is_waiting:  # what was added has its number first
            added = seat.plain(seat.hear(self._moves[1][0]))
            return [seat.plain(seat.hear(self._moves[0][0])), added]
        return [seat.plain(seat.hear(number)) for number, _ in self._moves]


class StreamArena:
    """Both servers, at which many sequences are played side by side: each says its next command,
    and then all answers are heard. So servers have many commands at once, and nobody waits for
    one read that waits."""

    def __init__(self, redis: tuple[str, int], router: tuple[str, int]) -> None:
        self._addresses = (redis, router)
        self._free: list[list[Seat]] = []
        self.steps = 0

    def check(self, seed: int) -> str | None:
        """Play one sequence; what differs, if anything does."""
        [trouble] = self.check_all([seed])
        return trouble

    def check_all(self, seeds: Iterable[int]) -> Iterator[str | None]:
        """Play sequences, and say of each, in the order of their ends, what differs."""
        left = iter(seeds)
        games: list[Game] = []
        while True:
            new = [Game(seed, self._seats()) for seed in islice(left, TOGETHER - len(games))]
            for game in new:
                game.set_up()
            for game in new:
                game.see_set_up()
            games += new
            if not games:
                return
            self._play(games)
            for game in [each for each in games if each.is_over]:
                games.remove(game)
                self._leave(game)
                yield game.trouble

    def _play(self, games: list[Game]) -> None:
        """One step of each sequence."""
        self.steps += len(games)
        for game in games:
            game.say()
        for game in games:
            if not game.is_waiting:
                game.hear()
        waiting = [game for game in games if game.is_waiting]
        for game in waiting:
            game.say_rest()
        for game in waiting:
            game.hear()

    def _seats(self) -> list[Seat]:
        return self._free.pop() if self._free else [Seat(each) for each in self._addresses]

    def _leave(self, game: Game) -> None:
        if game.trouble is None:
            self._free.append(list(game.seats))
            return
        for seat in game.seats:  # an answer may still be on its way
            seat.close()

    def close(self) -> None:
        for seats in self._free:
            for seat in seats:
                seat.close()


def _elements(answer: bytes) -> list[bytes]:
    """What an array has in it, as it stands on the wire."""
    found: list[bytes] = []
    at = answer.index(b"\r\n") + 2
    while answer[:1] == b"*" and at < len(answer):
        element = first(answer, at)
        assert element is not None, "the answer is whole"
        found.append(answer[at : element[1]])
        at = element[1]
    return found


def _ids_in(answer: bytes) -> list[int]:
    """The numbers of the ids in an answer."""
    return [int(number) for number in NUMBERED.findall(answer)]


def _shown(command: Command) -> str:
    return " ".join(
        f"(#{w[1]}" if isinstance(w, tuple) else f"#{w}" if isinstance(w, int) else repr(w)[2:-1]
        for w in command
    )


@contextlib.contextmanager
def stream_arena(folder: Path) -> Iterator[StreamArena]:
    """Fresh servers. redis-server looks for reads whose time is over as often as `hz` says, and
    nothing depends on when."""
    router = StreamRouter(folder, store="memory:")
    with start_redis(folder, hz=500) as redis:
        router.start()
        arena = StreamArena(redis.address, router.resp)
        try:
            yield arena
        finally:
            arena.close()
            router.stop()


def played(seeds: range) -> Iterator[str | None]:
    """What differs in each; with fresh servers now and then, as streams stay."""
    for start in range(seeds.start, seeds.stop, IN_ONE_ARENA):
        with tempfile.TemporaryDirectory() as folder, stream_arena(Path(folder)) as both:
            yield from both.check_all(range(start, min(start + IN_ONE_ARENA, seeds.stop)))


def main() -> int:
    options = seed_options(__doc__).parse_args()
    return tell(options, played(range(options.seed, options.seed + options.count)))


if __name__ == "__main__":
    sys.exit(main())
