"""Draws what several clients say to a server, within what two servers can be compared in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.support.resp_client import Frame, Pairs, Word, encoded
from tests.support.resp_servers import items_of, mapping

CONNECTIONS = 4
CHANNELS: list[Word] = ["a", "b", "news.it", "news.fr", "", b"\x00\xff\r\n", "sp ace"]
PATTERNS: list[Word] = ["*", "news.*", "?", "[ab]", "", "n*s.*t", "\\a", "[^n]*"]
KEYS: list[Word] = ["k1", "k2", "k3", b"\x00k"]
VALUES: list[Word] = ["", "v", "10", "-5", "1.5", b"\xff\x00\r\n", "x" * 300]
NUMBERS: list[Word] = [0, 1, -1, 2, 15, 16, "x", "", "1.5", 2**63, -(2**63), " 1", "01", "+1"]
OPTIONS: list[Word] = ["NX", "xx", "GET", "EX", "PX", "KEEPTTL", "FOO", "GT", "lt", "PERSIST", ""]
LATER = 4_000_000_000
NAMES = (
    "PING ECHO SELECT PUBLISH SPUBLISH PUBSUB SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE "
    "PUNSUBSCRIBE SUNSUBSCRIBE GET SET GETDEL GETEX SETNX SETEX PSETEX MSET MGET DEL UNLINK EXISTS "
    "EXPIRE PEXPIRE EXPIREAT PEXPIREAT EXPIRETIME PEXPIRETIME PERSIST TYPE FLUSHDB "
    "DISCARD AUTH"
)
BROKEN = [
    b"*x\r\n",
    b"*1\r\nfoo\r\n",
    b"*1\r\n$-1\r\n",
    b"*2\r\n$4\r\nECHO\r\n$x\r\n",
    b'PING "x\r\n',
    b"PING 'x'y\r\n",
    b"*1\r\n$99999999999\r\n",
]
LINES = [b"PING\r\n", b"PING x\n", b"\r\n", b"*0\r\n", b"*-1\r\n", b'ECHO "a\\x41"\r\n', b"  \r\n"]


@dataclass
class Conversation:
    """What may be true of one connection; it decides what may be said next."""

    subscribes: bool = True
    """The first connection never does, so that it may publish in transactions."""
    three: bool = False
    silent: bool = False
    transaction: bool = False

    @property
    def may_publish(self) -> bool:
        return not (self.subscribes and self.transaction)


@dataclass
class Step:
    """Bytes for one connection, and what to make of the replies before they are compared."""

    data: bytes
    compare: Callable[[list[Frame]], object] | None = None
    closes: bool = False


@dataclass
class Script:
    """Draws steps."""

    random: Random
    states: list[Conversation] = field(
        default_factory=lambda: [Conversation(subscribes=each > 0) for each in range(CONNECTIONS)]
    )
    messages: int = 0

    def step(self, which: int) -> Step:
        state, draw = self.states[which], self.random.random()
        if draw < 0.01 and not state.silent:
            self.states[which] = Conversation(state.subscribes)
            return Step(self.random.choice(BROKEN), closes=True)
        if draw < 0.02 and not state.silent:
            self.states[which] = Conversation(state.subscribes)
            return Step(encoded("QUIT") + encoded("PING"), closes=True)
        if draw < 0.06 and not state.silent:
            return Step(b"".join(self.random.choices(LINES, k=3)))
        if draw < 0.16:
            return self.special(state)
        if draw < 0.20 and not state.transaction:
            return self.unordered()
        if draw < 0.30:
            return Step(b"".join(encoded(*self.command(state)) for _ in range(8)))
        return Step(encoded(*self.command(state)))

    def special(self, state: Conversation) -> Step:
        """What changes how the connection speaks."""
        match self.random.randrange(10):
            case 0 | 1 if not state.transaction:
                three = self.random.random() < 0.6
                state.three |= three
                return Step(encoded("HELLO", 3 if three else 2), compare=greeted)
            case 2 if not state.transaction:
                return Step(encoded("HELLO", self.pick([4, "x", 1, "3 "])))
            case 3:
                state.silent = state.transaction = False
                return Step(encoded("RESET"))
            case 4 if not state.transaction:
                state.silent = True
                return Step(encoded("CLIENT", "REPLY", self.random.choice(("OFF", "SKIP"))))
            case 5 if not state.transaction:
                # Refused to a subscriber in RESP2, which stays silent.
                return Step(encoded("CLIENT", "REPLY", "ON"))
            case 6 | 7 if not state.silent:
                state.transaction = True
                return Step(encoded("MULTI"))
        state.transaction = False
        return Step(encoded("EXEC"))

    def unordered(self) -> Step:
        command: list[Word]
        match self.random.randrange(6):
            case 0:
                command = ["PUBSUB", "CHANNELS"]
            case 1:
                command = ["PUBSUB", "CHANNELS", self.random.choice(PATTERNS)]
            case 2:
                command = ["PUBSUB", "SHARDCHANNELS"]
            case 3:
                command = ["KEYS", self.random.choice(["*", "k*", "k[12]", ""])]
            case 4:
                return Step(encoded("TTL", self.pick(KEYS)), compare=nearly)
            case _:
                kind = self.random.choice(["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])
                return Step(encoded(kind), compare=left)
        return Step(encoded(*command), compare=shuffled)

    def command(self, state: Conversation) -> list[Word]:
        if self.random.random() < 0.15:
            return self.odd(state)
        match self.random.randrange(14):
            case 0 if state.subscribes:
                return [self.cased("SUBSCRIBE"), *self.some(CHANNELS)]
            case 1 if state.subscribes:
                return [self.cased("PSUBSCRIBE"), *self.some(PATTERNS)]
            case 2 if state.subscribes:
                return [self.cased("SSUBSCRIBE"), *self.some(CHANNELS)]
            case 3:
                kind, names = self.random.choice(
                    [("UNSUBSCRIBE", CHANNELS), ("PUNSUBSCRIBE", PATTERNS)]
                )
                return [kind, *self.some(names)]
            case 4:
                return ["SUNSUBSCRIBE", *self.some(CHANNELS)]
            case 5 | 6 if state.may_publish:
                self.messages += 1
                return [self.cased("PUBLISH"), self.pick(CHANNELS), f"m{self.messages}"]
            case 7 if state.may_publish:
                self.messages += 1
                return ["SPUBLISH", self.pick(CHANNELS), f"m{self.messages}"]
            case 8:
                kind = self.random.choice(["NUMSUB", "SHARDNUMSUB"])
                return ["PUBSUB", self.cased(kind), *self.some(CHANNELS)]
            case 9:
                return ["PUBSUB", "NUMPAT"]
            case 10:
                return ["SET", self.pick(KEYS), self.pick(VALUES), *self.deadline()]
            case 11:
                return [self.random.choice(["GET", "GETDEL", "TYPE", "EXISTS"]), self.pick(KEYS)]
            case 12:
                return self.connection_command()
            case _:
                return self.random.choice([["PING"], ["PING", "x"], ["ECHO", self.pick(VALUES)]])

    def connection_command(self) -> list[Word]:
        return self.random.choice(
            [
                ["CLIENT", "SETNAME", self.random.choice(["me", "a b", "", "\n", "é"])],
                ["CLIENT", "GETNAME"],
                ["CLIENT", "NOSUCH", "x"],
                ["CLIENT", "REPLY", "x"],
                ["CLIENT", "GETREDIR"],
                ["SELECT", self.pick(NUMBERS)],
                ["ACL", "WHOAMI"],
                ["AUTH", "x"],
                ["AUTH", "default", "x"],
                ["AUTH", "nobody", "x"],
                ["CONFIG", "GET", "no.such.setting"],
                ["CONFIG", "SET", "no.such.setting", "x"],
                ["CONFIG", "NOSUCH"],
                ["COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"],
                ["COMMAND", "INFO", "no.such.command"],
                ["CLUSTER", "SLOTS"],
                ["EXPIREAT", self.pick(KEYS), LATER],
                ["EXPIRETIME", self.pick(KEYS)],
                ["PEXPIRETIME", self.pick(KEYS)],
            ]
        )

    def odd(self, state: Conversation) -> list[Word]:
        """Any known name with arguments of any kind and number, or a name that nobody knows."""
        if self.random.random() < 0.2:
            unknown: list[Word] = ["NOSUCH", "", "foo\r\nbar", b"\xff", "SUBSCRIBEX", "x" * 200]
            return [self.pick(unknown), *self.some(self.without_nul([*VALUES, *NUMBERS]), 0)]
        name = self.random.choice(NAMES.split())
        if name in ("PUBLISH", "SPUBLISH") and not state.may_publish:
            name = "ECHO"
        if name in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE") and not state.subscribes:
            name = "ECHO"
        words = self.without_nul([*CHANNELS, *KEYS, *NUMBERS, *OPTIONS])
        count = self.random.randrange(5)
        if name.endswith("UNSUBSCRIBE"):
            count += 1  # without names the order is free
        if name in ("SETEX", "PSETEX", "EXPIRE", "PEXPIRE", "SET", "GETEX"):
            # Short deadlines would pass at different moments.
            words = [word for word in words if word not in (1, 2, 15, 16, "01", "+1")]
        return [self.cased(name), *self.random.choices(words, k=count)]

    def deadline(self) -> list[Word]:
        return self.random.choice(
            [
                [],
                [],
                ["EXAT", LATER],
                ["PXAT", LATER * 1000 + 1],
                ["EXAT", LATER + 5],
                ["KEEPTTL"],
                ["NX"],
                ["XX", "GET"],
                ["nx", "get"],
                ["EX", self.pick([0, -1, "x"])],
                ["EXAT", LATER, "KEEPTTL"],
                ["NX", "XX"],
                ["PXAT", 1],
            ]
        )

    def without_nul(self, words: list[Word]) -> list[Word]:
        """For what an error may quote: a text in C ends there."""
        return [word for word in words if not (isinstance(word, bytes) and b"\x00" in word)]

    def cased(self, word: str) -> str:
        return self.random.choice([word, word, word.lower(), word.capitalize()])

    def pick(self, words: list[Word]) -> Word:
        return self.random.choice(words)

    def some(self, words: list[Word], least: int = 1) -> list[Word]:
        return self.random.choices(words, k=self.random.randint(least, 3))


def greeted(frames: list[Frame]) -> object:
    return [
        [type(frame), {**mapping(frame), b"server": None, b"version": None, b"id": None}]
        if isinstance(frame, Pairs) or (isinstance(frame, list) and len(frame) == 14)
        else frame
        for frame in frames
    ]


def shuffled(frames: list[Frame]) -> object:
    return [sorted(map(repr, frame)) if isinstance(frame, list) else frame for frame in frames]


def left(frames: list[Frame]) -> object:
    parts = [items_of(frame) if isinstance(frame, list) else [frame] for frame in frames]
    return [[part[::2] for part in parts], sorted(repr(part[1:2]) for part in parts)]


def nearly(frames: list[Frame]) -> object:
    """Seconds that are left: both servers have been asked within moments, but not at once."""
    return [
        ("later" if frame > 1_000_000 else "soon")
        if isinstance(frame, int) and frame > 0
        else frame
        for frame in frames
    ]
