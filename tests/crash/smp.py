"""Kill -9 of a router of the SMP wire under load: what it answered is so when it runs again."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headgate.client.smp.recipient import Request
from headgate.client.smp.service import make_service
from headgate.core.model.tally import NOTHING
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import Alls, Err, Msg, Ok, Reply, Sok, Soks
from headgate.wire.smp.codec.sealed import QuotaMarker
from tests.crash.routers import DEADLINE_SECONDS, start
from tests.crash.smp_ledger import Ledger, Line
from tests.crash.smp_load import MESSAGING, NOTIFYING, Door, Load, secure
from tests.crash.smp_stored import Contents, Told, contents_of

SQLITE = "sqlite:queues.db"
CONFIG = """\
directory = "state"
[store]
url = "{url}"
[admin]
port = 0
[listen.smp]
port = 0
[smp]
queue_quota = 5
end_flush = "50ms"
notification_flush = "50ms"
"""
CUTS = 10
PROBES = 10
"""Deleted queues that are tried each time."""


@dataclass
class Round:
    taken: int = 0
    """SENDs that were answered with OK."""
    acks: int = 0
    markers: int = 0
    drained: int = 0
    """Messages that were read after the kill before this round."""
    cut_off: int = 0
    """Requests that were not answered before the kill, and change something."""
    failures: int = 0
    """Requests that were answered with STORE."""
    wrong: list[str] = field(default_factory=list)


class Routers:
    """One store, and the routers that live and die on it."""

    def __init__(self, folder: Path, url: str = SQLITE) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "headgate.toml").write_text(CONFIG.format(url=url))
        self.ledger = Ledger()
        self._folder = folder
        self._state = folder / "state"
        self._url = url
        self._fingerprint = ""
        """The router's own, as it was first told; clients accept no other."""
        self._told = Told()
        self._contents = Contents()
        self._services = {name: make_service(time.time()) for name in (*MESSAGING, NOTIFYING)}

    async def play(self, seed: int, cut: Callable[[], None] | None = None) -> Round:
        """Start, look at what the last kill left, load, kill at a random moment, look into the
        store. `cut` is done a few times before the kill, and the router has to go on."""
        draw = random.Random(f"round {seed}")
        async with self._running() as (router, door):
            result = Round()
            await self._verify(door, draw, 0.5, result)
            load = Load(self.ledger, door, seed, store_may_fail=cut is not None)
            await load.start()
            if cut is not None:
                await self._cut(cut, draw)
            await self._busy(load, draw.randrange(30, 120), result)
            await asyncio.sleep(draw.uniform(0, 0.1))
            load.is_over = True
            router.kill()
            router.wait()
            await load.stop()
        result.taken, result.acks, result.markers = load.taken, load.acks, load.full
        result.failures = load.failed
        result.cut_off = sum(line.cut_off for line in self.ledger.lines.values())
        result.wrong += load.wrong
        result.wrong += await self._compare()
        return result

    async def finish(self, seed: int) -> Round:
        """Read everything that is left, and look into the store once more."""
        result = Round()
        async with self._running() as (router, door):
            await self._verify(door, random.Random(seed), 1.0, result)
            router.kill()
            router.wait()
        result.wrong += await self._compare()
        left = sum(len(kept.messages) for kept in self._contents.queues.values())
        if left:
            result.wrong.append(f"{left} messages are left")
        return result

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[tuple[subprocess.Popen[bytes], Door]]:
        router = start(self._folder)
        try:
            told = json.loads((self._folder / "ready.json").read_text())["smp"]
            self._fingerprint = self._fingerprint or told["fingerprint"]
            known = urlsafe_b64decode(self._fingerprint + "=")
            yield router, Door(told["host"], told["port"], known, self._services)
        finally:
            if router.poll() is None:
                router.kill()
                router.wait()

    async def _busy(self, load: Load, messages: int, result: Round) -> None:
        """Let so many messages be taken, which on a busy machine may last."""
        wanted, end = load.taken + messages, time.monotonic() + DEADLINE_SECONDS
        while load.taken < wanted:
            await asyncio.sleep(0.005)
            if load.wrong or time.monotonic() > end:
                result.wrong.append(f"only {load.taken} messages were taken")
                return

    async def _cut(self, cut: Callable[[], None], draw: random.Random) -> None:
        for _ in range(CUTS):
            await asyncio.sleep(draw.uniform(0.02, 0.2))
            await asyncio.to_thread(cut)

    # In the store.

    async def _compare(self) -> list[str]:
        """After a kill, before anybody else looks: ledger, store, tallies and journal agree."""
        self._contents = contents = await contents_of(self._url, self._state)
        wrong = list(self.ledger.compare(contents))
        wrong += contents.compare_tallies()
        source = f"sqlite:{self._state}/queues.db" if self._url == SQLITE else self._url
        wrong += self._told.read(source, self._state / "journal")
        wrong += self._told.compare(contents)
        for line in self.ledger.lines.values():
            if line.confirmed - self._told.confirmed:
                wrong.append(f"{line}: an ACK was answered, and no fact says so")
        log = (self._folder / "log").read_text()
        if "Traceback" in log:
            wrong.append("the log has a traceback: " + log[log.index("Traceback") :][:2000])
        self.ledger.settle(contents)
        return wrong

    # Over the wire.

    async def _verify(self, door: Door, draw: random.Random, part: float, result: Round) -> None:
        await verified(self.ledger, self._contents, door, draw, part, result)


