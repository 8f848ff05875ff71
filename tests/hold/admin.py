"""What somebody may ask at the admin port, who knows its token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import msgspec

from headgate.core.model.limits import Limits, MiB
from headgate.server.admin.app import EXPLAIN_BYTES
from headgate.server.admin.sinks import COMMIT_BYTES
from headgate.server.admin.staging import FRAME
from headgate.wire.bmq.requests import READ
from tests.hold import bmq
from tests.hold.case import Case, Play, Stage
from tests.hold.clients import admin_request
from tests.support.bmq_raw import Wants

LIMITS = Limits()
QUEUES = LIMITS.opens_per_session
SORTS = ("queue", "-messages", "bytes", "domain")
AT_ONCE = 60
LACKING = " + ".join(f"p{number}" for number in range(18))
"""Most properties that fit into an expression, of which the first is missing."""


async def many_queues(stage: Stage) -> None:
    client = await stage.bmq()
    for first in range(0, QUEUES, 1000):
        await client.ask_all(*(bmq._open(n) for n in range(first, first + 1000)))


async def many_subscriptions(stage: Stage) -> None:
    client = await bmq.opened(stage)
    await bmq._as_many(client, 10_000, bmq.simple)


async def many_aside(stage: Stage) -> None:
    """Messages that lack what every one of many expressions asks for, and many names besides."""
    reader = await bmq.opened(stage, flags=READ)
    await bmq._as_many(reader, 1000, lambda number: f"{LACKING} == {number}")
    await bmq.fill(stage, 200, {"x": 1})
    await asyncio.sleep(2)  # until they were looked at


async def many_sessions(stage: Stage) -> None:
    for _ in range(2000):
        await stage.resp()


async def many_sinks(stage: Stage) -> None:
    for number in range(500):
        await stage.admin("PUT", f"/sinks/s{number}/1/0/0", b"")


async def nothing(stage: Stage) -> None:
    pass


def asked(
    method: str,
    path: str,
    body: Callable[[], bytes] = bytes,
    prepare: Callable[[Stage], object] = nothing,
    times: int = 1,
) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        await prepare(stage)  # type: ignore[misc]
        data = body()
        yield
        answers = await asyncio.gather(*(stage.admin(method, path, data) for _ in range(times)))
        stage.outcome = str(answers[-1])

    return play


def rows(count: int, size: int) -> bytes:
    """A staged body of so many messages."""
    some = [[b"%016d" % n, b"m" * size, {"x": n}] for n in range(count)]
    frame = msgspec.msgpack.encode(some)
    return FRAME.pack(len(frame)) + frame


def committed(count: int, size: int) -> Play:
    """A batch lands in a queue."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await stage.admin("PUT", "/sinks/s/1/0/0", rows(count, size))
        body = json.dumps({"parts": [[0, 0]], "queue": "bmq://work/q"}).encode()
        yield
        stage.outcome = str(await stage.admin("POST", "/sinks/s/1/commit", body))

    return play


def published(count: int) -> Play:
    """A batch goes to a channel that somebody hears."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        listener = await stage.resp()
        await listener.ask(b"SUBSCRIBE", b"c")
        await stage.admin("PUT", "/sinks/s/1/0/0", rows(count, 10))
        body = json.dumps({"parts": [[0, 0]], "channel": "c"}).encode()
        yield
        stage.outcome = str(await stage.admin("POST", "/sinks/s/1/commit", body))

    return play


def silent(count: int, request: bytes) -> Play:
    """Requests whose bodies do not come."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        yield
        for _ in range(count):
            _, writer = await asyncio.open_connection(*stage.router.address("admin"))
            stage.on_leaving(writer.transport.abort)
            writer.write(request)
        await asyncio.sleep(1)
        stage.outcome = "open"

    return play


def parts(count: int) -> bytes:
    return json.dumps({"parts": [[n, 0] for n in range(count)], "queue": "bmq://work/q"}).encode()


