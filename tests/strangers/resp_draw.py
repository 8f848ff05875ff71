"""Draws sessions of Redis clients: who says what, in which writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

Command: TypeAlias = tuple[bytes, ...]

CHANNELS = [b"a", b"b", b"news.1", b"news.2", b"", b"\x00\xff\r\n", b"h[i]", b"x*", b"News.1"]
PATTERNS = [
    b"*", b"news.*", b"?", b"[ab]", b"", b"\x01*", b"h\\[i\\]", b"x\\*", b"n*s.[0-9]", b"[^a]",
    b"news.1", b"**1", b"[a-",
]  # fmt: skip
EVENTS = b"__keyevent@0__:expired"
KEYS = [b"k1", b"k2", b"k3", b"", b"\xfe\r\n", b"number", b"{tag}k"]
VALUES = [b"", b"v", b"10", b"-3", b"2.5", b"long " * 30, b"\x00\r\n\xff", b" 7"]
USERS = [b"u1", b"u2"]
PASSWORDS = [b"p1", b"p2"]
KEPT = (b"+unsubscribe", b"+discard")
"""What no user is without: every fence is an UNSUBSCRIBE, and a transaction can be left."""
ENDING = ((b"KILL",), (b"DELUSER",), (b"SETUSER",))
"""Subcommands that may end the connection of who says them."""
WHOLE = (b"CLIENT", b"ACL", b"HELLO")
"""Commands that are not cut short: users would lose their rights, and 7.0 half obeys HELLO."""
PAST = b"1000000"
SUBSCRIBER_FREE = 0
"""This connection never subscribes, so it may publish in transactions: see ``resp_sequences``."""


@dataclass(frozen=True)
class Step:
    """What one connection writes before everybody is looked at again.

    ``cuts`` are the places where the write is divided; with ``apart`` the server has seen what is
    before a cut when the rest is written. ``last`` ends the connection.
    """

    connection: int
    commands: tuple[Command, ...]
    raw: bytes = b""
    inline: bool = False
    cuts: tuple[int, ...] = ()
    apart: bool = False
    last: bool = False

    def wire(self) -> bytes:
        form = inline if self.inline else multibulk
        return self.raw or b"".join(map(form, self.commands))

    def says(self, *names: bytes) -> bool:
        return any(command[0].upper() in names for command in self.commands)

    def __str__(self) -> str:
        said = " ; ".join(" ".join(_word(word) for word in command) for command in self.commands)
        form = " (inline)" * self.inline + f" (cut at {self.cuts})" * bool(self.cuts)
        return f"{self.connection}> {said or repr(self.raw)[1:]}{form}"


def _word(word: bytes) -> str:
    text = repr(word)[2:-1]
    return text if text and " " not in text else f'"{text}"'


def multibulk(command: Command) -> bytes:
    words = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
    return b"*%d\r\n%s" % (len(command), words)


def inline(command: Command) -> bytes:
    return b" ".join(map(_quoted, command)) + b"\r\n"


def _quoted(word: bytes) -> bytes:
    if word and word.replace(b".", b"").replace(b"@", b"").isalnum():
        return word
    return b'"' + b"".join(b"\\x%02x" % byte for byte in word) + b'"'


def draw(seed: int) -> list[Step]:
    """The sequence of this seed."""
    return _Draw(Random(seed)).sequence()


class _Draw:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.connections = random.choice([3, 4])
        self.payloads = 0
        self.deadlines = 0
        # Few names meet more often.
        self.channels = random.sample(CHANNELS, random.randint(2, len(CHANNELS)))
        self.patterns = random.sample(PATTERNS, random.randint(2, len(PATTERNS)))
        self.keys = random.sample(KEYS, random.randint(1, len(KEYS)))
        self.heard = [self.channels[0]]
        self.listening = random.choice([0.1, 0.5, 1.0])
        # What a sequence is about: few families at a time meet more often.
        families: list[Callable[[], Command]] = [
            self.subscribe, self.subscribe, self.leave, self.publish, self.publish, self.pubsub,
            self.string, self.string, self.key, self.expiry, self.numbers, self.watch,
            self.client, self.config, self.acl, self.acl, self.auth, self.hello, self.wrong,
            self.connection, self.reply,
        ]  # fmt: skip
        about = random.sample(families, random.randint(4, len(families)))
        self.families = [*about, self.subscribe, self.publish]

    def sequence(self) -> list[Step]:
        random = self.random
        steps = [
            Step(which, ((b"HELLO", b"3"),))
            for which in range(self.connections)
            if random.random() < 0.5
        ]
        if random.random() < 0.4:
            steps.append(Step(random.randrange(self.connections), (self.set_user(),)))
        if random.random() < 0.3:
            steps += self.trusted()
        if random.random() < 0.2:
            steps.append(Step(0, ((b"CONFIG", b"SET", b"notify-keyspace-events", b"Ex"),)))
            steps.append(Step(random.randrange(1, self.connections), ((b"SUBSCRIBE", EVENTS),)))
        drawn: list[Step] = []
        wanted = random.randint(15, 40)
        while len(drawn) < wanted:
            drawn += self.race() if random.random() < 0.06 else [self.step()]
        return steps + [self.cut(step) for step in drawn]

    def trusted(self) -> list[Step]:
        """Two connections of a user who may do everything, until somebody changes that."""
        self.families += [self.acl, self.watch]
        user = self.any(USERS)
        rules = (b"on", b">p1", b"+@all", b"~*", self.any([b"&*", b"&news.*", b"&a"]))
        steps = [Step(0, ((b"ACL", b"SETUSER", user, *rules),))]
        return steps + [Step(which, ((b"AUTH", user, b"p1"),)) for which in (1, 2)]

    def race(self) -> list[Step]:
        """A transaction, and somebody who comes between its parts."""
        random = self.random
        which, other = random.sample(range(self.connections), 2)
        key = self.any(self.keys)
        change = random.choice(
            [
                (b"SET", key, b"v"), (b"DEL", key), (b"EXPIRE", key, b"9000"),
                (b"APPEND", key, b""),
                (b"RENAME", key, self.any(self.keys)), (b"RENAME", self.any(self.keys), key),
                (b"SET", key, b"v", b"NX"), (b"SET", key, b"v", b"XX"), (b"GETDEL", key),
                (b"PERSIST", key), (b"INCR", key), (b"SETNX", key, b"w"), (b"GET", key),
                (b"MSET", key, b"1"), (b"EXPIRE", key, b"-1"), (b"SET", key, b"v", b"PXAT", PAST),
                (b"GETEX", key, b"PERSIST"), (b"GETEX", key, b"EX", b"9000"), (b"TOUCH", key),
                (b"SELECT", b"1"), self.set_user(), self.set_user(), (b"ACL", b"DELUSER", b"u1"),
            ]
        )  # fmt: skip
        steps = [
            Step(which, ((b"WATCH", key),)),
            Step(which, ((b"MULTI",),)),
            Step(which, (self.command(which),)),
            Step(which, ((b"GET", key), self.command(which))),
        ]
        steps.insert(random.randint(1, 4), Step(other, (change, (b"EXISTS", key))))
        return [*steps, Step(which, ((b"EXEC",),))]

    def step(self) -> Step:
        random = self.random
        which = random.randrange(self.connections)
        kind = random.random()
        if random.random() < 0.15:
            return Step(SUBSCRIBER_FREE, tuple(self.publish() for _ in range(random.randint(1, 4))))
        if kind < 0.06:
            return Step(which, ((b"MULTI",),))
        if kind < 0.12:
            return Step(which, (random.choice([(b"EXEC",), (b"EXEC",), (b"DISCARD",)]),))
        if kind < 0.22:
            return Step(which, self.block(which))
        if kind < 0.25:
            return Step(which, self.skipped(which))
        if kind < 0.29:
            key = random.choice(self.keys)
            dead = (b"SET", key, b"v", b"PXAT", PAST)
            return Step(which, (dead, random.choice([(b"GET", key), (b"EXISTS", key)])))
        if kind < 0.30:
            return self.life(which)
        if kind < 0.325:
            return self.end(which)
        if kind < 0.355:
            return self.farewell(which)
        if kind < 0.37:
            return self.noise(which)
        if kind < 0.40:
            command = self.command(which)
            return Step(which, (command,), inline=command[0].lower() not in (b"", b"post"))
        many = random.choice([1, 1, 1, 1, 2, 3, 6])
        return Step(which, tuple(self.command(which) for _ in range(many)))

    def command(self, which: int) -> Command:
        while True:
            command = self.random.choice(self.families)()
            if command[0].upper().endswith(b"SUBSCRIBE") and (
                which == SUBSCRIBER_FREE or (which == 1 and self.random.random() > self.listening)
            ):
                continue
            if command[0] == b"CLIENT" and command[1:2] == (b"REPLY",) and b"SKIP" in command:
                continue
            shape = self.random.random()
            if shape < 0.05:
                return (command[0].lower(), *command[1:])
            if shape < 0.07 and len(command) > 1 and command[0] not in WHOLE:
                return command[:-1]
            return command

    def block(self, which: int) -> tuple[Command, ...]:
        """A transaction in one write."""
        random = self.random
        inside = [self.command(which) for _ in range(random.randint(0, 5))]
        if which != SUBSCRIBER_FREE:
            inside = [c for c in inside if c[0].upper() not in (b"PUBLISH", b"SPUBLISH")]
        inside = [c for c in inside if not _leaves_all(c)]
        before = [(b"WATCH", random.choice(self.keys))] if random.random() < 0.3 else []
        end = (b"EXEC",) if random.random() < 0.85 else (b"DISCARD",)
        return (*before, (b"MULTI",), *inside, end)

    def skipped(self, which: int) -> tuple[Command, ...]:
        commands = [(b"CLIENT", b"REPLY", b"SKIP"), self.command(which), self.command(which)]
        return tuple(commands[: self.random.choice([1, 2, 3])])

    def end(self, which: int) -> Step:
        random = self.random
        raw = random.choice(
            [b"*x\r\n", b"*1\r\nfoo\r\n", b"*1\r\n$-5\r\n", b"*1\r\n$zz\r\n", b'GET "a\r\n',
             b"GET 'a'b\r\n", b"*2147483648\r\n", b"*1\r\n$4\r\nPING\r\n*1\r\n:4\r\n"]
        )  # fmt: skip
        if random.random() < 0.5:
            return Step(which, (), raw, last=True)
        return Step(which, ((b"QUIT",), (b"PING",)), last=True)

    def farewell(self, which: int) -> Step:
        """Much at once, transactions and replies switched off anywhere in it, and then QUIT."""
        random = self.random
        marks: list[Command] = [(b"MULTI",), (b"EXEC",), (b"EXEC",), (b"DISCARD",)]
        if random.random() < 0.5:
            marks = [(b"CLIENT", b"REPLY", word) for word in (b"OFF", b"SKIP", b"SKIP", b"ON")]
        said = [self.command(which) for _ in range(random.randint(3, 15))]
        said = [c for c in said if c[1:2] not in ENDING and not _leaves_all(c)]
        if which != SUBSCRIBER_FREE:
            said = [c for c in said if c[0].upper() not in (b"PUBLISH", b"SPUBLISH")]
        for _ in range(random.randint(1, 6)):
            said.insert(random.randint(0, len(said)), random.choice(marks))
        return Step(which, (*said, (b"RESET",), (b"PING",), (b"QUIT",)), last=True)

    def noise(self, which: int) -> Step:
        """Requests that are none, and one that is."""
        raw = self.random.choice([b"\r\n", b"*0\r\n", b"*-1\r\n", b"*-10\r\n", b"\n", b"   \r\n"])
        return Step(which, ((b"PING",),), raw=raw + self.random.choice([b"PING\r\n", b"PING\n"]))

    def life(self, which: int) -> Step:
        """A key that may have a deadline, what is done to it, and what that left."""
        random = self.random
        key, other = self.any(self.keys), self.any(self.keys)
        given = random.choice(
            [
                (b"SET", key, b"10", b"EX", b"9000"), (b"SETEX", key, b"9000", b"10"),
                (b"EXPIRE", key, b"9000"), (b"SET", key, b"10"),
            ]
        )  # fmt: skip
        done = random.choice(
            [
                (b"RENAME", key, other), (b"RENAMENX", key, other), (b"INCR", key),
                (b"INCRBYFLOAT", key, b"1.5"), (b"APPEND", key, b"0"), (b"GETSET", key, b"1"),
                (b"SET", key, b"1"), (b"SET", key, b"1", b"KEEPTTL"), (b"MSET", key, b"1"),
                (b"PERSIST", key), (b"GETEX", key, b"PERSIST"), self.string(), self.numbers(),
            ]
        )  # fmt: skip
        return Step(which, (given, done, (b"TTL", key), (b"TTL", other), (b"MGET", key, other)))

    def cut(self, step: Step) -> Step:
        random = self.random
        if random.random() > 0.15 or step.last:
            return step
        size = len(step.wire())
        cuts = tuple(sorted({random.randrange(size) for _ in range(random.randint(1, 4))}))
        return replace(step, cuts=cuts, apart=random.random() < 0.5)

    # --- families -------------------------------------------------------------------------

    def names(self, pool: Sequence[bytes], most: int = 3) -> tuple[bytes, ...]:
        return tuple(self.random.choice(pool) for _ in range(self.random.randint(1, most)))

    def subscribe(self) -> Command:
        word = self.random.choice([b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE"])
        names = self.names(self.patterns if word[0] == ord("P") else self.channels)
        if word[0] != ord("P"):
            self.heard += names
        return word, *names

    def leave(self) -> Command:
        word = self.random.choice([b"UNSUBSCRIBE", b"PUNSUBSCRIBE", b"SUNSUBSCRIBE"])
        if self.random.random() < 0.35:
            return (word,)
        return word, *self.names(self.patterns if word[0] == ord("P") else self.channels)

    def publish(self) -> Command:
        word = b"PUBLISH" if self.random.random() < 0.75 else b"SPUBLISH"
        self.payloads += 1
        body = b"m%d" % self.payloads if self.random.random() < 0.9 else self.any(VALUES)
        return word, self.any(self.heard if self.random.random() < 0.7 else self.channels), body

    def any(self, pool: Sequence[bytes]) -> bytes:
        return self.random.choice(pool)

    def pubsub(self) -> Command:
        word = self.any([b"CHANNELS", b"NUMSUB", b"NUMPAT", b"SHARDCHANNELS", b"SHARDNUMSUB"])
        some = self.random.random() < 0.6
        if word.endswith(b"CHANNELS"):
            return b"PUBSUB", word, *((self.any(self.patterns),) if some else ())
        if word.endswith(b"NUMSUB"):
            return b"PUBSUB", word, *(self.names(self.channels) if some else ())
        return (b"PUBSUB", word) if some else (b"PUBSUB", self.any([word, b"FOO"]), b"a", b"b")

    def string(self) -> Command:
        key, value = self.any(self.keys), self.any(VALUES)
        chosen = self.random.randrange(15)
        if chosen < 4:
            return (b"SET", key, value, *self.set_options())
        return [
            (b"GET", key), (b"GETDEL", key), (b"APPEND", key, value), (b"STRLEN", key),
            (b"GETSET", key, value), (b"SETNX", key, value),
            (b"MGET", *self.names(self.keys)), (b"MSET", key, value, self.any(self.keys), b"w"),
            (b"MSETNX", key, value, self.any(self.keys), b"w"), (b"GET", key),
            (b"GETEX", key, *self.random.choice([(), (b"PERSIST",), (b"EX", b"9000"),
                                                 (b"EX", b"0"), (b"PERSIST", b"EX", b"1")])),
        ][chosen - 4]  # fmt: skip

    def set_options(self) -> Command:
        options: list[Command] = [
            (b"NX",), (b"XX",), (b"GET",), (b"KEEPTTL",), (b"EX", b"9000"), (b"PX", b"9000000"),
            (b"EXAT", b"99999999999"), (b"EX", b"0"), (b"EX", b"-1"), (b"PX", b"x"), (b"EX",),
            (b"nonsense",), (b"PXAT", b"0"), (b"EX", b"9223372036854775807"),
        ]  # fmt: skip
        chosen = self.random.sample(options, self.random.choice([0, 0, 1, 1, 2, 3]))
        return tuple(word for option in chosen for word in option)

    def key(self) -> Command:
        key = self.any(self.keys)
        return self.random.choice(
            [
                (b"DEL", *self.names(self.keys)), (b"UNLINK", *self.names(self.keys)),
                (b"EXISTS", *self.names(self.keys)), (b"RENAME", key, self.any(self.keys)),
                (b"RENAMENX", key, self.any(self.keys)), (b"TYPE", key),
                (b"TOUCH", *self.names(self.keys)),
                (b"KEYS", self.any([b"*", b"k?", b"k[12]", b"", b"[^k]*", b"\xfe*"])),
                (b"SCAN", b"0", b"COUNT", b"1000"), (b"SCAN", b"0", b"MATCH", b"k*"),
                (b"SCAN", b"0", b"TYPE", b"string"), (b"SCAN", b"x"),
                (b"SCAN", b"0", b"COUNT", b"0"),
                (b"DBSIZE",), (b"FLUSHALL",), (b"FLUSHDB", b"SYNC"), (b"FLUSHDB", b"NOW"),
            ]
        )  # fmt: skip

    def expiry(self) -> Command:
        key = self.any(self.keys)
        word = self.any([b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT"])
        flags = self.random.sample([b"NX", b"XX", b"GT", b"LT"], self.random.choice([0, 0, 1, 2]))
        seconds = 9000
        if b"GT" in flags or b"LT" in flags:
            # Which of two equal times is later depends on the millisecond in which they came.
            self.deadlines += 60
            seconds += self.random.choice([-self.deadlines, self.deadlines])
        far = {
            b"EXPIRE": b"%d" % seconds,
            b"PEXPIRE": b"%d000" % seconds,
            b"EXPIREAT": b"99999999999",
        }
        time = far.get(word, b"99999999999999")
        time = self.any([time, time, time, b"-1", b"0", b"x", b"9223372036854775807"])
        return self.random.choice(
            [
                (word, key, time, *flags), (word, key, time, *flags), (b"TTL", key), (b"PTTL", key),
                (b"PERSIST", key), (b"EXPIRETIME", key), (b"PEXPIRETIME", key),
                (b"SETEX", key, self.any([b"9000", b"0", b"-5", b"z"]), b"v"),
                (b"PSETEX", key, b"9000000", b"v"), (word, key, time, b"ODD"),
            ]
        )  # fmt: skip

    def numbers(self) -> Command:
        key = self.any([b"number", b"number", b"k1"])
        by = self.any([b"1", b"-5", b"9223372036854775807", b"x", b"1.5", b" 1", b"-0", b"01"])
        return self.random.choice(
            [
                (b"INCR", key), (b"DECR", key), (b"INCRBY", key, by), (b"DECRBY", key, by),
                (b"INCRBYFLOAT", key, self.any([b"1.5", b"-2", b"3e2", b"nan", b"inf", b"y"])),
                (b"SET", key, self.any([b"1", b"-7", b"1.25", b"9223372036854775807", b"a"])),
            ]
        )  # fmt: skip

    def watch(self) -> Command:
        return self.random.choice(
            [(b"WATCH", *self.names(self.keys)), (b"WATCH", b"k1"), (b"UNWATCH",)]
        )

    def client(self) -> Command:
        return self.random.choice(
            [
                (b"CLIENT", b"SETNAME", self.any([b"one", b"two", b"", b"with blank", b"\xff"])),
                (b"CLIENT", b"GETNAME"), (b"CLIENT", b"NO-EVICT", self.any([b"ON", b"off", b"?"])),
                (b"CLIENT", b"LIST"), (b"CLIENT", b"INFO"),
                (b"CLIENT", b"LIST", b"TYPE", b"pubsub"),
                (b"CLIENT", b"LIST", b"TYPE", b"odd"), (b"CLIENT", b"KILL", b"TYPE", b"pubsub"),
                (b"CLIENT", b"KILL", b"USER", self.any(USERS)), (b"CLIENT", b"KILL", b"1.2.3.4:5"),
                (b"CLIENT", b"KILL", b"ID", b"zero"), (b"CLIENT", b"GETREDIR"),
                (b"CLIENT", b"NOSUCH"), (b"CLIENT",), (b"CLIENT", b"UNPAUSE"),
                (b"CLIENT", b"KILL", b"TYPE", b"pubsub", b"SKIPME", b"no"),
                (b"CLIENT", b"LIST", b"ID", b"987654321"), (b"CLIENT", b"ID", b"x"),
            ]
        )  # fmt: skip

    def reply(self) -> Command:
        return b"CLIENT", b"REPLY", self.any([b"ON", b"ON", b"OFF", b"NEVER"])

    def config(self) -> Command:
        name = b"notify-keyspace-events"
        return self.random.choice(
            [
                (b"CONFIG", b"SET", name, self.any([b"Ex", b"xE", b""])), (b"CONFIG", b"GET", name),
                (b"CONFIG", b"GET", b"NOTIFY-*"),
                (b"CONFIG", b"GET", b"appendonly"), (b"CONFIG", b"GET", b"nosuch*"),
                (b"CONFIG", b"SET", b"nosuch", b"1"), (b"CONFIG", b"SET", name),
                (b"CONFIG", b"GET"),
                (b"CONFIG", b"GET", b"save", b"appendonly"), (b"CONFIG", b"RESETSTAT"),
                (b"CONFIG", b"SET", name, b"Ex", b"nosuch", b"2"),
                (b"CONFIG", b"SET", name, b"", name, b"Ex"), (b"CONFIG", b"ODD"),
            ]
        )  # fmt: skip

    def rules(self) -> Command:
        pool = [
            b"on", b"on", b"off", b"nopass", b">p1", b">p2", b"<p1", b"resetpass", b"allkeys",
            b"~k*", b"~*", b"resetkeys", b"&news.*", b"&*", b"&a", b"allchannels", b"resetchannels",
            b"+@all", b"allcommands", b"-@all", b"nocommands", b"+get", b"+set", b"-set",
            b"+publish",
            b"-publish", b"+@pubsub", b"-@pubsub", b"+@string", b"-@write", b"+@read",
            b"+subscribe",
            b"-psubscribe", b"+psubscribe", b"+multi", b"+exec", b"-exec", b"+client|setname",
            b"-client|reply", b"+client", b"+config|get", b"+acl|whoami", b"+@connection",
            b"+@fast",
            b"-@slow", b"+@transaction", b"-@dangerous", b"reset", b"+ping",
            b"-ping", b"+keys", b"+mget", b"+rename", b"+ssubscribe", b"+spublish", b"+pubsub",
        ]  # fmt: skip
        odd = [b"nonsense", b"+nosuch", b"+@nosuch", b"<nope", b"#12", b"~", b"&"]
        chosen = [self.any(pool) for _ in range(self.random.randint(1, 6))]
        if self.random.random() < 0.05:
            chosen.insert(self.random.randrange(len(chosen)), self.any(odd))
        return tuple(chosen)

    def set_user(self) -> Command:
        rules = self.rules()
        if self.random.random() < 0.5:
            rules = (b"on", b">p1", b"+@all", b"~*", b"&*", *rules)
        return (b"ACL", b"SETUSER", self.any(USERS), *rules, *KEPT)

    def acl(self) -> Command:
        user = self.any([*USERS, *USERS, b"nobody"])
        return self.random.choice(
            [
                self.set_user(), self.set_user(), self.set_user(),
                (b"ACL", b"DELUSER", self.any(USERS)), (b"ACL", b"DELUSER", b"nobody", b"u1"),
                (b"ACL", b"WHOAMI"), (b"ACL", b"LIST"), (b"ACL", b"GETUSER", user),
                (b"ACL", b"USERS"), (b"ACL", b"CAT"), (b"ACL", b"CAT", b"nosuch"),
                (b"ACL", b"DRYRUN", user, *self.harmless()),
                (b"ACL", b"DRYRUN", user, *self.harmless()),
                (b"ACL", b"DRYRUN", user, b"nosuch"), (b"ACL", b"GETUSER", b"default"),
                (b"ACL", b"DELUSER", b"default"), (b"ACL",), (b"ACL", b"NOSUCH"),
                (b"ACL", b"DRYRUN"),
            ]
        )  # fmt: skip

    def harmless(self) -> Command:
        families = [self.subscribe, self.leave, self.publish, self.string, self.key]
        command = self.random.choice(families)()
        return tuple(word.replace(b"\x00", b"0") for word in command)

    def auth(self) -> Command:
        user, password = self.any(USERS), self.any([*PASSWORDS, b"p1", b"wrong"])
        return self.random.choice(
            [
                (b"AUTH", user, password), (b"AUTH", user, password), (b"AUTH", user, password),
                (b"AUTH", b"default", b"x"), (b"AUTH", b"p1"), (b"AUTH", b"a", b"b", b"c"),
                (b"HELLO", b"3", b"AUTH", user, password), (b"ACL", b"WHOAMI"),
                (b"HELLO", b"2", b"AUTH", user, password, b"SETNAME", b"named"),
            ]
        )  # fmt: skip

    def hello(self) -> Command:
        return self.random.choice(
            [
                (b"HELLO", b"2"), (b"HELLO", b"3"), (b"HELLO", b"3"), (b"HELLO",), (b"HELLO", b"4"),
                (b"HELLO", b"x"), (b"HELLO", b"3", b"ODD"), (b"HELLO", b"3", b"SETNAME", b"a b"),
                (b"HELLO", b"2", b"SETNAME", b"fine"), (b"HELLO", b"3", b"AUTH", b"u1"),
                (b"RESET",),
            ]
        )  # fmt: skip

    def connection(self) -> Command:
        return self.random.choice(
            [
                (b"PING",), (b"PING", b"x"), (b"PING", b"x", b"y"), (b"ECHO", b"e"), (b"ECHO",),
                (b"SELECT", self.any([b"0", b"0", b"1", b"15", b"16", b"-1", b"x"])), (b"RESET",),
                (b"RESET", b"now"), (b"PING", b""),
            ]
        )  # fmt: skip

    def wrong(self) -> Command:
        return self.random.choice(
            [
                (b"NOSUCH", b"a", b"b"), (b"nosuch",), (b"GET",), (b"PUBLISH", b"a"),
                (b"SUBSCRIBE",),
                (b"PSUBSCRIBE",), (b"MSET", b"k1"), (b"MSET", b"k1", b"v", b"k2"), (b"SET", b"k1"),
                (b"UNWATCH", b"x"), (b"DISCARD", b"x"), (b"ECHO", b"a", b"b"), (b"",), (b"PUBSUB",),
                (b"NOSUCH", b"x" * 200, b"y"), (b"no\r\nsuch",), (b"WATCH",), (b"SPUBLISH", b"a"),
                (b"CLIENT", b"REPLY"), (b"CONFIG",), (b"INCR",), (b"EXPIRE", b"k1"),
                (b"GET", b"a", b"b"),
            ]
        )  # fmt: skip


def _leaves_all(command: Command) -> bool:
    return len(command) == 1 and command[0].upper().endswith(b"UNSUBSCRIBE")