async def verified(
    ledger: Ledger, contents: Contents, door: Door, draw: random.Random, part: float, result: Round
) -> None:
    """Nobody else is there, so the router says just what the store has."""
    verifier = Verifier(ledger, contents, result)
    sessions = {name: await door.open(name) for name in door.services}
    plain, getter = await door.open(), await door.open()
    try:
        await verifier.services(sessions)
        await verifier.deleted(plain)
        await verifier.secured(plain)
        drained = [line for line in ledger.alive if draw.random() < part]
        rest = [line for line in ledger.alive if line not in drained]
        await verifier.got(getter, rest)
        await verifier.drain(plain, drained)
    finally:
        for client in (*sessions.values(), plain, getter):
            client.close()
            await client.closed()


class Verifier:
    def __init__(self, ledger: Ledger, contents: Contents, result: Round) -> None:
        self._ledger = ledger
        self._contents = contents
        self._result = result
        self._served: dict[bytes, tuple[SmpClient, Msg | None]] = {}
        """The session of a service's queue, and the message that it was given."""

    def _wrong(self, what: str) -> None:
        self._result.wrong.append(what)

    async def services(self, sessions: dict[str, SmpClient]) -> None:
        """Each has its id, is told the recounted tally, and is given every first message."""
        for name, client in sessions.items():
            id = client.service_id
            assert id is not None, "a service is told its id"
            if self._ledger.services.setdefault(name, id) != id:
                self._wrong(f"the service {name} has another id")
            command = c.NSubs(NOTHING) if name == NOTIFYING else c.Subs(NOTHING)
            (reply,) = await client.ask(Request(command, id))
            if reply != Soks(self._contents.recount(id)):
                self._wrong(f"{name} was told {reply}, not {self._contents.recount(id)}")
            if name != NOTIFYING:
                await self._swept(name, client, id)

    async def _swept(self, name: str, client: SmpClient, id: bytes) -> None:
        queues = {q: kept for q, kept in self._contents.queues.items() if kept.service == id}
        given = await _until_all(client)
        self._served |= {queue: (client, given.get(queue)) for queue in queues}
        if given.keys() != {queue for queue, kept in queues.items() if kept.messages}:
            self._wrong(f"{name} was given messages of other queues than those that have some")

    async def deleted(self, client: SmpClient) -> None:
        gone = [line for line in self._ledger.lines.values() if line.is_deleted]
        for line in gone[-PROBES:]:
            send = Request(c.SmpSend(False, b"?"), line.queue.sender, line.sender_key)
            replies = await client.ask(line.queue.asks(c.Sub()), send)
            if replies != [Err("AUTH")] * 2:
                self._wrong(f"{line} was deleted, and answers {replies}")

    async def secured(self, client: SmpClient) -> None:
        """KEYs that were cut off are given again; the others still keep strangers out."""
        for line in self._ledger.alive:
            if line.sender_key is None:
                continue
            if not line.is_secured and (await secure(client, line, line.sender_key)) != Ok():
                self._wrong(f"{line}: KEY after a kill was refused")
            reply = await client.send(line.queue, b"?")
            if reply != Err("AUTH"):
                self._wrong(f"{line} is secured, and answers {reply} to a stranger")

    async def got(self, client: SmpClient, lines: list[Line]) -> None:
        """Their first messages, which stay where they are."""
        if not lines:
            return
        replies = await client.ask(*(line.queue.asks(c.SmpGet()) for line in lines))
        for line, reply in zip(lines, replies, strict=True):
            messages = self._contents.queues[line.queue.id].messages
            told = _read(line, reply) if isinstance(reply, Msg) else None
            if told != (messages[0] if messages else None):
                self._wrong(f"{line}: GET was answered with {told}, not {messages[:1]}")

    async def drain(self, plain: SmpClient, lines: list[Line]) -> None:
        """Everything comes, in its order, once; and a queue that was full takes more then."""
        for line in lines:
            kept = self._contents.queues[line.queue.id]
            client, msg = self._served.get(line.queue.id, (plain, None))
            if client is plain:
                msg = await self._subscribed(plain, line, bool(kept.messages))
            read = await self._read_all(client, line, msg)
            if tuple(read) != kept.messages:
                self._wrong(f"{line}: {_names(read)} came, not {_names(kept.messages)}")
            self._result.drained += len(read)
            if kept.is_full:
                await self._goes_on(client, plain, line)

    async def _subscribed(self, client: SmpClient, line: Line, has_more: bool) -> Msg | None:
        (reply,) = await client.subscribe(line.queue)
        if reply != Sok(None):
            self._wrong(f"{line}: SUB was answered with {reply}")
        if not has_more:
            return None
        entity, event = await client.event()
        if entity != line.queue.id or not isinstance(event, Msg):
            self._wrong(f"{line}: {event} came after SUB")
            return None
        return event

    async def _read_all(
        self, client: SmpClient, line: Line, msg: Msg | None
    ) -> list[tuple[bytes, bytes, bool]]:
        read = []
        reply: Reply | None = msg
        while isinstance(reply, Msg):
            read.append(_read(line, reply))
            sent = line.delivered(reply)
            line.acks(sent)
            id = reply.message_id
            reply = await client.ack(line.queue, id)
            line.acked(sent, id, reply)
        if reply not in (None, Ok()):
            self._wrong(f"{line}: an ACK was answered with {reply}")
        return read

    async def _goes_on(self, client: SmpClient, sender: SmpClient, line: Line) -> None:
        if not line.may_be_sent_to:
            return
        sent = line.asks(b"%d/%d again" % (line.number, next(self._ledger.numbers)))
        reply = await sender.send(line.queue, sent.body, line.sender_key)
        line.answered(sent, reply)
        if reply != Ok():
            self._wrong(f"{line} is empty, and answers {reply}")
            return
        _, event = await client.event()
        assert isinstance(event, Msg), f"{line}: {event} came after SEND"
        await self._read_all(client, line, event)


async def _until_all(client: SmpClient) -> dict[bytes, Msg]:
    """What a service is given, by queue, until it is told that this was all."""
    given: dict[bytes, Msg] = {}
    while True:
        entity, event = await client.event(10)
        if isinstance(event, Alls):
            return given
        assert isinstance(event, Msg), f"{event} before ALLS"
        assert entity not in given, "one message of each queue"
        given[entity] = event


def _read(line: Line, msg: Msg) -> tuple[bytes, bytes, bool]:
    body = line.queue.open(msg)
    if isinstance(body, QuotaMarker):
        return msg.message_id, b"", True
    return msg.message_id, body.body, False


def _names(messages: Iterable[tuple[bytes, bytes, bool]]) -> list[bytes]:
    return [b"marker" if is_marker else body[:16] for _, body, is_marker in messages]