def question(size: int) -> bytes:
    return json.dumps({"queue": "bmq://work/q", "properties": {"x": "v" * size}}).encode()


def properties(count: int) -> bytes:
    return json.dumps(
        {"queue": "bmq://work/q", "properties": {f"p{n}": n for n in range(count)}}
    ).encode()


async def a_queue(stage: Stage) -> None:
    client = await bmq.opened(stage)
    await client.configure(Wants("x == 1"))


def case(
    name: str,
    sent: str,
    play: Play,
    *covers: str,
    quick: bool = False,
    shares: bool = False,
    crowd: bool = False,
) -> Case:
    return Case("admin", name, sent, play, frozenset(covers), crowd, is_quick=quick, shares=shares)


def expression(text: str) -> Callable[[], bytes]:
    asked = {"expression": text, "domain": "work", "queue": "bmq://work/q", "priority": 5}
    return lambda: json.dumps(asked).encode()


def sets(count: int) -> bytes:
    some = [{"expression": f"x == {n}", "priority": n} for n in range(count)]
    return json.dumps({"domain": "work", "before": some, "after": some}).encode()


async def many_patterns(stage: Stage) -> None:
    listener = await stage.resp()
    for first in range(0, 10_000, 1000):
        names = [b"pattern.%d.*" % n for n in range(first, first + 1000)]
        await listener.ask(b"PSUBSCRIBE", *names)
    for number in range(1000):
        await (await stage.resp()).ask(b"PUBLISH", b"pattern.%d.x" % number, b"m")
    await asyncio.sleep(2)  # until they are counted


API = "/api/v1"
QUEUE = f"{API}/domains/{{domain}}/queues/{{queue}}"
DEEP = "(" * 60 + "x == 1" + ")" * 60


def looked(
    path: str,
    sent: str,
    prepare: Callable[[Stage], object] = nothing,
    *,
    covers: str = "",
    quick: bool = False,
) -> Case:
    """A path of the API."""
    is_small = prepare is nothing
    play = asked("GET", f"{API}/{path}", prepare=prepare)
    name = covers or f"{API}/{path.partition('?')[0]}"
    return case(f"{API}/{path}", sent, play, name, shares=is_small, quick=quick)


def tried(
    path: str,
    sent: str,
    body: Callable[[], bytes],
    prepare: Callable[[Stage], object] = nothing,
) -> Case:
    """A question to the API."""
    play = asked("POST", f"{API}/{path}", body, prepare)
    shares = prepare is nothing
    return case(f"{API}/{path}, {sent}", sent, play, f"{API}/{path}", shares=shares)


