"""What a Redis client may send about streams, at its worst: groups with many entries pending, many
consumers, ranges, histories, and bodies out of which properties are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import hiredis

from headgate.core.model.limits import KiB, Limits
from tests.hold.case import Case, Play, Stage
from tests.hold.clients import RespClient, described, request
from tests.hold.resp import as_many, executed, pipeline

LIMITS = Limits()
CHUNK = 1000
PENDING = 60_000
GROUPS = 4
READERS = LIMITS.readers_per_app

Prepare = Callable[[RespClient], Awaitable[None]]


async def send(client: RespClient, requests: list[bytes]) -> list[object]:
    """In pieces, so that all are answered."""
    answers: list[object] = []
    for first in range(0, len(requests), CHUNK):
        some = requests[first : first + CHUNK]
        await client.send(b"".join(some))
        answers += [await client.reply() for _ in some]
    failed = next((each for each in answers if isinstance(each, hiredis.HiredisError)), None)
    assert failed is None, failed
    return answers


async def add(client: RespClient, count: int, key: bytes = b"jobs", size: int = 1) -> list[object]:
    body = b"v" * size
    return await send(client, [request(b"XADD", key, b"*", b"n", b"1", b"data", body)] * count)


def pending(count: int, groups: int = 1, consumers: int = 1) -> Prepare:
    """So many entries, given to consumers of each group."""

    async def prepare(client: RespClient) -> None:
        names = [b"g%d" % number for number in range(groups)]
        for name in names:
            await client.ask(b"XGROUP", b"CREATE", b"jobs", name, b"$", b"MKSTREAM")
        await add(client, count)
        each = min(LIMITS.pull_messages, max(1, count // consumers))
        for name in names:
            reads = [
                request(
                    b"XREADGROUP",
                    b"GROUP",
                    name,
                    b"c%d" % (number % consumers),
                    b"COUNT",
                    b"%d" % each,
                    b"STREAMS",
                    b"jobs",
                    b">",
                )
                for number in range(count // each)
            ]
            for read in reads:
                await send(client, [read])

    return prepare


def kept(count: int, size: int = 1) -> Prepare:
    async def prepare(client: RespClient) -> None:
        await add(client, count, b"kept", size)

    return prepare


def waiting(count: int, groups: int = 1) -> Prepare:
    async def prepare(client: RespClient) -> None:
        for number in range(groups):
            await client.ask(b"XGROUP", b"CREATE", b"jobs", b"g%d" % number, b"$", b"MKSTREAM")
        await add(client, count)

    return prepare


def readers(count: int, expression: bytes = b"") -> Prepare:
    async def prepare(client: RespClient) -> None:
        await client.ask(b"XGROUP", b"CREATE", b"jobs", b"g0", b"$", b"MKSTREAM")
        if expression:
            for number in range(count):
                await client.ask(
                    *b"XREADGROUP GROUP g0".split(),
                    b"c%d?where=" % number + expression % number,
                    *b"STREAMS jobs >".split(),
                )
            return
        make = [
            request(b"XGROUP", b"CREATECONSUMER", b"jobs", b"g0", b"c%d" % n) for n in range(count)
        ]
        await send(client, make)

    return prepare


def after(prepare: Prepare, *arguments: bytes) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await prepare(client)
        yield
        stage.outcome = described(await client.ask(*arguments))

    return play


def vanish(prepare: Prepare) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        await prepare(await stage.resp())
        yield

    return play


def unread(prepare: Prepare, times: int, *arguments: bytes) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await prepare(client)
        client.hold()
        yield
        await client.send(request(*arguments) * times)
        await stage.router.settle()
        stage.outcome = "not read"

    return play


def of_ids(prepare: Prepare, verb: list[bytes], count: int) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await prepare(client)
        found: list[bytes] = []
        start = b"-"
        while len(found) < count:
            page = await client.ask(b"XPENDING", b"jobs", b"g0", start, b"+", b"5000")
            if not page:
                break
            found += [each[0] for each in page]
            start = b"(" + found[-1]
        yield
        stage.outcome = described(await client.ask(*verb, *found[:count]))

    return play


def crowd(count: int, *arguments: bytes) -> Play:
    """So many that wait, and one entry."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        await client.ask(b"XGROUP", b"CREATE", b"jobs", b"g0", b"$", b"MKSTREAM")
        await add(client, 1, b"kept")
        others = [await stage.resp() for _ in range(count)]
        for n, other in enumerate(others):
            await other.send(request(*(a % n if b"%d" in a else a for a in arguments)))
        await stage.router.settle()
        yield
        await add(client, 1, arguments[-2])

    return play


