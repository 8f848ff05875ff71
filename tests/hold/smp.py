"""What a SimpleX client may send: blocks, each full of one command."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

from headgate.client.smp.recipient import Kind, Queue, Request, make_key, spki
from headgate.client.smp.service import make_service
from headgate.client.smp.tls import tls_context
from headgate.core.model.limits import Limits
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import BLOCK, pack
from headgate.wire.smp.codec.replies import Err, Reply
from headgate.wire.smp.codec.sealed import body_max
from headgate.wire.smp.handshake import Role
from tests.hold.case import Case, Play, Stage
from tests.hold.clients import fingerprint_of

LIMITS = Limits()
TAGS = frozenset(tag.decode() for tag in (*c.BARE, *c.PARAMETERS))
BATCH = 135
BLOCKS = 30
"""Blocks in one write: some 4,000 commands, as many as a turn takes."""
KINDS: tuple[Kind, ...] = ("ed25519", "ed448", "x25519")
ANSWER_SECONDS = 120.0


async def make_queues(
    client: SmpClient, count: int, kind: Kind = "ed25519", *, subscribe: bool = False
) -> list[Queue]:
    queues: list[Queue] = []
    while len(queues) < count:
        some = min(BATCH, count - len(queues))
        queues += await asyncio.gather(
            *(client.new_queue(kind, subscribe=subscribe) for _ in range(some))
        )
    return queues


async def write(client: SmpClient, requests: list[Request]) -> int:
    """All of them in as few blocks as they need, in one write; how many blocks."""
    payloads = pack([client.encode(request) for request in requests])
    await client.send_raw(b"".join(map(client.seal, payloads)))
    return len(payloads)


async def answers(client: SmpClient, count: int) -> str:
    """As many answers as were asked for, or fewer if the router closes; the last one."""
    last: Reply | None = None
    with suppress(TimeoutError):
        for _ in range(count):
            _, last = await client.event(ANSWER_SECONDS)
    return told(last)


def told(reply: Reply | None) -> str:
    """Without what is drawn anew each time."""
    if isinstance(reply, Err):
        return f"refused: {reply.text}"
    return "nothing" if reply is None else reply.tag.decode()


def blocks(
    make: Callable[[Queue, int], Request], kind: Kind = "ed25519", count: int = BATCH * BLOCKS
) -> Play:
    """The same command for as many queues as fit into a block, over and over."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        owner, client = await stage.smp(), await stage.smp()
        queues = await make_queues(owner, BATCH, kind)
        requests = [make(queues[n % BATCH], n) for n in range(count)]
        transmissions = pack([client.encode(request) for request in requests])
        data = b"".join(map(client.seal, transmissions))
        yield
        await client.send_raw(data)
        stage.outcome = await answers(client, count)

    return play


def _key(kind: Kind = "ed25519") -> bytes:
    return spki(make_key(kind))


KEY = _key()
DH = _key("x25519")
RANDOM = secrets.token_bytes(24)