DESK_CASES = [
    looked("sessions", "2,000 sessions", many_sessions, quick=True),
    looked("sessions?sort=subscriptions&q=127", "2,000 sessions", many_sessions),
    looked("sessions/1", "one", covers=f"{API}/sessions/{{session}}"),
    looked("series?span=86400", "all series"),
    looked("attention", "a look"),
    looked("domains", f"{QUEUES:,} queues", many_queues),
    looked("domains/work", f"{QUEUES:,} queues", many_queues, covers=f"{API}/domains/{{domain}}"),
    looked("domains/work/queues/q", "10,000 subscriptions", many_subscriptions, covers=QUEUE),
    looked(
        "domains/work/queues/q/aside?app=",
        "10,000 subscriptions",
        many_subscriptions,
        covers=f"{QUEUE}/aside",
    ),
    looked(
        "domains/work/queues/q/aside?app=&limit=100",
        "1,000 expressions that lack a property",
        many_aside,
        covers=f"{QUEUE}/aside",
    ),
    looked(
        "domains/work/queues?limit=100",
        f"{QUEUES:,} queues",
        many_queues,
        covers=f"{API}/domains/{{domain}}/queues",
    ),
    looked("domains/work/queues/q?", "1,000 expressions that lack one", many_aside, covers=QUEUE),
    looked("recent?queue=bmq://work/q&aside=&limit=100", "200 put aside", many_aside),
    looked("channels", "1,000 channels", many_patterns),
    looked("patterns?sort=matched", "10,000 patterns", many_patterns),
    looked("services", "none"),
    looked("queues/bmq://work/none", "none", covers=f"{API}/queues/{{name:path}}"),
    looked("queues/work/q", "200 messages", many_aside, covers=f"{API}/queues/{{name:path}}"),
    looked("recent?queue=bmq://work/q", "none"),
    looked("facts?limit=500", "all"),
    looked("settings", "all"),
    looked("journal", "a journal"),
    looked("pipeline", "none"),
    looked("audit", "none"),
    looked("me", "a look"),
    tried("expression", "deep", expression(DEEP)),
    tried("expression", "10,000 subscriptions", expression("x == 1"), many_subscriptions),
    case(
        f"{API}/expression, all at once",
        f"{AT_ONCE} of one viewer, 10,000 subscriptions",
        asked("POST", f"{API}/expression", expression("x == 1"), many_subscriptions, AT_ONCE),
        f"{API}/expression",
        crowd=True,
    ),
    tried("explain", "10,000 subscriptions", lambda: question(10), many_subscriptions),
    tried("expressions/compare", "two sets of 200", lambda: sets(200)),
    case("/logout", "nobody", asked("POST", "/logout", lambda: b"{}"), "/logout", shares=True),
]


SEGMENT = "/journal/segments/{name}"
STAGE = "/sinks/{sink}/{batch}/{partition}/{attempt}"
COMMIT = "/sinks/{sink}/{batch}/commit"
ABORT = "/sinks/{sink}/{batch}/abort"

