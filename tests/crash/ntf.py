"""Kill -9 of a notification server and of its router at random moments: every token and every
subscription that was answered is kept, each message that is sent later is pushed, and tallies are
recounts."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Queue
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.errors import HeadgateError
from headgate.notify.push_content import CodePush, MessagesPush, parse_entries, parse_push
from headgate.ntf_server.records import Records, subscriptions, tokens
from headgate.ntf_server.records.audit import audit
from headgate.testing.smp_client import SmpClient
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.replies import IdSub, SubscriptionState, TokenState
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec import commands as smp
from headgate.wire.smp.codec.encoding import FieldReader
from headgate.wire.smp.codec.replies import Msg, Ok
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.sealed import open_notice
from tests.crash.routers import lasting_port, start
from tests.support.ntf_app import App, AppKeys

QUEUES = 2
"""Of each device."""
PATIENCE_SECONDS = 120
CONFIG = """\
directory = "state"
[admin]
port = 0
[listen.smp]
port = {port}
[journal]
enabled = false
[smp]
queue_quota = 1000
end_flush = "50ms"
"""
ACTIVE = SubscriptionState(SubscriptionStatus.ACTIVE)
CUT_OFF = (OSError, EOFError, HeadgateError, TimeoutError)
"""What whoever asks meets when the other side is killed."""


@dataclass
class Result:
    kills: Counter[str] = field(default_factory=Counter)
    devices: int = 0
    subscriptions: int = 0
    removed: int = 0
    sent: int = 0
    """Messages that were sent in bad times."""
    pushed: int = 0
    """Messages that were sent when everything ran, and pushed."""
    cut_off: int = 0
    """Requests of apps that a kill cut off."""
    wrong: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Post:
    """A queue with a notifier, and what an app knows of its subscription."""

    queue: Queue
    key: Ed25519PrivateKey
    subscription: bytes = b""
    is_removed: bool = False
    """Its removal was asked for, and answered or not."""
    noticed: set[bytes] = field(default_factory=set)
    """Messages that the device was woken for."""


@dataclass(eq=False)
class Phone:
    """A device with its app."""

    name: str
    keys: AppKeys = field(default_factory=AppKeys)
    code: bytes = b""
    codes: list[CodePush] = field(default_factory=list)
    is_verified: bool = False
    posts: list[Post] = field(default_factory=list)

    @property
    def device(self) -> ApnsDevice:
        return ApnsDevice(Provider.APNS_TEST, self.name.encode())


class Household:
    """A router, a notification server, and phones that others know of only by their pushes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.draw = random.Random(seed)
        self.result = Result()
        self.phones: list[Phone] = []
        self._answers = 0
        """How much was answered to those who work."""
        self._router: subprocess.Popen[bytes] | None = None
        self._server: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._address: NtfAddress | None = None
        self._port = lasting_port()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "headgate.toml").write_text(CONFIG.format(port=lasting_port()))

    # Rounds.

    async def play(self) -> None:
        """Start what was killed, look at what was kept, then kill some of it while it works."""
        await self._start()
        await self._check()
        if self.result.wrong:
            return
        names = self.draw.choice((["router"], ["server"], ["server"], ["router", "server"]))
        work = asyncio.create_task(self._work())
        wanted = self._answers + self.draw.choice((1, 5, 10, 20, 60))
        await self._until(lambda: self._answers >= wanted or work.done(), "work is done")
        await asyncio.sleep(self.draw.uniform(0, 0.02))
        for name in names:
            await self._kill(name)
            self.result.kills[name] += 1
        for name in {"router", "server"} - set(names):
            # Whoever survives has its share of the disorder.
            await asyncio.sleep(self.draw.uniform(0, 0.1))
            if self.draw.random() < 0.2:
                await self._kill(name)
                self.result.kills[name] += 1
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work

    async def finish(self) -> Result:
        """Look at everything once more, the tables included."""
        await self._start()
        await self._check()
        await self.close()
        async with await Records.open("sqlite:ntf.db", self.folder) as records:
            self.result.wrong += await records.read(audit)
            statuses = await records.read(tokens.counts)
            held = await records.read(subscriptions.counts)
        verified = [phone for phone in self.phones if phone.is_verified]
        wanted = sum(bool(post.subscription) for phone in verified for post in phone.posts)
        if statuses.get(TokenStatus.ACTIVE, 0) != len(verified):
            self.result.wrong.append(f"{len(verified)} were verified; the records have {statuses}")
        if held != {SubscriptionStatus.ACTIVE: wanted}:
            self.result.wrong.append(f"{wanted} are subscribed to; the records have {held}")
        self.result.devices, self.result.subscriptions = len(verified), wanted
        return self.result

    async def close(self) -> None:
        for name in ("router", "server"):
            await self._kill(name)

    # What apps do.

    async def _work(self) -> None:
        """Apps register, subscribe and remove, and messages come, until somebody is killed."""
        try:
            async with await self._app() as app:
                client = await self._client()
                phone = Phone(f"phone {len(self.phones)}")
                for _ in range(QUEUES):
                    key = Ed25519PrivateKey.generate()
                    queue = await client.new_queue(subscribe=False, notifier=key)
                    phone.posts.append(Post(queue, key))
                    self._answers += 1
                self.phones.append(phone)
                sending = asyncio.create_task(self._send(client))
                try:
                    await self._settle(app, phone)
                    await asyncio.sleep(self.draw.choice((0.0, 0.1)))
                    others = [post for each in self.phones for post in each.posts]
                    post = self.draw.choice([each for each in others if each.subscription])
                    await self._remove(app, self._owner(post), post)
                    await sending
                finally:
                    sending.cancel()
                    await asyncio.wait([sending])
                    client.close()
        except CUT_OFF:
            self.result.cut_off += 1

    async def _send(self, client: SmpClient) -> None:
        with suppress(*CUT_OFF):
            while True:
                posts = [post for phone in self.phones for post in phone.posts]
                assert await client.send(self.draw.choice(posts).queue, b"x", notify=True) == Ok()
                self.result.sent += 1
                self._answers += 1

    async def _settle(self, app: App, phone: Phone) -> None:
        """Register and subscribe, or go on with it: every request may be repeated."""
        if not phone.is_verified:
            before = phone.keys.token
            phone.keys.take(await app.ask(phone.keys.new_token(phone.device), phone.keys))
            self._answers += 1
            if before not in (b"", phone.keys.token):
                self.result.wrong.append(f"{phone.name} has another token")
            await self._until(lambda: phone.codes, f"a code for {phone.name}")
            code = phone.keys.opened(phone.codes[-1])
            if (answer := await app.ask(c.TVfy(code), phone.keys)) != Ok():
                self.result.wrong.append(f"{phone.name} is not verified: {answer}")
            phone.is_verified = True
            self._answers += 1
        for post in phone.posts:
            if not post.subscription and not post.is_removed:
                private = encode_private(KeyKind.ED25519, post.key.private_bytes_raw())
                router = self._router_address()
                asked = c.SNew(phone.keys.token, router, post.queue.notifier, private)
                reply = await app.ask(asked, phone.keys)
                assert isinstance(reply, IdSub), reply
                post.subscription = reply.subscription
                self._answers += 1

    async def _remove(self, app: App, phone: Phone, post: Post) -> None:
        post.is_removed = True
        await app.ask(c.SDel(), phone.keys, post.subscription)
        post.subscription = b""
        self.result.removed += 1
        self._answers += 1

    def _owner(self, post: Post) -> Phone:
        return next(phone for phone in self.phones if post in phone.posts)

    # What must hold.

    async def _check(self) -> None:
        """Whatever was answered is there; what was cut off can be repeated; and messages that come
        now are pushed."""
        async with await self._app() as app:
            client = await self._client()
            for phone in self.phones:
                if phone.is_verified:
                    found = await app.ask(c.TChk(), phone.keys)
                    if found != TokenState(TokenStatus.ACTIVE):
                        self.result.wrong.append(f"{phone.name} was verified: {found}")
                await self._check_posts(app, phone)
                await self._settle(app, phone)
            for phone in self.phones:
                for post in phone.posts:
                    if post.subscription:
                        await self._reach_active(app, phone, post)
            await self._check_pushes(client)
            client.close()

    async def _check_posts(self, app: App, phone: Phone) -> None:
        for post in phone.posts:
            if post.is_removed and post.subscription:
                await self._remove(app, phone, post)
            elif post.subscription:
                found = await app.ask(c.SChk(), phone.keys, post.subscription)
                if not isinstance(found, SubscriptionState):
                    self.result.wrong.append(f"a subscription of {phone.name} is gone: {found}")

    async def _reach_active(self, app: App, phone: Phone, post: Post) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while (found := await app.ask(c.SChk(), phone.keys, post.subscription)) != ACTIVE:
            if time.monotonic() > end:
                self.result.wrong.append(f"a subscription of {phone.name} stays {found}")
                return
            await asyncio.sleep(0.01)

    async def _check_pushes(self, client: SmpClient) -> None:
        expected: list[tuple[Post, bytes]] = []
        for phone in self.phones:
            for post in phone.posts:
                while (message := await self._read(client, post.queue)) is not None:
                    pass
                assert await client.send(post.queue, b"later", notify=True) == Ok()
                message = await self._read(client, post.queue)
                assert message is not None, "it was just sent"
                if post.subscription:
                    expected.append((post, message))
        await self._until(
            lambda: all(message in post.noticed for post, message in expected),
            "messages are pushed",
        )
        self.result.pushed += len(expected)

    async def _read(self, client: SmpClient, queue: Queue) -> bytes | None:
        """Take a message out of its queue."""
        (reply,) = await client.ask(queue.asks(smp.SmpGet()))
        if not isinstance(reply, Msg):
            return None
        await client.ack(queue, reply.message_id)
        return reply.message_id

    async def _until(self, holds: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds() and not self.result.wrong:
            await asyncio.sleep(0.005)
            if self._server is None:
                raise EOFError("the server was killed")
            if self._server.returncode is not None:
                self.result.wrong.append(f"the server ended by itself: {self._log}")
            if time.monotonic() > end:
                self.result.wrong.append(f"{what}: not in {PATIENCE_SECONDS} s")

    # Processes.

    async def _start(self) -> None:
        starts_first = self.draw.random() < 0.8
        if starts_first:
            await self._start_server()
        if self._router is None:
            self._router = await asyncio.to_thread(start, self.folder)
        await self._start_server()
        await self._until(self._ready.is_set, "the server is ready")

    async def _start_server(self) -> None:
        if self._server is not None:
            return
        self._ready.clear()
        with (self.folder / "server.log").open("ab") as log:
            self._server = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.crash.ntf_program"),
                *(str(self.folder), str(self._port)),
                stdout=PIPE,
                stderr=log,
                limit=2**20,
            )
        self._reading = asyncio.create_task(self._read_lines(self._server))

    def _router_address(self) -> RouterAddress:
        ready = json.loads((self.folder / "ready.json").read_text())["smp"]
        return RouterAddress.parse(f"smp://{ready['fingerprint']}@{ready['host']}:{ready['port']}")

    async def _app(self) -> App:
        assert self._address is not None, "a server that was started"
        return await App.connect(self._address)

    async def _client(self) -> SmpClient:
        address = self._router_address()
        return await SmpClient.connect(address.hosts[0], address.port, address.key_hash)

    async def _kill(self, name: str) -> None:
        if name == "router":
            router, self._router = self._router, None
            if router is not None:
                router.kill()
                await asyncio.to_thread(router.wait)
            return
        server, self._server = self._server, None
        if server is not None:
            if server.returncode is None:
                server.kill()
            await server.wait()
            assert self._reading is not None
            # What it printed before it was killed counts.
            await self._reading

    @property
    def _log(self) -> str:
        return (self.folder / "server.log").read_text()[-2000:]

    async def _read_lines(self, server: Process) -> None:
        assert server.stdout is not None
        while (line := await server.stdout.readline()).endswith(b"\n"):
            what, *words = line.decode().split(" ", 2)
            if what == "ready":
                self._address = NtfAddress.parse(words[0].strip())
                self._ready.set()
            else:
                self._note(bytes.fromhex(words[0]), words[1].encode())

    def _note(self, device: bytes, data: bytes) -> None:
        push = parse_push(data)
        phone = next(each for each in self.phones if each.device.encode() == device)
        if isinstance(push, CodePush):
            phone.codes.append(push)
        elif isinstance(push, MessagesPush):
            posts = {post.queue.notifier: post for post in phone.posts}
            for entry in parse_entries(phone.keys.opened(push)):
                post = posts[entry.notifier]
                assert post.queue.notice_secret is not None
                notice = open_notice(post.queue.notice_secret, entry.nonce, entry.metadata)
                post.noticed.add(FieldReader(notice).string())


async def run(folder: Path, rounds: int, seed: int) -> Result:
    """So many kills, and the end of it."""
    household = Household(folder, seed)
    try:
        for _ in range(rounds):
            if not household.result.wrong:
                await household.play()
        if not household.result.wrong:
            await household.finish()
    finally:
        await household.close()
    return household.result