def executed_after(prepare: Prepare, *arguments: bytes) -> Play:
    """MULTI, as many of a command as may be queued, EXEC."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await prepare(await stage.resp())
        steps = executed(*arguments, times=4000)(stage)
        await anext(steps)
        yield
        async for _ in steps:
            pass

    return play


def words(*arguments: bytes, unit: list[bytes]) -> Play:
    """As many options as a command may have."""
    return as_many(lambda n: request(*arguments, *(unit * n)), (LIMITS.arguments - 10) // len(unit))


JSON = b'{"a":[' + b",".join([b"[]"] * (80 * KiB)) + b"]}"
"""What is read slowest of all that is as long."""
EXPRESSION = b"+".join([b"x"] * 60) + b"==1"
LONG_KEY = b":" * (LIMITS.bulk_bytes - 10)
GIVEN = f"{PENDING:,} entries are pending"
GATHERED = f"{PENDING:,} entries are kept"
GROUP = (b"jobs", b"g0")
ALL = (b"-", b"+")
SWEEP = (b"0", b"COUNT", b"1000000")
READ = (b"XREADGROUP", b"GROUP", b"g0")
RANGE = (b"XRANGE", b"kept", *ALL)
WIDE = (b"XADD", b"kept", b"*", *(part for n in range(255) for part in (b"f%d" % n, b"1")))


def case(name: str, sent: str, play: Play, *covers: str) -> Case:
    return Case("resp", name, sent, play, frozenset(covers))


def of_jobs(name: str, *arguments: bytes, groups: int = 1, consumers: int = 1) -> Case:
    """One command while a group has many entries pending."""
    play = after(pending(PENDING, groups, consumers), *arguments)
    return case(name, f"{groups} groups, {GIVEN} in each", play)


def of_kept(name: str, *arguments: bytes) -> Case:
    return case(name, GATHERED, after(kept(PENDING), *arguments))


def of_readers(name: str, *arguments: bytes) -> Case:
    return case(name, f"{READERS:,} consumers", after(readers(READERS), *arguments))


CASES = [
    of_jobs("XLEN of groups", b"XLEN", b"jobs", groups=GROUPS),
    of_jobs("XINFO STREAM of groups", b"XINFO", b"STREAM", b"jobs", groups=GROUPS),
    of_jobs("XINFO GROUPS of groups", b"XINFO", b"GROUPS", b"jobs", groups=GROUPS),
    of_jobs("XINFO STREAM FULL", *b"XINFO STREAM jobs FULL COUNT 0".split(), consumers=100),
    of_jobs("XINFO STREAM FULL of 1,000", *b"XINFO STREAM jobs FULL COUNT 1000".split()),
    of_jobs("XPENDING", b"XPENDING", *GROUP, consumers=100),
    of_jobs("XPENDING of nobody", b"XPENDING", *GROUP, *ALL, b"10", b"nobody"),
    of_jobs("XPENDING of all", b"XPENDING", *GROUP, *ALL, b"1000000"),
    of_jobs("XPENDING of a page", b"XPENDING", *GROUP, *ALL, b"%d" % LIMITS.range_messages),
    of_jobs("XAUTOCLAIM of all", b"XAUTOCLAIM", *GROUP, b"other", b"0", *SWEEP),
    of_jobs("XAUTOCLAIM of ids", b"XAUTOCLAIM", *GROUP, b"other", b"0", *SWEEP, b"JUSTID"),
    of_jobs("XAUTOCLAIM of nothing", b"XAUTOCLAIM", *GROUP, b"other", b"1000000", *SWEEP),
    of_jobs("XREADGROUP of what is pending", *READ, b"c0", b"STREAMS", b"jobs", b"9999999999999-0"),
    of_jobs("XGROUP DELCONSUMER of all", b"XGROUP", b"DELCONSUMER", *GROUP, b"c0"),
    of_jobs("XGROUP DESTROY of all", b"XGROUP", b"DESTROY", *GROUP),
    of_jobs("XGROUP SETID to the start", b"XGROUP", b"SETID", *GROUP, b"0"),
    case("XCLAIM of ids", GIVEN, of_ids(pending(PENDING), [b"XCLAIM", *GROUP, b"c", b"0"], 8000)),
    case("XACK of ids", GIVEN, of_ids(pending(PENDING), [b"XACK", *GROUP], 8000)),
    case("XDEL of ids", GIVEN, of_ids(pending(PENDING, 2), [b"XDEL", b"jobs"], 8000)),
    case("EXEC of XLEN", GIVEN, executed_after(pending(PENDING, GROUPS), b"XLEN", b"jobs")),
    case("a consumer with much vanishes", GIVEN, vanish(pending(PENDING))),
    of_readers("XINFO CONSUMERS of many", b"XINFO", b"CONSUMERS", *GROUP),
    of_readers("XINFO STREAM FULL of consumers", b"XINFO", b"STREAM", b"jobs", b"FULL"),
    of_readers("XGROUP DESTROY of consumers", b"XGROUP", b"DESTROY", *GROUP),
    case("many consumers vanish", f"{READERS:,} consumers", vanish(readers(READERS))),
    case(
        "XGROUP SETID to the end",
        f"{PENDING:,} entries wait",
        after(waiting(PENDING), b"XGROUP", b"SETID", *GROUP, b"$"),
    ),
    case(
        "XREADGROUP with a new expression",
        f"{PENDING:,} entries wait",
        after(waiting(PENDING), *READ, b"c?where=n+1+1+1+1+1+1+1+1==3", b"STREAMS", b"jobs", b">"),
    ),
    case(
        "XREADGROUP NOACK",
        f"{PENDING:,} entries wait",
        after(waiting(PENDING), *READ, b"c0", b"NOACK", b"STREAMS", b"jobs", b">"),
    ),
    case(
        "XREADGROUP of new streams",
        "50",
        after(
            waiting(1),
            *b"XREADGROUP GROUP fixed c0 STREAMS".split(),
            *(b"fixed%d" % number for number in range(50)),
            *[b">"] * 50,
        ),
    ),
    of_kept("XGROUP CREATE from the start", *b"XGROUP CREATE kept g 0".split()),
    of_kept("XGROUP CREATE WHERE", *b"XGROUP CREATE kept g 0 WHERE n+1+1+1+1+1+1==3".split()),
    of_kept("XTRIM of all", *b"XTRIM kept MAXLEN 0".split()),
    of_kept("XADD MAXLEN", *b"XADD kept MAXLEN 0 * a b".split()),
    of_kept("XRANGE of a page", *RANGE, b"COUNT", b"%d" % LIMITS.range_messages),
    of_kept("XRANGE of all", *RANGE),
    of_kept("XREVRANGE of a page", *b"XREVRANGE kept + - COUNT 5000".split()),
    of_kept("XREAD of a page", *b"XREAD STREAMS kept 0".split()),
    case(
        "XREAD of 50 streams",
        "8 MB in each",
        after(kept(1000, 8000), b"XREAD", b"STREAMS", *[b"kept"] * 50, *[b"0"] * 50),
    ),
    case(
        "XINFO STREAM FULL of much",
        "256 MB",
        after(kept(4000, 64_000), *b"XINFO STREAM kept FULL COUNT 0".split()),
    ),
    case("XRANGE, not read", "1,000 of 32 MB", unread(kept(500, 64_000), 1000, *RANGE)),
    case("EXEC of XRANGE", "1,000 entries", executed_after(kept(1000), *RANGE)),
    case(
        "XREADGROUP of a crowd",
        "2,000 wait",
        crowd(2000, *READ, b"c%d", b"BLOCK", b"0", b"STREAMS", b"jobs", b">"),
    ),
    case("XREAD of a crowd", "2,000 wait", crowd(2000, *b"XREAD BLOCK 0 STREAMS kept $".split())),
    case("XADD of many fields", "255, 1,000 times", pipeline(request(*WIDE), 1000)),
    case("XADD in one write", "50,000", pipeline(request(*b"XADD kept * a b".split()), 50_000)),
    case(
        "XADD to a long name",
        "16 MiB",
        after(waiting(0), b"XADD", b"jobs" + LONG_KEY, b"*", b"a", b"b"),
    ),
    case(
        "XADD to a long name of a domain",
        "16 MiB",
        after(waiting(0), b"XADD", b"open/" + LONG_KEY, b"*", b"a", b"b"),
    ),
    case("XADD of JSON", "200", pipeline(request(b"XADD", b"body", b"*", b"data", JSON), 200)),
    case("EXEC of XADD of JSON", "200", executed(b"XADD", b"body", b"*", b"data", JSON, times=200)),
    case("PUBLISH of JSON", "200", pipeline(request(b"PUBLISH", b"feed.a", JSON), 200)),
    case("EXEC of PUBLISH of JSON", "200", executed(b"PUBLISH", b"feed.a", JSON, times=200)),
    case(
        "PUBLISH that makes queues",
        "5,000",
        pipeline(
            b"".join(request(b"PUBLISH", b"feed.%d" % n, b"{}") for n in range(5000)), 1, 5000
        ),
    ),
    case("XRANGE of options", "as many", words(*RANGE, unit=[b"COUNT", b"1"])),
    case("XREADGROUP of options", "as many", words(b"XREADGROUP", unit=[b"COUNT", b"1"])),
    case("XADD of options", "as many", words(b"XADD", b"kept", unit=[b"NOMKSTREAM"])),
    case(
        "XCLAIM of options",
        "as many",
        words(b"XCLAIM", *GROUP, b"c", b"0", b"1-1", unit=[b"IDLE", b"1"]),
    ),
    case(
        "a pipeline of HG.EXPR",
        "3,000 of 60 operators",
        pipeline(request(b"HG.EXPR", EXPRESSION, b"x", b"1", b"c", b"d"), 3000),
    ),
    case(
        "EXEC of HG.EXPR",
        "of 60 operators",
        executed(b"HG.EXPR", EXPRESSION, b"x", b"1", b"c", b"d", times=1000),
    ),
    case(
        "HG.EXPLAIN among expressions",
        "3,000",
        after(readers(3000, b"n+%d==3"), *b"HG.EXPLAIN jobs n 1 data x".split()),
    ),
    case(
        "XADD among expressions",
        "3,000",
        after(readers(3000, b"n+%d==3"), *b"XADD jobs * n 1 data x".split()),
    ),
    case(
        "EXEC of a script",
        "the lock's",
        executed(
            b"EVALSHA", b"c3f8721cbb97f72bc19e972846bd7aaf91901658", b"1", b"k", b"t", times=10_000
        ),
    ),
]