COMMANDS: dict[bytes, Callable[[Queue, int], Request]] = {
    b"SUB": lambda q, n: q.asks(c.Sub()),
    b"GET": lambda q, n: q.asks(c.SmpGet()),
    b"QUE": lambda q, n: q.asks(c.Que()),
    b"OFF": lambda q, n: q.asks(c.Off()),
    b"DEL": lambda q, n: q.asks(c.Del()),
    b"NDEL": lambda q, n: q.asks(c.NDel()),
    b"LDEL": lambda q, n: q.asks(c.LDel()),
    b"LGET": lambda q, n: Request(c.LGet(), secrets.token_bytes(24)),
    b"NSUB": lambda q, n: Request(c.NSub(), secrets.token_bytes(24), q.key),
    b"PING": lambda q, n: Request(c.Ping()),
    b"SUBS": lambda q, n: Request(c.Subs(Tally(1, 0)), q.id, q.key),
    b"NSUBS": lambda q, n: Request(c.NSubs(Tally(1, 0)), q.id, q.key),
    b"KEY": lambda q, n: q.asks(c.Key(KEY)),
    b"SKEY": lambda q, n: Request(c.SKey(KEY), q.sender, q.key),
    b"RKEY": lambda q, n: q.asks(c.RKey((spki(q.key),))),
    b"LSET": lambda q, n: q.asks(c.LSet(secrets.token_bytes(24), b"f" * 100, b"u" * 100)),
    b"LKEY": lambda q, n: Request(c.LKey(KEY), secrets.token_bytes(24), q.key),
    b"NKEY": lambda q, n: q.asks(c.NKey(KEY, DH)),
    b"ACK": lambda q, n: q.asks(c.SmpAck(RANDOM)),
    b"SEND": lambda q, n: Request(c.SmpSend(False, b"m"), q.sender),
    b"NEW": lambda q, n: Request(c.New(spki(q.key), DH, None, True), key=q.key),
    b"PRXY": lambda q, n: Request(c.Prxy((b"localhost",), b"5223", RANDOM)),
    b"PFWD": lambda q, n: Request(c.PFwd(19, DH, b"sealed"), RANDOM),
    b"RFWD": lambda q, n: Request(c.RFwd(b"sealed")),
    b"RSLV": lambda q, n: Request(c.Rslv(b"example")),
}
"""A request of each command. What needs an entity of another kind than a queue is refused."""


def general() -> Iterator[Case]:
    for tag, make in COMMANDS.items():
        name = tag.decode()
        yield Case(
            "smp",
            f"blocks of {name}",
            f"{BATCH * BLOCKS:,} in one write",
            blocks(make),
            frozenset((name,)),
            is_general=True,
            shares=True,
            is_quick=name == "SUB",
        )


def with_keys(kind: Kind) -> Play:
    """Each command is checked with one of the slower keys."""
    return blocks(COMMANDS[b"SUB"], kind)


def many_keys(kind: Kind) -> Play:
    """A queue with as many keys as a block holds, and commands that none of them signed."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.smp()
        queue = await client.new_queue(kind, purpose=Purpose.CONTACT)
        size = len(spki(queue.key)) + 1
        keys = tuple(_key(kind) for _ in range(min(255, 15_000 // size)))
        (said,) = await client.ask(queue.asks(c.RKey(keys)))
        stranger = make_key(kind)
        requests = [Request(c.Sub(), queue.id, stranger) for _ in range(BATCH * 4)]
        yield
        await write(client, requests)
        stage.outcome = f"{told(said)}, then {await answers(client, len(requests))}"

    return play


def new_queues(count: int, kind: Kind) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.smp()
        key = make_key(kind)
        requests = [Request(c.New(spki(key), DH, None, True), key=key) for _ in range(count)]
        data = b"".join(map(client.seal, pack([client.encode(r) for r in requests])))
        yield
        await client.send_raw(data)
        stage.outcome = await answers(client, count)

    return play


def bodies(count: int) -> Play:
    """As many bytes as a block can carry, in each block."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        owner, client = await stage.smp(), await stage.smp()
        queues = await make_queues(owner, 16)
        body = b"m" * body_max(client.version)
        requests = [Request(c.SmpSend(True, body), queues[n % 16].sender) for n in range(count)]
        data = b"".join(map(client.seal, pack([client.encode(r) for r in requests])))
        yield
        await client.send_raw(data)
        stage.outcome = await answers(client, count)

    return play


def unread(count: int) -> Play:
    """Many requests with long answers that nobody reads."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.smp()
        queues = await make_queues(client, 16)
        body = b"m" * body_max(client.version)
        for queue in queues:
            await client.send(queue, body)
        requests = [queues[n % 16].asks(c.SmpGet()) for n in range(count)]
        client.hold()
        yield
        data = b"".join(map(client.seal, pack([client.encode(r) for r in requests])))
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await client.send_raw(data)
        await stage.router.settle()
        stage.outcome = "not read"

    return play


def subscribed(count: int) -> Play:
    """A session that subscribes to so many queues vanishes; another takes them first."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        owner, other = await stage.smp(), await stage.smp()
        queues = await make_queues(owner, count, subscribe=True)
        yield
        await write(other, [queue.asks(c.Sub()) for queue in queues])
        stage.outcome = await answers(other, count)

    return play


