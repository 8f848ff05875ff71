"""What a Redis client may send, command by command.

Every command is sent in two forms that its place in the table of commands is enough for: with as
many arguments as a request may have, and with arguments as long as they may be. What needs more to
be at its worst, such as keys that exist, has a case of its own.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from headgate.core.model.limits import Limits, MiB
from headgate.wire.resp.commands.all_commands import COMMANDS
from headgate.wire.resp.commands.table import CommandEntry
from tests.hold.case import Case, Play, Stage, climb
from tests.hold.clients import Closed, RespClient, bulks, described, request

LIMITS = Limits()
CHUNK = 10_000
EXPIRING_SECONDS = 20.0
"""Long enough to set all the keys that are to die together."""
FIXED_LONG = LIMITS.request_bytes - 4096


def commands() -> Iterator[CommandEntry]:
    """Those that can be run; what has subcommands is each of them."""
    for entry in COMMANDS:
        if entry.run is not None:
            yield entry
        yield from entry.subcommands.values()


def names_of(entry: CommandEntry) -> list[bytes]:
    return entry.name.upper().encode().split(b"|")


def wide(entry: CommandEntry, count: int) -> bytes:
    """So many arguments, or one fewer, a byte each, its names among them."""
    names = names_of(entry)
    if entry.keys[2] == 2 or entry.name == "config|set":  # pairs
        count -= (count - len(names)) % 2
    given = max(0, count - len(names))
    return b"*%d\r\n" % (len(names) + given) + bulks(names) + b"$1\r\n1\r\n" * given


def long(entry: CommandEntry) -> bytes:
    """The arguments that it needs at least, as long as all of them may be."""
    names = names_of(entry)
    given = max(abs(entry.arity) - len(names), 1 if entry.arity < 0 else 0)
    size = min(LIMITS.bulk_bytes, FIXED_LONG // max(given, 1))
    return request(*names, *[b"1" * size] * given)


def plain(make: Callable[[], bytes]) -> Play:
    """These bytes, which are made when they are needed."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client, data = await stage.resp(), make()
        yield
        stage.outcome = await client.outcome(data)

    return play


def as_many(
    make: Callable[[int], bytes],
    most: int,
    replies: Callable[[int], int] = lambda count: 1,
    *,
    is_one: bool = True,
) -> Play:
    """Requests that are made of a number, which is as high as it may be."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        yield

        async def attempt(count: int) -> str:
            nonlocal client
            outcome = await client.outcome(make(count), replies(count), is_one=is_one)
            if outcome.endswith("closed"):
                client = await stage.resp()
            return outcome

        stage.outcome = await climb(most, attempt)

    return play


def repeated(verb: bytes, unit: bytes) -> Callable[[int], bytes]:
    """A command with so many times the same argument."""
    names = verb.split()

    def make(count: int) -> bytes:
        return b"*%d\r\n" % (len(names) + count) + bulks(names) + bulks([unit]) * count

    return make


def each(count: int) -> int:
    """An answer for each name."""
    return count


def general() -> Iterator[Case]:
    for entry in commands():
        name, covers = entry.name.replace("|", " ").upper(), frozenset((entry.name,))
        if entry.arity < 0:
            play = as_many(partial(wide, entry), LIMITS.arguments)
            sent = f"{LIMITS.arguments:,} short arguments"
            yield Case("resp", f"{name}, wide", sent, play, covers, is_general=True, shares=True)
        play = plain(partial(long, entry))
        has_arguments = entry.arity < 0 or entry.arity > len(names_of(entry))
        sent = f"arguments of up to {LIMITS.bulk_bytes // MiB} MiB" if has_arguments else "once"
        yield Case(
            "resp",
            f"{name}, long" if has_arguments else f"{name}, alone",
            sent,
            play,
            covers,
            is_general=True,
            shares=True,
        )


# Names.

At = bytes | Callable[[int], bytes]
"""A name with a number, or what makes one of a number."""


def named(at: At, number: int) -> bytes:
    return at % number if isinstance(at, bytes) else at(number)


def keyless(number: int) -> bytes:
    """A pattern of classes between two stars: there is no piece that a channel must have."""
    classes = [b"[ab]"]
    for _ in range(5):
        number, digit = divmod(number, 13)
        classes.append(b"[%c%c]" % (97 + 2 * digit, 98 + 2 * digit))
    return b"*" + b"".join(classes) + b"*"


# Preparations.


async def fill(client: RespClient, count: int, size: int = 1, at: At = b"k:%d") -> None:
    """So many keys, a few thousand at a time."""
    value = b"v" * size
    for first in range(0, count, CHUNK):
        numbers = range(first, min(first + CHUNK, count))
        await client.send(b"".join(request(b"SET", named(at, n), value) for n in numbers))
        for _ in numbers:
            answer = await client.reply()
        if isinstance(answer, Exception):
            raise AssertionError(str(answer))


async def subscribe(
    client: RespClient, count: int, verb: bytes = b"SUBSCRIBE", at: At = b"ch:%d"
) -> int:
    """To so many, some at a time; how many it could."""
    done = 0
    for first in range(0, count, 1000):
        numbers = range(first, min(first + 1000, count))
        await client.send(b"".join(request(verb, named(at, n)) for n in numbers))
        for _ in numbers:
            answer = await client.reply()
            if isinstance(answer, Exception):
                return done
            done += 1
    return done


def many(verb: bytes, count: int, at: At = b"n:%d", pairs: bool = False) -> bytes:
    """A command with so many names, all different."""
    names = ((named(at, n)) for n in range(count))
    if pairs:
        names = (part for n in range(count) for part in (named(at, n), b"1"))
    return request(*verb.split(), *names)


def one(
    verb: bytes,
    count: int,
    *,
    at: At = b"n:%d",
    pairs: bool = False,
    replies: Callable[[int], int] = lambda count: 1,
) -> Play:
    """One command with as many names as it may have."""
    return as_many(lambda number: many(verb, number, at, pairs), count, replies)


def among_keys(count: int, *arguments: bytes, size: int = 1) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await fill(client, count, size)
        yield
        stage.outcome = described(await client.ask(*arguments))

    return play


def over_keys(verb: bytes, count: int) -> Play:
    """A command that names every key that there is, or as many as it may."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await fill(client, count)
        steps = one(verb, min(count, MOST), at=b"k:%d")(stage)
        await anext(steps)
        yield
        async for _ in steps:
            pass

    return play


