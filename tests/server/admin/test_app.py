from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from headgate.core.commands import Interest, Open
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import PropertyValue
from headgate.core.model.window import Window
from headgate.errors import ConfigError
from headgate.expr.predicate import compile_expression
from headgate.server.admin import bodies, guard, http_server
from headgate.server.admin.app import PATHS, make_app
from headgate.server.admin.http_server import serving
from headgate.server.admin.sinks import SinkAdmin
from headgate.server.in_process import InProcessSession
from headgate.server.net.listener import bind
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

TOKEN = "open sesame"
STATUS: dict[str, object] = {
    "sessions": [{"session": n, "name": f"s{n % 3}", "age": None} for n in range(10)],
    "queues": {"rows": [{"queue": "q", "messages": 2}], "total": 1},
    "turns": {"count": 5},
}


def app(
    problems: Callable[[], list[str]] = list,
    status: Callable[[], Mapping[str, object]] = lambda: STATUS,
    explain: Callable[[str, Mapping[str, PropertyValue]], Mapping[str, object]] | None = None,
) -> ASGIApp:
    return make_app(
        problems=problems,
        status=status,
        metrics=lambda: b"x 1\n",
        rows=5,
        token=TOKEN,
        explain=explain,
    )


class Answer:
    def __init__(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)


async def get(
    app: ASGIApp,
    path: str,
    query: str = "",
    method: str = "GET",
    body: bytes = b"",
) -> Answer:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [
            (b"authorization", b"Bearer " + TOKEN.encode()),
            (b"content-type", b"application/json"),
        ],
        "client": None,
        "server": None,
    }
    await app(scope, receive, send)
    answered = b"".join(m.get("body", b"") for m in sent[1:])
    return Answer(sent[0]["status"], dict(sent[0]["headers"]), answered)


async def test_the_process_answers() -> None:
    answer = await get(app(), "/healthz")
    assert (answer.status, answer.json()) == (200, {"status": "ok"})


async def test_a_router_with_problems_is_not_ready() -> None:
    assert (await get(app(), "/readyz")).status == 200
    answer = await get(app(lambda: ["store: disk full"]), "/readyz")
    assert (answer.status, answer.json()) == (503, ["store: disk full"])


async def test_metrics_are_text() -> None:
    answer = await get(app(), "/metrics")
    assert answer.body == b"x 1\n"
    assert answer.headers[b"content-type"].startswith(b"text/plain; version=0.0.4")


async def test_an_unknown_path_names_the_known_ones() -> None:
    assert (await get(app(), "/")).json() == {"paths": [*PATHS, "/explain"]}
    answer = await get(app(), "/nope")
    assert answer.status == 404
    assert answer.json() == {
        "error": "no such path",
        "code": "no_such_path",
        "hint": "",
        "paths": [*PATHS, "/explain"],
    }


async def test_another_method_is_refused_in_json() -> None:
    answer = await get(app(), "/healthz", method="POST")
    assert answer.status == 405
    assert answer.json()["code"] == "method_not_allowed"


async def test_a_failure_inside_says_nothing_about_itself() -> None:
    def broken() -> dict[str, object]:
        raise RuntimeError("secret")

    listening = bind("admin", "127.0.0.1", 0)
    request = CLOSING.replace(b"/healthz", b"/status.json")
    async with serving(app(status=broken), listening):
        answer = await ask(listening.getsockname()[1], request)
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"the server failed to answer" in answer
    assert b"secret" not in answer


async def test_the_status_is_cut_to_a_page() -> None:
    first = (await get(app(), "/status.json")).json()
    assert [row["session"] for row in first["sessions"]] == [0, 1, 2, 3, 4]
    assert first["turns"] == {"count": 5}
    assert first["page"]["total"] == {"sessions": 10, "queues.rows": 1}
    second = (await get(app(), "/status.json", "limit=3&offset=8")).json()
    assert [row["session"] for row in second["sessions"]] == [8, 9]
    assert second["queues"] == {"rows": [], "total": 1}


