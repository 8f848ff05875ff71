from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message

from headgate.core.commands import Interest, Open
from headgate.core.domain import Domain, Mode
from headgate.core.gate import Window
from headgate.core.limits import Limits
from headgate.core.message import PropertyValue
from headgate.core.names import QueueId
from headgate.errors import ConfigError
from headgate.expr.predicate import compile_expression
from headgate.server import admin
from headgate.server.admin import PATHS, make_app, page, serving
from headgate.server.listener import bind
from headgate.server.local import LocalSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

STATUS: dict[str, object] = {
    "sessions": [{"session": n, "name": f"s{n % 3}", "age": None} for n in range(10)],
    "queues": {"rows": [{"queue": "q", "messages": 2}], "total": 1},
    "turns": {"count": 5},
}


def app(
    problems: Callable[[], list[str]] = list,
    status: Callable[[], Mapping[str, object]] = lambda: STATUS,
    token: str | None = None,
    explain: Callable[[str, Mapping[str, PropertyValue]], Mapping[str, object]] | None = None,
) -> ASGIApp:
    return make_app(
        problems=problems,
        status=status,
        metrics=lambda: b"x 1\n",
        rows=5,
        token=token,
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
    token: bytes | None = None,
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
        "headers": [] if token is None else [(b"authorization", token)],
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
    answer = await get(app(), "/")
    assert answer.status == 404
    assert answer.json() == {"error": "no such path", "paths": list(PATHS)}


async def test_another_method_is_refused_in_json() -> None:
    answer = await get(app(), "/healthz", method="POST")
    assert answer.status == 405
    assert answer.json() == {"error": "Method Not Allowed"}


async def test_a_failure_inside_says_nothing_about_itself() -> None:
    def broken() -> dict[str, object]:
        raise RuntimeError("secret")

    listening = bind("admin", "127.0.0.1", 0)
    request = CLOSING.replace(b"/healthz", b"/status.json")
    async with serving(app(status=broken), listening):
        answer = await ask(listening.getsockname()[1], request)
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"the router failed to answer" in answer
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
    assert (answer.status, answer.json()) == (400, {"error": error})


@given(
    st.dictionaries(
        st.sampled_from(["limit", "offset", "sort", "x"]),
        st.text(max_size=5) | st.integers(-2, 20).map(str) | st.sampled_from(["session", "-age"]),
    )
)
def test_any_parameters_are_a_page_or_a_400(query: dict[str, str]) -> None:
    """The limit status_rows: never more, whatever is asked for."""
    try:
        rows = page(STATUS, query, 5)["sessions"]
    except HTTPException as refusal:
        rows = [] if refusal.status_code == 400 else None
    assert isinstance(rows, list)
    assert len(rows) <= 5


async def test_a_token_is_needed_for_everything_but_health() -> None:
    guarded = app(token="open sesame")
    assert (await get(guarded, "/healthz")).status == 200
    for path in ("/readyz", "/metrics", "/status.json", "/nope"):
        for token in (None, b"", b"open sesame", b"Bearer open", b"Bearer \xff", b"Bearer "):
            answer = await get(guarded, path, token=token)
            assert answer.status == 401
            assert answer.headers[b"www-authenticate"] == b"Bearer"
    assert (await get(guarded, "/readyz", token=b"Bearer open sesame")).status == 200


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
    reader = LocalSession(router, "reader")
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
    assert (answer.status, answer.json()) == (
        413,
        {"error": "a body has at most 524288 bytes here"},
    )


async def test_a_router_that_is_not_ready_explains_nothing(router: Router) -> None:
    starting = app(lambda: ["router: starting"], explain=router.explain)
    answer = await explanation(starting, {"queue": "bmq://work/q"})
    assert (answer.status, answer.json()) == (503, {"error": "router: starting"})


async def test_questions_are_posted_and_need_the_token(router: Router) -> None:
    assert (await get(app(explain=router.explain), "/explain")).status == 405
    assert (await get(app(), "/explain")).status == 404
    guarded = app(token="open sesame", explain=router.explain)
    assert (await explanation(guarded, {"queue": "bmq://work/q"})).status == 401


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


CLOSING = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


async def test_the_server_has_no_banner() -> None:
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app(), listening):
        answer = await ask(listening.getsockname()[1], CLOSING)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"server:" not in answer


async def test_a_connection_too_many_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "CONNECTIONS", 2)
    listening = bind("admin", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with serving(app(), listening):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert await ask(port, CLOSING) == b""
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        await asyncio.sleep(0.05)
        assert (await ask(port, CLOSING)).startswith(b"HTTP/1.1 200")


async def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "IDLE_SECONDS", 0.05)
    listening = bind("admin", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with serving(app(), listening):
        async with asyncio.timeout(5):
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
    listening = bind("admin", "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    async with serving(app(), listening) as task:
        _, writer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1])
        writer.write(b"GET /metrics HTTP/1.1\r\n")
        await asyncio.sleep(0.05)
        before = loop.time()
    assert loop.time() - before < 2
    assert task.done()
    writer.close()