async def _subscribed(stage: Stage, verb: bytes, at: At, count: int) -> RespClient:
    client = await stage.resp()
    await subscribe(client, count, verb, at)
    return client


def among(verb: bytes, at: At, count: int, *arguments: bytes) -> Play:
    """One command of somebody, while another has so many subscriptions."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await _subscribed(stage, verb, at, count)
        client = await stage.resp()
        yield
        stage.outcome = described(await client.ask(*arguments))

    return play


def leaving(verb: bytes, undo: bytes, at: At, count: int) -> Play:
    """Unsubscribe from everything at once."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        done = await subscribe(client, count, verb, at)
        yield
        replies = 1 if undo == b"RESET" else done
        stage.outcome = await client.outcome(request(undo), replies)

    return play


def pipeline(data: bytes, times: int, replies_each: int = 1) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        whole = data * times
        yield
        try:
            await client.send(whole)
            for _ in range(times * replies_each):
                stage.outcome = described(await client.reply())
        except Closed:
            stage.outcome += ", closed"

    return play


def executed(*arguments: bytes, times: int) -> Play:
    """MULTI, as many of a command as may be queued, EXEC."""
    multi, one, last = request(b"MULTI"), request(*arguments), request(b"EXEC")
    return as_many(lambda n: multi + one * n + last, times, lambda n: n + 2, is_one=False)


def unread(*arguments: bytes, times: int, size: int) -> Play:
    """Answers of so many bytes that nobody reads."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await client.ask(b"SET", b"k", b"v" * size)
        client.hold()
        yield
        await client.send(request(*arguments) * times)
        await stage.router.settle()
        stage.outcome = "not read"

    return play


def unread_exec(*arguments: bytes, times: int, size: int) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await client.ask(b"SET", b"k", b"v" * size)
        await client.ask(b"MULTI")
        for _ in range(times):
            await client.ask(*arguments)
        client.hold()
        yield
        await client.send(request(b"EXEC"))
        await stage.router.settle()
        stage.outcome = "not read"

    return play


def appending(grown: int, times: int) -> Play:
    """One byte more, to a value that is as large as it may become."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        part = b"v" * LIMITS.bulk_bytes
        size = 0
        while size < grown:
            answer = await client.ask(b"APPEND", b"k", part)
            if isinstance(answer, Exception):
                break
            size = answer
        yield
        for _ in range(times):
            stage.outcome = described(await client.ask(b"APPEND", b"k", b"1"))

    return play