async def test_the_status_is_sorted_by_a_field() -> None:
    answer = (await get(app(), "/status.json", "sort=-session&limit=2")).json()
    assert [row["session"] for row in answer["sessions"]] == [9, 8]
    answer = (await get(app(), "/status.json", "sort=name&limit=5")).json()
    assert [row["session"] for row in answer["sessions"]] == [0, 3, 6, 9, 1]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("limit=0", "limit is a whole number from 1 to 5"),
        ("limit=6", "limit is a whole number from 1 to 5"),
        ("limit=x", "limit is a whole number from 1 to 5"),
        ("limit=", "limit is a whole number from 1 to 5"),
        ("offset=-1", "offset is a whole number from 0 to 1000000000"),
        ("offset=99999999999999999999", "offset is a whole number from 0 to 1000000000"),
        ("limit=%D9%A3", "limit is a whole number from 1 to 5"),
        ("sort=", "sort is the name of a field, with a - in front for descending"),
        ("sort=nope", "no list can be sorted by that; by age, messages, name, queue, session"),
        ("order=1", "known parameters are limit, offset and sort"),
    ],
)
async def test_a_wrong_parameter_is_a_400(query: str, error: str) -> None:
    answer = await get(app(), "/status.json", query)
    assert (answer.status, answer.json()["error"]) == (400, error)


# Explanations.

LINE = Domain("line", Mode.EXCLUSIVE)
WORK = Domain("work", Mode.PRIORITY)
MANY = Domain("many", Mode.FANOUT, apps=("a", "b"), filters={"b": (compile_expression("y > 1"),)})


async def explanation(app: ASGIApp, question: object) -> Answer:
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    return await get(app, "/explain", method="POST", body=body)


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    domains = {domain.name: domain for domain in (LINE, WORK, MANY)}
    router = Router(store=MemoryStore(), domains=domains, limits=Limits(message_properties=3))
    await router.start()
    yield router
    await router.stop()


async def test_a_message_is_explained_with_the_names_of_sessions(router: Router) -> None:
    reader = InProcessSession(router, "reader")
    queue = QueueId(b"bmq://many/q")
    await reader.ask(Open, queue, "many", "a", interests=(Interest("x == 1", 5, Window(7)),))
    asked = {"queue": "bmq://many/q?id=a", "properties": {"x": 1, "s": "text"}}
    answer = await explanation(app(explain=router.explain), asked)
    assert answer.status == 200
    told = answer.json()
    assert (told["mode"], told["is_open"], told["refused"]) == ("fanout", True, None)
    a, b = told["apps"]
    assert a["outcome"] == "delivered"
    assert a["receivers"] == [{"session": reader.id, "name": "reader"}]
    [group] = a["groups"]
    assert group["answer"] == {
        "expression": "x == 1",
        "result": True,
        "missing": None,
        "reason": "true",
    }
    assert group["members"] == [
        {
            "session": reader.id,
            "name": "reader",
            "place": 0,
            "priority": 5,
            "active": True,
            "state": "open",
            "window": {"messages": 7, "bytes": None},
            "unconfirmed": 0,
            "unconfirmed_bytes": 0,
            "gets": True,
            "reason": "",
        }
    ]
    assert b["outcome"] == "auto-confirmed"
    assert b["filters"] == [
        {
            "expression": "y > 1",
            "result": "NAME",
            "missing": "y",
            "reason": "NAME: the message lacks y",
        }
    ]


async def test_each_type_of_property_can_be_asked_about() -> None:
    asked: list[tuple[str, Mapping[str, PropertyValue]]] = []

    def explain(queue: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, object]:
        asked.append((queue, properties))
        return {}

    values = {"b": True, "i": -5, "s": "é", "h": {"hex": "00FF"}}
    question = {"queue": "bmq://work/q", "properties": values}
    assert (await explanation(app(explain=explain), question)).status == 200
    assert (await explanation(app(explain=explain), {"queue": "bmq://work/q"})).status == 200
    assert asked == [
        ("bmq://work/q", {"b": True, "i": -5, "s": "é", "h": b"\0\xff"}),
        ("bmq://work/q", {}),
    ]
    assert asked[0][1]["b"] is True


A_VALUE = (
    "property 'x': a value is true or false, a whole number, a text, or bytes written as"
    ' {"hex": "00ff"}'
)