def served(count: int) -> Play:
    """SUBS of a service with so many queues."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        router, service = stage.router, make_service(time.time())
        fingerprint = fingerprint_of(router.places["smp"]["fingerprint"])

        async def connect() -> SmpClient:
            client = await SmpClient.connect(
                *router.address("smp"), fingerprint, service=service, role=Role.MESSAGING
            )
            stage.on_leaving(client.close)
            return client

        owner = await connect()
        await make_queues(owner, count, subscribe=True)
        owner.close()
        client = await connect()
        yield
        (said,) = await client.ask(Request(c.Subs(Tally(count, 0)), client.service_id or b""))
        await router.settle()
        stage.outcome = told(said)

    return play


def garbage(count: int) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.smp()
        data = secrets.token_bytes(BLOCK) * count
        yield
        await client.send_raw(data)
        stage.outcome = await answers(client, count)

    return play


def empty_transmissions(count: int) -> Play:
    """Blocks that are sealed well and hold as many transmissions as they can, all wrong."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.smp()
        payload = bytes((255,)) + (b"\0\1\0") * 255
        data = b"".join(client.seal(payload) for _ in range(count))
        yield
        await client.send_raw(data)
        stage.outcome = await answers(client, count * 255)

    return play


def handshakes(count: int, data: bytes, *, tls: bool) -> Play:
    """Connections that say this instead of what they should, one after another."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        place = stage.router.address("smp")
        context = tls_context() if tls else None
        yield
        closed = 0
        for first in range(0, count, 20):
            closed += sum(
                await asyncio.gather(
                    *(_spoil(place, context, data) for _ in range(first, min(first + 20, count)))
                )
            )
        stage.outcome = f"{closed:,} of {count:,} closed"

    return play


async def _spoil(place: tuple[str, int], context: ssl.SSLContext | None, data: bytes) -> bool:
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(*place, ssl=context)
            writer.write(data)
            while await reader.read(BLOCK):
                pass
    except TimeoutError:
        return False
    except OSError:
        return True
    writer.transport.abort()
    return True


def case(
    name: str, sent: str, play: Play, *covers: str, quick: bool = False, crowd: bool = False
) -> Case:
    return Case("smp", name, sent, play, frozenset(covers), crowd, is_quick=quick)


CASES = [
    *(
        case(f"SUB with keys of {kind}", f"{BATCH * BLOCKS:,} in one write", with_keys(kind), "SUB")
        for kind in KINDS
    ),
    *(
        case(
            f"commands that no key signed, {kind}",
            f"{BATCH * 4} SUBs of a queue with as many keys as fit",
            many_keys(kind),
            "RKEY",
            "SUB",
            quick=kind == "ed448",
        )
        for kind in KINDS[:2]
    ),
    case("NEW", "12,000 in one write", new_queues(12_000, "ed25519"), "NEW"),
    case("NEW with keys of ed448", "4,000 in one write", new_queues(4000, "ed448"), "NEW"),
    case("SEND, long", "2,000 of 16 KB", bodies(2000), "SEND"),
    case("GET, not read", "2,000 answers of 16 KB", unread(2000), "GET"),
    case(
        "SUB of another's queues",
        "5,000, and the first is told of its loss",
        subscribed(5000),
        "SUB",
    ),
    case("SUBS", "a service with 5,000 queues", served(5000), "SUBS"),
    case("garbage", "1,000 blocks", garbage(1000)),
    case("wrong transmissions", "100 blocks of 255", empty_transmissions(100)),
    case("no TLS", "200 connections", handshakes(200, b"x" * 1000, tls=False), crowd=True),
    case(
        "no hello", "100 connections over TLS", handshakes(100, bytes(BLOCK), tls=True), crowd=True
    ),
]