def publish_long(patterns: int) -> Play:
    """A message to a channel with a name as long as an argument may be, while somebody has
    patterns with a class between two stars."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await _subscribed(stage, b"PSUBSCRIBE", lambda n: keyless(n + 1), patterns)
        client = await stage.resp()
        data = request(b"PUBLISH", b"a" * LIMITS.bulk_bytes, b"x")
        yield
        stage.outcome = await client.outcome(data)

    return play


def published(verb: bytes, at: At, count: int, messages: int, verbatim: bytes = b"PUBLISH") -> Play:
    """So many messages in one write, each to a channel of its own, among so many patterns."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await _subscribed(stage, verb, at, count)
        client = await stage.resp()
        data = b"".join(request(verbatim, b"new:%d" % n, b"x") for n in range(messages))
        yield
        stage.outcome = await client.outcome(data, messages, is_one=False)

    return play


def with_users(users: int, rules: int, *arguments: bytes) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        for first in range(0, users, 100):
            numbers = range(first, min(first + 100, users))
            patterns = [b"~p%d*" % n for n in range(rules)]
            await client.send(
                b"".join(request(b"ACL", b"SETUSER", b"u%d" % n, *patterns) for n in numbers)
            )
            for _ in numbers:
                await client.reply()
        yield
        stage.outcome = described(await client.ask(*arguments))

    return play


def ruled(rules: int, *, keys: int) -> Play:
    """A command with many keys of a user with many rules: each is compared with each."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        admin, client = await stage.resp(), await stage.resp()
        patterns = [*(b"~" + keyless(n + 1) for n in range(rules)), b"~a*"]
        said = await admin.ask(b"ACL", b"SETUSER", b"u", b"on", b">p", b"+@all", *patterns)
        await client.ask(b"AUTH", b"u", b"p")
        yield

        async def attempt(count: int) -> str:
            return await client.outcome(many(b"MGET", count, b"a" * 200 + b"%d"))

        stage.outcome = await climb(keys, attempt)
        if isinstance(said, Exception):
            stage.outcome = described(said)

    return play


def with_clients(count: int, *arguments: bytes) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        for _ in range(count):
            await stage.resp()
        client = await stage.resp()
        yield
        stage.outcome = described(await client.ask(*arguments))

    return play


def client_ids(count: int) -> Play:
    """CLIENT LIST ID, the same number over and over."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        make = repeated(b"CLIENT LIST ID", b"%d" % await client.ask(b"CLIENT", b"ID"))
        yield

        async def attempt(number: int) -> str:
            return await client.outcome(make(number))

        stage.outcome = await climb(count, attempt)

    return play


def watching(count: int) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client, other = await stage.resp(), await stage.resp()
        await client.outcome(many(b"WATCH", count))
        await other.outcome(many(b"MSET", count, pairs=True))
        await client.ask(b"MULTI")
        yield
        stage.outcome = described(await client.ask(b"EXEC"))

    return play


def monitored(count: int) -> Play:
    """One wide command while somebody listens to all commands."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        watcher, client = await stage.resp(), await stage.resp()
        await watcher.ask(b"MONITOR")
        yield

        async def attempt(number: int) -> str:
            return await client.outcome(many(b"EXISTS", number))

        stage.outcome = await climb(count, attempt)

    return play


def expiring(count: int) -> Play:
    """Keys whose time is over together."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        end = b"%d" % ((time.time() + EXPIRING_SECONDS) * 1000)
        for first in range(0, count, CHUNK):
            data = b"".join(
                request(b"SET", b"k:%d" % n, b"v", b"PXAT", end)
                for n in range(first, min(first + CHUNK, count))
            )
            await client.send(data)
            for _ in range(min(CHUNK, count - first)):
                await client.reply()
        yield
        while (left := await client.ask(b"DBSIZE")) > count // 2:
            pass
        stage.outcome = f"{count - left:,} swept"

    return play


def case(
    name: str, sent: str, play: Play, *covers: str, quick: bool = False, shares: bool = False
) -> Case:
    return Case("resp", name, sent, play, frozenset(covers), is_quick=quick, shares=shares)