@pytest.mark.parametrize(
    ("question", "error"),
    [
        (b"{", "not a question: "),
        (b"", "not a question: "),
        (b'{"properties": {"x": ' + b"[" * 100_000, "not a question: "),
        (b'{"queue": "\xff"}', "not a question: "),
        ({"properties": {}}, "missing required field `queue`"),
        ({"queue": "bmq://work/q", "property": {}}, "unknown field `property`"),
        ({"queue": "bmq://work/q", "properties": [1]}, "Expected `object`, got `array`"),
        ({"queue": "work/q"}, "the address of a queue begins with bmq://"),
        ({"queue": "bmq://work"}, "the address names no queue"),
        ({"queue": "bmq://nope/q"}, "no domain nope has shared queues"),
        ({"queue": "bmq://nope/q"}, "; the router has many, work"),
        ({"queue": "bmq://line/q"}, "no domain line has shared queues"),
        ({"queue": "bmq://work/q", "properties": {"x": 2**63}}, "outside the signed 64-bit"),
        ({"queue": "bmq://work/q", "properties": dict.fromkeys("abcd", 1)}, "message_properties"),
        *(
            ({"queue": "bmq://work/q", "properties": {"x": wrong}}, A_VALUE)
            for wrong in (1.5, None, [1], {}, {"hex": 1}, {"hex": "0"}, {"hex": "00", "a": 1})
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_wrong_question_is_a_400(router: Router, question: object, error: str) -> None:
    answer = await explanation(app(explain=router.explain), question)
    assert answer.status == 400
    assert error in answer.json()["error"]


async def test_a_question_has_a_size(router: Router) -> None:
    asked = {"queue": "bmq://work/q", "properties": {"x": "a" * 600_000}}
    answer = await explanation(app(explain=router.explain), asked)
    assert (answer.status, answer.json()["error"]) == (
        413,
        "a body has at most 524288 bytes here",
    )


async def test_a_router_that_is_not_ready_explains_nothing(router: Router) -> None:
    starting = app(lambda: ["router: starting"], explain=router.explain)
    answer = await explanation(starting, {"queue": "bmq://work/q"})
    assert (answer.status, answer.json()["error"]) == (503, "router: starting")


async def test_questions_are_posted(router: Router) -> None:
    assert (await get(app(explain=router.explain), "/explain")).status == 405
    assert (await get(app(), "/explain")).status == 404


# The server.


def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    with bind("admin", "127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port}: Address"):
            bind("admin", "127.0.0.1", port)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".invalid", "1.2.3.4"])
def test_a_host_that_is_not_ours_is_said_in_one_line(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        bind("admin", host, 0)


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = b""
    with suppress(ConnectionResetError):
        answer = await reader.read()
    writer.close()
    return answer


CLOSING = (
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    b"authorization: Bearer open sesame\r\n\r\n"
)


async def test_the_server_has_no_banner() -> None:
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app(), listening):
        answer = await ask(listening.getsockname()[1], CLOSING)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"server:" not in answer


HELD = (
    b"PUT /sinks/s/0/0/1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n"
    b"content-type: application/vnd.headgate.rows\r\n"
)
KNOWN = b"authorization: Bearer open sesame\r\n"


async def held(port: int, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose client says this and no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    return reader, writer


async def first_lines(
    connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]], wanted: int
) -> list[bytes]:
    """What so many of the connections were told, whichever they are."""
    reading = [asyncio.create_task(reader.readline()) for reader, _ in connections]
    told: list[bytes] = []
    async with asyncio.timeout(30):
        for next_told in asyncio.as_completed(reading):
            with suppress(ConnectionResetError):
                told.append(await next_told)
            if len(told) >= wanted:
                break
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    return told


