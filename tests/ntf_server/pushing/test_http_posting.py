"""Posting to push services that answer, and to endpoints that do anything else."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate.errors import ConfigError
from headgate.notify.endpoints import ANSWER_BYTES_MAX
from headgate.ntf_server.pushing.http_posting import (
    HttpAnswer,
    HttpPosting,
    NoAnswer,
    Posted,
    Target,
    client_context,
)
from headgate.ntf_server.pushing.names import Names
from tests.support.http_services import Certificate, Handle, serving_app, serving_streams
from tests.support.ntf_notifiers import until
from tests.support.ntf_pushes import when
from tests.support.push_services import PushServiceBase

GIGABYTES_10 = 10 * 1024**3


class TakingService(PushServiceBase):
    """Takes whatever it is sent."""

    def take(self, request: Request, body: bytes) -> Response:
        return Response(body, 201, headers={"Retry-After": "7"})


@dataclass
class PostScene:
    """A poster, and services that it may post to."""

    certificate: Certificate
    stack: AsyncExitStack
    addresses: dict[str, list[str]] = field(default_factory=lambda: {"localhost": ["127.0.0.1"]})
    looked_up: list[str] = field(default_factory=list)

    def posting(
        self,
        seconds: float = 30.0,
        *,
        private: frozenset[str] = frozenset({"localhost"}),
        hosts_max: int = 200,
        idle_seconds: float = 60.0,
    ) -> HttpPosting:
        made = HttpPosting(
            Names(private.__contains__, self.look_up),
            client_context(self.certificate.certificate),
            seconds=seconds,
            hosts_max=hosts_max,
            idle_seconds=idle_seconds,
        )
        self.stack.push_async_callback(made.close)
        return made

    def look_up(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return self.addresses[host]

    async def service(self, *protocols: str) -> tuple[TakingService, int]:
        service = TakingService()
        chosen = protocols or ("h2", "http/1.1")
        port = await self.stack.enter_async_context(
            serving_app(service.app, self.certificate, chosen)
        )
        return service, port

    async def streams(self, handle: Handle, *protocols: str, tls: bool = True) -> int:
        context = self.certificate.server_context(*protocols) if tls else None
        return await self.stack.enter_async_context(serving_streams(handle, context))


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PostScene]:
    certificate = await asyncio.to_thread(Certificate.make, tmp_path / "tls")
    async with AsyncExitStack() as stack:
        yield PostScene(certificate, stack)


async def post(posting: HttpPosting, port: int, host: str = "localhost") -> Posted:
    return await posting.post(Target(host, port, "/a?b=c"), {"TTL": "1"}, b"body")


@pytest.mark.parametrize(("protocol", "version"), [("h2", "2"), ("http/1.1", "1.1")])
async def test_what_is_posted_is_answered(scene: PostScene, protocol: str, version: str) -> None:
    """The name is that of the endpoint, the connection goes to an address, and one is enough."""
    service, port = await scene.service(protocol)
    posting = scene.posting()
    for _ in range(3):
        assert await post(posting, port) == HttpAnswer(201, "7", b"body")
    request = service.requests[0]
    assert request.scope["http_version"] == version
    assert request.headers["host"] == f"localhost:{port}"
    assert (request.url.path, request.url.query) == ("/a", "b=c")
    assert request.headers["ttl"] == "1"
    assert len({request.client for request in service.requests}) == 1
    assert scene.looked_up == ["localhost"]


async def test_many_at_once_share_connections(scene: PostScene) -> None:
    service, port = await scene.service()
    posting = scene.posting()
    answers = await asyncio.gather(*(post(posting, port) for _ in range(50)))
    assert answers == [HttpAnswer(201, "7", b"body")] * 50
    assert len({request.client for request in service.requests}) <= 4


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(scene: PostScene, status: int) -> None:
    service, port = await scene.service()
    elsewhere, other = await scene.service()
    service.answers = [
        Response(status_code=status, headers={"Location": f"https://localhost:{other}/"})
    ]
    assert await post(scene.posting(), port) == HttpAnswer(status, None, b"")
    assert elsewhere.requests == []


async def test_an_answer_without_end_is_not_read(scene: PostScene) -> None:
    """What is sent stays behind; whoever posts next is answered."""
    service, port = await scene.service("h2")
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < GIGABYTES_10:
            yield bytes(64 * 1024)
            sent += 64 * 1024

    service.answers = [StreamingResponse(endless())]
    posting = scene.posting()
    assert await post(posting, port) == NoAnswer("an answer of more than 65536 bytes")
    assert await post(posting, port) == HttpAnswer(201, "7", b"body")
    assert sent < GIGABYTES_10


async def test_an_answer_without_end_is_not_read_without_http2(scene: PostScene) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"body")
        writer.write(f"HTTP/1.1 201 Created\r\nContent-Length: {GIGABYTES_10}\r\n\r\n".encode())
        while sent < GIGABYTES_10:
            writer.write(bytes(64 * 1024))
            await writer.drain()
            sent += 64 * 1024

    port = await scene.streams(endless, "http/1.1")
    answer = await post(scene.posting(), port)
    assert answer == NoAnswer("an answer of more than 65536 bytes")
    assert sent < GIGABYTES_10


async def test_an_answer_is_read_up_to_its_limit(scene: PostScene) -> None:
    service, port = await scene.service()
    posting = scene.posting()
    longest = bytes(ANSWER_BYTES_MAX)
    service.answers = [Response(longest), Response(longest + b"\0")]
    assert await post(posting, port) == HttpAnswer(200, None, longest)
    assert await post(posting, port) == NoAnswer("an answer of more than 65536 bytes")


async def test_a_packed_answer_is_not_unpacked(scene: PostScene) -> None:
    service, port = await scene.service()
    packed = gzip.compress(bytes(10_000_000))
    service.answers = [Response(packed, headers={"Content-Encoding": "gzip"})]
    assert await post(scene.posting(), port) == HttpAnswer(200, None, packed)


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte at a time of headers that never end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"A: b\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("tls", [False, True])
async def test_an_endpoint_that_hangs_is_left(scene: PostScene, tls: bool) -> None:
    """Before and after TLS."""
    port = await scene.streams(hang, tls=tls)
    assert await post(scene.posting(0.5), port) in (
        NoAnswer("no answer within 0.5 seconds"),
        NoAnswer("no connection: ConnectTimeout"),
    )


async def test_an_endpoint_that_never_ends_its_headers_is_left(scene: PostScene) -> None:
    port = await scene.streams(babble, "http/1.1")
    answer = await post(scene.posting(0.5), port)
    assert isinstance(answer, NoAnswer)


H2_SETTINGS = bytes.fromhex("000000040000000000")
H2_ANSWER = bytes.fromhex("00000101040000000188")
"""The headers of an answer with status 200, whose body follows."""


@pytest.mark.parametrize(
    ("protocol", "answer"),
    [
        ("http/1.1", b"no HTTP at all\r\n\r\n"),
        ("http/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: no number\r\n\r\n"),
        ("h2", b"no frames, but enough bytes for one" * 10),
        ("h2", H2_SETTINGS + bytes.fromhex("000001010400000001ff")),
        ("h2", H2_SETTINGS + H2_ANSWER + bytes.fromhex("ffffff000000000001")),
        ("h2", H2_SETTINGS + H2_ANSWER + bytes.fromhex("00000403000000000100000002")),
        ("h2", H2_SETTINGS + bytes.fromhex("0000080700000000000000000000000000")),
    ],
)
async def test_an_endpoint_that_breaks_the_protocol_gives_no_answer(
    scene: PostScene, protocol: str, answer: bytes
) -> None:
    """Before the answer and in the middle of it."""

    async def break_protocol(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        await reader.read()

    port = await scene.streams(break_protocol, protocol)
    # Some of it reads like the beginning of something that never comes.
    assert isinstance(await post(scene.posting(2.0), port), NoAnswer)


async def test_one_hanging_answer_disturbs_no_other(scene: PostScene) -> None:
    """Whoever gives up leaves those of the same connection alone, and the next one has another."""
    service, port = await scene.service("h2")
    go = asyncio.Event()

    async def wait() -> AsyncIterator[bytes]:
        await go.wait()
        yield b"late"

    posting = scene.posting()
    assert await post(posting, port) == HttpAnswer(201, "7", b"body")
    service.answers = [StreamingResponse(wait()) for _ in range(2)]
    given_up, patient = (asyncio.create_task(post(posting, port)) for _ in range(2))
    await until(when(lambda: len(service.requests) == 3))
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert await post(posting, port) == HttpAnswer(201, "7", b"body")
    go.set()
    assert await patient == HttpAnswer(200, None, b"late")
    first, *_, last = [request.client for request in service.requests]
    assert {request.client for request in service.requests[:3]} == {first}
    assert last != first


async def test_a_reset_is_tried_once_more(scene: PostScene) -> None:
    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reset(reader, writer)

    port = await scene.streams(count, "http/1.1")
    answer = await post(scene.posting(), port)
    assert isinstance(answer, NoAnswer)
    assert answer.text.startswith("no connection")
    assert connections == 2


async def test_a_connection_that_was_closed_is_replaced(scene: PostScene) -> None:
    """A push service that went away while nobody posted: the next push gets through."""
    posting = scene.posting()
    ended: list[asyncio.StreamWriter] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"body")
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        ended.append(writer)
        await reader.readuntil(b"body")

    port = await scene.streams(answer_once, "http/1.1")
    for count in (1, 2, 3):
        assert await post(posting, port) == HttpAnswer(201, None, b"")
        assert len(ended) == count


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::1"],
        ["fe80::1%lo"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["93.184.216.34", "127.0.0.1"],
    ],
)
async def test_no_private_address_is_connected_to(scene: PostScene, addresses: list[str]) -> None:
    """One address that is not public is enough, and nobody is connected to."""
    service, port = await scene.service()
    scene.addresses["push.example"] = addresses
    answer = await post(scene.posting(), port, "push.example")
    assert answer == NoAnswer("an endpoint in a network that is not public")
    assert service.requests == []


async def test_a_name_is_looked_up_once_for_a_connection(scene: PostScene) -> None:
    """What was judged is what is connected to, whatever the name has become since."""
    service, port = await scene.service()
    posting = scene.posting()
    for address in ("127.0.0.1", "127.0.0.9", "10.0.0.1"):
        scene.addresses["localhost"] = [address]
        assert await post(posting, port) == HttpAnswer(201, "7", b"body")
    assert scene.looked_up == ["localhost"]
    assert len({request.client for request in service.requests}) == 1


async def test_a_certificate_of_another_name_is_refused(scene: PostScene) -> None:
    """The name of the endpoint is checked, although an address is connected to: also where there is
    a connection with the same address for another name."""
    service, port = await scene.service()
    scene.addresses |= {"other.example": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"]}
    posting = scene.posting(private=frozenset(scene.addresses))
    assert await post(posting, port) == HttpAnswer(201, "7", b"body")
    assert await post(posting, port, "other.example") == NoAnswer("no connection: ConnectError")
    assert await post(posting, port, "127.0.0.1") == HttpAnswer(201, "7", b"body")
    assert len(service.requests) == 2


async def test_an_authority_that_is_not_trusted_is_refused(scene: PostScene) -> None:
    _, port = await scene.service()
    posting = HttpPosting(Names(lambda host: True, scene.look_up), client_context())
    scene.stack.push_async_callback(posting.close)
    assert await post(posting, port) == NoAnswer("no connection: ConnectError")


async def test_the_next_address_is_tried(scene: PostScene) -> None:
    """127.0.0.2 has nobody who listens there; what works is remembered."""
    service, port = await scene.service()
    scene.addresses["localhost"] = ["127.0.0.2", "127.0.0.1"]
    posting = scene.posting()
    for _ in range(2):
        assert await post(posting, port) == HttpAnswer(201, "7", b"body")
    assert scene.looked_up == ["localhost"]
    assert len(service.requests) == 2


async def test_nobody_there(scene: PostScene) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    posting = scene.posting()
    assert await post(posting, port) == NoAnswer("no connection: ConnectError")
    assert await post(posting, port, "nobody.example") == NoAnswer("no connection: gaierror")
    assert len(posting) == 0


async def test_hosts_are_bounded(scene: PostScene) -> None:
    """A flood of names costs no more connections than this; those left longest go."""
    ports = [(await scene.service())[1] for _ in range(3)]
    posting = scene.posting(hosts_max=2)
    for port in ports * 2:
        assert await post(posting, port) == HttpAnswer(201, "7", b"body")
        assert len(posting) <= 2


async def test_idle_connections_are_left(scene: PostScene) -> None:
    service, port = await scene.service()
    posting = scene.posting(idle_seconds=0.0)
    for _ in range(2):
        assert await post(posting, port) == HttpAnswer(201, "7", b"body")
        assert len(posting) == 0
    assert len({request.client for request in service.requests}) == 2


def test_authorities_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        client_context(tmp_path / "missing.pem")
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(ConfigError, match="no certificates"):
        client_context(tmp_path / "empty.pem")