HALF = LIMITS.arguments // 2 - 1
MOST = LIMITS.arguments - 1
KEYS = 500_000
FEWER_KEYS = 40_000
"""Where all of them are too many."""
LISTINGS = {
    "KEYS *": (b"KEYS", b"*"),
    "KEYS of a class": (b"KEYS", b"*[ab][cd]*"),
    "SCAN": (b"SCAN", b"0", b"COUNT", b"1000000000"),
    "SCAN MATCH": (b"SCAN", b"0", b"MATCH", b"*[ab]*", b"COUNT", b"1000000000"),
}
CHANNELS = LIMITS.channels_per_session
PATTERNS = 50_000

CASES = [
    case(
        "MGET of many",
        f"{MOST:,} names that are not there",
        one(b"MGET", MOST),
        "mget",
        quick=True,
        shares=True,
    ),
    case("MGET of all keys", f"{KEYS:,} keys", over_keys(b"MGET", KEYS), "mget"),
    case(
        "MGET of one large value",
        "128 times a value of 16 MiB, not read",
        unread(b"MGET", *[b"k"] * 128, times=1, size=16 * MiB),
        "mget",
        quick=True,
    ),
    case(
        "GET of one large value",
        "20 times a value of 16 MiB, not read",
        unread(b"GET", b"k", times=20, size=16 * MiB),
        "get",
    ),
    case(
        "EXEC of large answers",
        "128 GETs of 16 MiB, not read",
        unread_exec(b"GET", b"k", times=128, size=16 * MiB),
        "exec",
    ),
    case("MSET", f"{HALF:,} pairs", one(b"MSET", HALF, pairs=True), "mset", quick=True),
    case("MSETNX", f"{HALF:,} pairs", one(b"MSETNX", HALF, pairs=True), "msetnx"),
    case("DEL of all keys", f"{KEYS:,} keys", over_keys(b"DEL", KEYS), "del"),
    case("UNLINK of all keys", f"{KEYS:,} keys", over_keys(b"UNLINK", KEYS), "unlink"),
    case("EXISTS of all keys", f"{KEYS:,} keys", over_keys(b"EXISTS", KEYS), "exists"),
    case("TOUCH of all keys", f"{KEYS:,} keys", over_keys(b"TOUCH", KEYS), "touch"),
    case("KEYS *", f"among {KEYS:,} keys", among_keys(KEYS, b"KEYS", b"*"), "keys", quick=True),
    case(
        "KEYS of a class", f"among {KEYS:,} keys", among_keys(KEYS, b"KEYS", b"*[ab][cd]*"), "keys"
    ),
    case(
        "KEYS, a long pattern",
        f"4,000 stars among {KEYS:,} keys",
        among_keys(KEYS, b"KEYS", b"*k" * 4000),
        "keys",
    ),
    case(
        "SCAN",
        f"COUNT 1,000,000,000 among {KEYS:,} keys",
        among_keys(KEYS, b"SCAN", b"0", b"COUNT", b"1000000000"),
        "scan",
    ),
    case(
        "SCAN MATCH",
        f"COUNT 1,000,000,000 among {KEYS:,} keys",
        among_keys(KEYS, b"SCAN", b"0", b"MATCH", b"*[ab]*", b"COUNT", b"1000000000"),
        "scan",
    ),
    *(
        case(f"{name}, fewer", f"among {FEWER_KEYS:,} keys", among_keys(FEWER_KEYS, *arguments))
        for name, arguments in LISTINGS.items()
    ),
    case(
        "MGET of two large values",
        "100 times 2 values of 16 MiB, not read",
        unread(b"MGET", b"k", b"k", times=100, size=16 * MiB - 100),
        "mget",
    ),
    case("FLUSHALL", f"{KEYS:,} keys", among_keys(KEYS, b"FLUSHALL"), "flushall", quick=True),
    case("FLUSHDB", f"{KEYS:,} keys", among_keys(KEYS, b"FLUSHDB"), "flushdb"),
    case("RANDOMKEY", f"among {KEYS:,} keys", among_keys(KEYS, b"RANDOMKEY"), "randomkey"),
    case("DBSIZE", f"among {KEYS:,} keys", among_keys(KEYS, b"DBSIZE"), "dbsize"),
    case("INFO", f"among {KEYS:,} keys", among_keys(KEYS, b"INFO", b"everything"), "info"),
    case("keys that expire", "200,000 at the same moment", expiring(200_000), "expire"),
    case(
        "APPEND",
        "one byte to a value that is as large as it can be made, 20 times",
        appending(240 * MiB, 20),
        "append",
        quick=True,
    ),
    case(
        "SUBSCRIBE",
        f"{MOST:,} channels in one command",
        one(b"SUBSCRIBE", MOST, replies=each),
        "subscribe",
        shares=True,
    ),
    case(
        "SUBSCRIBE, allowed",
        f"{CHANNELS:,} channels in one command",
        one(b"SUBSCRIBE", CHANNELS, replies=each),
        "subscribe",
        quick=True,
        shares=True,
    ),
    case(
        "SSUBSCRIBE",
        f"{CHANNELS:,} channels in one command",
        one(b"SSUBSCRIBE", CHANNELS, replies=each),
        "ssubscribe",
        shares=True,
    ),
    case(
        "PSUBSCRIBE",
        f"{CHANNELS:,} patterns in one command",
        one(b"PSUBSCRIBE", CHANNELS, at=b"p:%d:*", replies=each),
        "psubscribe",
        shares=True,
    ),
    case(
        "PSUBSCRIBE without keys",
        f"{PATTERNS:,} patterns in one command",
        one(b"PSUBSCRIBE", PATTERNS, at=keyless, replies=each),
        "psubscribe",
        quick=True,
        shares=True,
    ),
    case(
        "UNSUBSCRIBE of nothing",
        f"{MOST:,} names",
        one(b"UNSUBSCRIBE", MOST, replies=each),
        "unsubscribe",
        quick=True,
        shares=True,
    ),
    case(
        "UNSUBSCRIBE from all",
        f"{CHANNELS:,} channels",
        leaving(b"SUBSCRIBE", b"UNSUBSCRIBE", b"ch:%d", CHANNELS),
        "unsubscribe",
        shares=True,
    ),
    case(
        "PUNSUBSCRIBE from all",
        f"{CHANNELS:,} patterns",
        leaving(b"PSUBSCRIBE", b"PUNSUBSCRIBE", b"p:%d:*", CHANNELS),
        "punsubscribe",
        shares=True,
    ),
    case(
        "PUNSUBSCRIBE from all without keys",
        f"{PATTERNS:,} patterns",
        leaving(b"PSUBSCRIBE", b"PUNSUBSCRIBE", keyless, PATTERNS),
        "punsubscribe",
        shares=True,
    ),
    case(
        "SUNSUBSCRIBE from all",
        f"{CHANNELS:,} channels",
        leaving(b"SSUBSCRIBE", b"SUNSUBSCRIBE", b"ch:%d", CHANNELS),
        "sunsubscribe",
        shares=True,
    ),
    case(
        "RESET with channels",
        f"{CHANNELS:,} channels",
        leaving(b"SUBSCRIBE", b"RESET", b"ch:%d", CHANNELS),
        "reset",
        shares=True,
    ),
    case(
        "PUBLISH to a long channel",
        "16 MiB, 1 pattern without a key",
        publish_long(1),
        "publish",
        quick=True,
        shares=True,
    ),
    case(
        "PUBLISH to a long channel, 10",
        "16 MiB, 10 patterns without a key",
        publish_long(10),
        "publish",
        shares=True,
    ),
    case(
        "PUBLISH among patterns",
        f"the first after {CHANNELS:,} patterns with keys",
        among(b"PSUBSCRIBE", b"p:%d:*", CHANNELS, b"PUBLISH", b"p:1:x", b"x"),
        "publish",
        shares=True,
    ),
    case(
        "PUBLISH among patterns without keys",
        f"the first after {PATTERNS:,}",
        among(b"PSUBSCRIBE", keyless, PATTERNS, b"PUBLISH", b"acbd", b"x"),
        "publish",
        quick=True,
        shares=True,
    ),
    case(
        "PUBLISH in a row, new channels",
        f"500 in one write, {PATTERNS:,} patterns without keys",
        published(b"PSUBSCRIBE", keyless, PATTERNS, 500),
        "publish",
        shares=True,
    ),
    case(
        "PUBLISH in a row, one key",
        f"10,000 in one write, {CHANNELS:,} patterns",
        published(b"PSUBSCRIBE", b"new:*%d", CHANNELS, 10_000),
        "publish",
        shares=True,
    ),
    case(
        "SPUBLISH in a row",
        "10,000 in one write",
        published(b"SSUBSCRIBE", b"new:%d", 10_000, 10_000, b"SPUBLISH"),
        "spublish",
        shares=True,
    ),
    case(
        "EXEC of PUBLISH",
        f"{LIMITS.transaction_commands:,} commands",
        executed(b"PUBLISH", b"c", b"x", times=LIMITS.transaction_commands - 1),
        "exec",
        quick=True,
        shares=True,
    ),
    case(
        "EXEC of SET",
        f"{LIMITS.transaction_commands:,} commands",
        executed(b"SET", b"k", b"x", times=LIMITS.transaction_commands - 1),
        "exec",
        shares=True,
    ),
    case("EXEC of KEYS *", "1,000 commands, few keys", executed(b"KEYS", b"*", times=1000), "exec"),
    case(
        "EXEC of CONFIG GET *",
        "10,000 commands",
        executed(b"CONFIG", b"GET", b"*", times=10_000),
        "exec",
        shares=True,
    ),
    case(
        "EXEC of COMMAND",
        "10,000 commands",
        executed(b"COMMAND", times=10_000),
        "exec",
        shares=True,
    ),
    case(
        "DISCARD",
        f"{LIMITS.transaction_commands:,} commands",
        plain(
            lambda: request(b"MULTI") + request(b"SET", b"k", b"x") * 65_000 + request(b"DISCARD")
        ),
        "discard",
        shares=True,
    ),
    case(
        "WATCH",
        f"{LIMITS.watched_keys:,} keys that somebody changed",
        watching(LIMITS.watched_keys),
        "watch",
        "multi",
    ),
    case(
        "PUBSUB NUMSUB",
        f"{MOST - 1:,} names",
        as_many(repeated(b"PUBSUB NUMSUB", b"1"), MOST - 1),
        "pubsub|numsub",
        quick=True,
        shares=True,
    ),
    case(
        "PUBSUB CHANNELS",
        f"among {CHANNELS:,}",
        among(b"SUBSCRIBE", b"ch:%d", CHANNELS, b"PUBSUB", b"CHANNELS"),
        "pubsub|channels",
        shares=True,
    ),
    case(
        "PUBSUB CHANNELS by pattern",
        f"among {CHANNELS:,}",
        among(b"SUBSCRIBE", b"ch:%d", CHANNELS, b"PUBSUB", b"CHANNELS", b"*[ab][cd]*"),
        "pubsub|channels",
        shares=True,
    ),
    case(
        "PUBSUB SHARDCHANNELS",
        f"among {CHANNELS:,}",
        among(b"SSUBSCRIBE", b"ch:%d", CHANNELS, b"PUBSUB", b"SHARDCHANNELS", b"*[ab][cd]*"),
        "pubsub|shardchannels",
        shares=True,
    ),
    case(
        "PUBSUB NUMPAT",
        f"among {CHANNELS:,}",
        among(b"PSUBSCRIBE", b"ch:%d*", CHANNELS, b"PUBSUB", b"NUMPAT"),
        "pubsub|numpat",
        shares=True,
    ),
    case(
        "CONFIG GET",
        f"{MOST - 1:,} globs",
        as_many(repeated(b"CONFIG GET", b"*a"), MOST - 1),
        "config|get",
        quick=True,
        shares=True,
    ),
    case(
        "CONFIG GET, long globs",
        "1,000 globs of 8 KB",
        as_many(repeated(b"CONFIG GET", b"*a" * 4095), 1000),
        "config|get",
        shares=True,
    ),
    case(
        "COMMAND INFO",
        f"{MOST - 1:,} times the same",
        as_many(repeated(b"COMMAND INFO", b"get"), MOST - 1),
        "command|info",
        quick=True,
        shares=True,
    ),
    case(
        "COMMAND DOCS",
        f"{MOST - 1:,} times the same",
        as_many(repeated(b"COMMAND DOCS", b"get"), MOST - 1),
        "command|docs",
        shares=True,
    ),
    case(
        "COMMAND GETKEYS",
        f"{MOST - 3:,} keys",
        as_many(repeated(b"COMMAND GETKEYS MGET", b"k"), MOST - 2),
        "command|getkeys",
        shares=True,
    ),
    case(
        "CLIENT LIST ID",
        f"{MOST - 2:,} times the own number",
        client_ids(MOST - 2),
        "client|list",
        quick=True,
        shares=True,
    ),
    case("CLIENT LIST", "2,000 clients", with_clients(2000, b"CLIENT", b"LIST"), "client|list"),
    case(
        "CLIENT KILL",
        "2,000 clients at once",
        with_clients(2000, b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes"),
        "client|kill",
    ),
    case(
        "ACL LIST", "10,000 users with 10 rules", with_users(9_990, 10, b"ACL", b"LIST"), "acl|list"
    ),
    case("ACL USERS", "10,000 users", with_users(9_990, 1, b"ACL", b"USERS"), "acl|users"),
    case(
        "ACL GETUSER",
        "a user with 1,000 rules",
        with_users(1, 990, b"ACL", b"GETUSER", b"u0"),
        "acl|getuser",
    ),
    case(
        "ACL SETUSER",
        "100,000 rules",
        one(b"ACL SETUSER u", 100_000, at=b"~p%d"),
        "acl|setuser",
        shares=True,
    ),
    case(
        "ACL SETUSER, long rules",
        "900 patterns of 8 KB",
        plain(
            lambda: request(
                b"ACL", b"SETUSER", b"u", *(b"~" + b"*a" * 4000 + b"%d" % n for n in range(900))
            )
        ),
        "acl|setuser",
        shares=True,
    ),
    case(
        "ACL DELUSER",
        f"{MOST - 1:,} names",
        one(b"ACL DELUSER", MOST - 1),
        "acl|deluser",
        shares=True,
    ),
    case(
        "a user with many rules",
        "990 patterns without a key, MGET of 10,000 names of 200 bytes",
        ruled(990, keys=10_000),
        "mget",
        quick=True,
        shares=True,
    ),
    case(
        "MONITOR",
        f"EXISTS of {MOST:,} names while somebody listens",
        monitored(MOST),
        "monitor",
        shares=True,
    ),
    case(
        "a pipeline of PING",
        "500,000 in one write",
        pipeline(b"*1\r\n$4\r\nPING\r\n", 500_000),
        "ping",
        shares=True,
    ),
    case(
        "a pipeline of inline PING",
        "500,000 lines",
        pipeline(b"PING\r\n", 500_000),
        "ping",
        shares=True,
    ),
    case(
        "a pipeline of unknown commands",
        "100,000",
        pipeline(b"NOPE 1\r\n", 100_000),
        "ping",
        shares=True,
    ),
    case(
        "a pipeline of PUBLISH",
        "200,000 in one write, nobody listens",
        pipeline(request(b"PUBLISH", b"c", b"x"), 200_000),
        "publish",
        shares=True,
    ),
    case("a pipeline of INFO", "10,000", pipeline(request(b"INFO"), 10_000), "info", shares=True),
    case(
        "a pipeline of COMMAND",
        "1,000",
        pipeline(request(b"COMMAND"), 1000),
        "command",
        "command|list",
        shares=True,
    ),
    case(
        "a pipeline of SUBSCRIBE",
        "100,000 times the same",
        pipeline(request(b"SUBSCRIBE", b"c"), 100_000),
        "subscribe",
        shares=True,
    ),
    case(
        "more arguments than allowed",
        f"{LIMITS.arguments + 1:,}",
        plain(
            lambda: (
                b"*%d\r\n" % (LIMITS.arguments + 1) + b"$4\r\nMGET\r\n" + b"$1\r\n1\r\n" * 100_000
            )
        ),
        quick=True,
        shares=True,
    ),
    case(
        "an argument longer than allowed",
        f"{LIMITS.bulk_bytes + 1:,} bytes",
        plain(lambda: b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (LIMITS.bulk_bytes + 1) + b"x" * 100_000),
        shares=True,
    ),
    case(
        "a request longer than allowed",
        "5 arguments of 16 MiB",
        plain(
            lambda: (
                b"*6\r\n$4\r\nMGET\r\n"
                + (b"$%d\r\n" % LIMITS.bulk_bytes + b"x" * LIMITS.bulk_bytes + b"\r\n") * 5
            )
        ),
        shares=True,
    ),
    case("a long inline line", "1 MB without an end", plain(lambda: b"x" * 1_000_000), shares=True),
    case("an inline line of quotes", "64 KB", plain(lambda: b'"' * 65_000 + b"\r\n"), shares=True),
    case("nothing but line ends", "16 MB", pipeline(b"\r\n" * 1000, 8000, 0), shares=True),
    case("nothing but empty requests", "4 MB", pipeline(b"*0\r\n" * 1000, 1000, 0), shares=True),
]