@pytest.mark.parametrize("is_known", [False, True])
async def test_silent_requests_leave_room_for_health(tmp_path: Path, is_known: bool) -> None:
    """Twice as many as there are connections, and none sends the body that it announced."""
    router = Router(store=MemoryStore(), domains={}, limits=Limits())
    desk = SinkAdmin(router, tmp_path)
    await router.start()
    guarded = make_app(problems=list, status=dict, metrics=bytes, rows=5, sinks=desk, token=TOKEN)
    listening = bind("admin", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    request = HELD + (KNOWN if is_known else b"") + b"\r\n"
    async with desk.opened(), serving(guarded, listening):
        open_ones = [await held(port, request) for _ in range(2 * http_server.CONNECTIONS)]
        refused = await first_lines(open_ones, http_server.CONNECTIONS - guard.WORKING)
        assert {line.split()[1] for line in refused if line} == {b"503" if is_known else b"401"}
        for path in (b"/healthz", b"/readyz"):
            answered = await ask(port, CLOSING.replace(b"/healthz", path).replace(KNOWN, b""))
            assert answered.startswith(b"HTTP/1.1 200")
        for _, writer in open_ones:
            writer.close()
    await router.stop()


async def test_silent_connections_make_room_for_newer_ones() -> None:
    listening = bind("admin", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with serving(app(), listening):
        silent = [await held(port, b"GET /") for _ in range(3 * http_server.CONNECTIONS)]
        for _ in range(3):
            assert (await ask(port, CLOSING)).startswith(b"HTTP/1.1 200")
        oldest, _ = silent[0]
        async with asyncio.timeout(30):
            with suppress(ConnectionResetError):
                assert await oldest.read() == b""
        for _, writer in silent:
            writer.close()


async def test_a_request_that_was_refused_does_not_keep_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "LINGER_SECONDS", 0.05)
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app(), listening), asyncio.timeout(30):
        reader, writer = await held(listening.getsockname()[1], HELD + b"\r\nabc")
        told = b""
        with suppress(ConnectionResetError):
            while data := await reader.read(1000):
                told += data
        assert told.startswith(b"HTTP/1.1 401")
        writer.close()


async def test_a_request_whose_body_comes_after_the_refusal_keeps_its_connection() -> None:
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app(), listening), asyncio.timeout(30):
        reader, writer = await held(listening.getsockname()[1], HELD + b"\r\nabc")
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
        writer.write(bytes(997) + CLOSING)
        assert b"HTTP/1.1 200" in await reader.read()
        writer.close()


async def test_a_question_whose_body_does_not_come_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.05)
    listening = bind("admin", "127.0.0.1", 0)
    question = HELD.replace(b"PUT /sinks/s/0/0/1", b"POST /explain").replace(
        b"vnd.headgate.rows", b"json"
    )
    async with serving(app(explain=lambda queue, properties: {}), listening), asyncio.timeout(30):
        reader, writer = await held(listening.getsockname()[1], question + KNOWN + b"\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_an_answer_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the kernel takes, asked for by somebody who knows the token."""
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.1)
    listening = bind("admin", "127.0.0.1", 0)
    large = {"text": "x" * 64_000_000}
    request = CLOSING.replace(b"/healthz", b"/status.json")
    async with serving(app(status=lambda: large), listening) as _, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listening.getsockname()[1], limit=1000
        )
        writer.write(request)
        await asyncio.sleep(1)
        read = 0
        with suppress(ConnectionResetError):
            while data := await reader.read(1_000_000):
                read += len(data)
        assert read < 64_000_000
        writer.close()


async def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.05)
    listening = bind("admin", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with serving(app(), listening):
        async with asyncio.timeout(20):
            assert await ask(port, b"") == b""
            assert await ask(port, b"GET /healthz HTTP/1.1\r\nhost:") == b""
            answered = await ask(port, CLOSING.replace(b"close", b"keep-alive"))
            assert answered.startswith(b"HTTP/1.1 200")


@settings(max_examples=20, deadline=None)
@given(st.binary(min_size=1, max_size=100))
def test_any_bytes_on_the_port_leave_the_server_working(data: bytes) -> None:
    async def scene() -> None:
        listening = bind("admin", "127.0.0.1", 0)
        port = listening.getsockname()[1]
        async with serving(app(), listening):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            await asyncio.sleep(0)
            writer.close()
            assert (await ask(port, CLOSING)).startswith(b"HTTP/1.1 200")

    asyncio.run(scene())


async def test_an_open_connection_does_not_hold_the_stop() -> None:
    """Or this would not end."""
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app(), listening) as task:
        _, writer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1])
        writer.write(b"GET /metrics HTTP/1.1\r\n")
        await asyncio.sleep(0.05)
    assert task.done()
    writer.close()