CASES = [
    case(
        "/status.json",
        f"{QUEUES:,} queues",
        asked("GET", "/status.json", prepare=many_queues),
        "/status.json",
        quick=True,
    ),
    *(
        case(
            f"/status.json by {sort}",
            f"{QUEUES:,} queues",
            asked("GET", f"/status.json?sort={sort}", prepare=many_queues),
            "/status.json",
        )
        for sort in SORTS
    ),
    case(
        "/status.json, the last page",
        f"{QUEUES:,} queues",
        asked("GET", "/status.json?offset=9000", prepare=many_queues),
        "/status.json",
    ),
    case(
        "/status.json, sessions",
        "2,000 sessions",
        asked("GET", "/status.json?sort=-session", prepare=many_sessions),
        "/status.json",
    ),
    case(
        "/status.json, expressions",
        "10,000 subscriptions",
        asked("GET", "/status.json", prepare=many_subscriptions),
        "/status.json",
    ),
    case(
        "/status.json, all at once",
        f"{AT_ONCE} requests, {QUEUES:,} queues",
        asked("GET", "/status.json", prepare=many_queues, times=AT_ONCE),
        "/status.json",
        crowd=True,
    ),
    case(
        "/metrics", f"{QUEUES:,} queues", asked("GET", "/metrics", prepare=many_queues), "/metrics"
    ),
    case(
        "/healthz",
        f"{AT_ONCE} at once",
        asked("GET", "/healthz", times=AT_ONCE),
        "/healthz",
        crowd=True,
        shares=True,
    ),
    case("/readyz", f"{QUEUES:,} queues", asked("GET", "/readyz", prepare=many_queues), "/readyz"),
    case(
        "/explain",
        "10,000 subscriptions",
        asked("POST", "/explain", lambda: question(10), many_subscriptions),
        "/explain",
    ),
    case(
        "/explain, long",
        "a body of 500 KB",
        asked("POST", "/explain", lambda: question(500_000), a_queue),
        "/explain",
        shares=True,
    ),
    case(
        "/explain, many properties",
        "40,000",
        asked("POST", "/explain", lambda: properties(40_000), a_queue),
        "/explain",
        shares=True,
    ),
    case(
        "/explain, deep",
        f"{EXPLAIN_BYTES:,} bytes of brackets",
        asked("POST", "/explain", lambda: b"[" * EXPLAIN_BYTES, a_queue),
        "/explain",
        shares=True,
    ),
    case(
        "/journal/segments",
        "a journal",
        asked("GET", "/journal/segments"),
        "/journal/segments",
        shares=True,
    ),
    case(
        "a segment",
        "a name that is not there, 60 KB",
        asked("GET", "/journal/segments/" + "s" * 60_000),
        SEGMENT,
        shares=True,
    ),
    case(
        "/static",
        "the largest file",
        asked("GET", "/static/vendor/uPlot.iife.min.js"),
        "/static/{path:path}",
        shares=True,
    ),
    *DESK_CASES,
    case(
        f"{API}/live",
        "40 streams that nobody reads",
        silent(40, admin_request("GET", f"{API}/live")),
        f"{API}/live",
    ),
    case(
        f"{API}/tail",
        "10 streams that nobody reads",
        silent(10, admin_request("GET", f"{API}/tail")),
        f"{API}/tail",
    ),
    case("/sinks", "500 sinks", asked("GET", "/sinks?sort=sink", prepare=many_sinks), "/sinks"),
    case(
        "staging",
        "32 MiB",
        asked("PUT", "/sinks/s/1/0/0", lambda: rows(20_000, 1600)),
        STAGE,
        shares=True,
    ),
    case(
        "staging too much",
        "64 MiB",
        asked("PUT", "/sinks/t/1/0/0", lambda: bytes(64 * MiB)),
        STAGE,
        shares=True,
    ),
    case(
        "a batch for a queue",
        f"{LIMITS.sink_messages:,} messages",
        committed(LIMITS.sink_messages, 10),
        COMMIT,
    ),
    case("a large batch for a queue", "30 MiB", committed(2000, 15_000), COMMIT),
    case(
        "a batch for a channel",
        f"{LIMITS.sink_messages:,} messages",
        published(LIMITS.sink_messages),
        COMMIT,
    ),
    case(
        "a commit of many parts",
        f"{COMMIT_BYTES // MiB} MiB",
        asked("POST", "/sinks/s/2/commit", lambda: parts(350_000)),
        COMMIT,
        shares=True,
    ),
    case(
        "a commit that is too long",
        "64 MiB",
        asked("POST", "/sinks/s/2/commit", lambda: bytes(64 * MiB)),
        COMMIT,
        shares=True,
    ),
    case(
        "abort", "a batch that is not there", asked("POST", "/sinks/s/3/abort"), ABORT, shares=True
    ),
    case(
        "forgetting a sink",
        "500 sinks",
        asked("DELETE", "/sinks/s1", prepare=many_sinks),
        "/sinks/{sink}",
    ),
    case(
        "bodies that do not come",
        "64 PUTs",
        silent(64, admin_request("PUT", "/sinks/s/9/0/0", length=1000)),
        STAGE,
        crowd=True,
    ),
    case(
        "headers that do not end",
        "60 KB",
        silent(1, b"GET /metrics HTTP/1.1\r\nA: " + b"a" * 60_000),
    ),
    case(
        "the first page", "a question of 60 KB", asked("GET", "/?" + "a" * 60_000), "/", shares=True
    ),
    case(
        "/login",
        "a code of 60 KB",
        asked("GET", "/login?code=" + "a" * 60_000),
        "/login",
        shares=True,
    ),
    case(
        "a long question",
        "60 KB",
        asked("GET", "/healthz?" + "a" * 60_000),
        "/healthz",
        shares=True,
    ),
    case(
        "a pipeline",
        "2,000 requests in one write",
        silent(1, admin_request("GET", "/healthz").replace(b"close", b"keep-alive") * 2000),
        "/healthz",
    ),
]
