"""The walks of docs/design/walks.md, recorded again: which files an action goes through.

    python -m tools.walks        # HEADGATE_PURE=1 for the Python twins of what is compiled

A router in a process of its own has a profiler on the thread of its loop. Each walk is taken six
times; a file counts if each of them entered it, so that what only runs now and then does not.
Functions of compiled parts are named by their module, where Python calls them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from headgate.client.bmq import Client, Subscription
from headgate.client.resp import RespClient
from headgate.compiled import PARTS
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec.replies import Msg
from headgate.wire.smp.codec.router_address import RouterAddress

ROUNDS = 6
REST_SECONDS = 0.15
"""After each action, until everything that came of it is over."""
START_SECONDS = 0.05
"""After a signal, until the profiler is there."""
READY_SECONDS = 60.0

POLLER = "server/net/poller.py"
"""Where every walk begins. It runs all the time."""

SOURCE = f"{Path(__file__).parent.parent / 'src' / 'headgate'}{os.sep}"

CONFIG = """\
directory = "state"
[admin]
port = 0
[listen.resp]
port = 0
[listen.smp]
port = 0
[listen.bmq]
port = 0
[domains.orders]
mode = "fanout"
apps = ["shipping", "audit"]
"""

Act: TypeAlias = Callable[[], Awaitable[object]]

Ready: TypeAlias = Mapping[str, Mapping[str, object]]
"""The contents of the ready file of a router."""

Entered: TypeAlias = tuple[str, str]
"""A file, and a function of it."""


class Recorder:
    """The profiler inside the router: SIGRTMIN begins a record, SIGRTMAX appends it to a file."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._entered: dict[Entered, None] = {}
        signal.signal(signal.SIGRTMIN, lambda number, frame: self._begin())
        signal.signal(signal.SIGRTMAX, lambda number, frame: self._end())

    def _begin(self) -> None:
        self._entered = {}
        sys.setprofile(self._see)

    def _end(self) -> None:
        sys.setprofile(None)
        with self._output.open("a") as file:
            file.write(json.dumps(list(self._entered)) + "\n")

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            if file.startswith(SOURCE):
                self._entered.setdefault((file.removeprefix(SOURCE), frame.f_code.co_qualname))
        elif event == "c_call":
            name = str(getattr(argument, "__qualname__", ""))
            for owner in (argument, type(getattr(argument, "__self__", None))):
                module = str(owner.__module__)
                if module in PARTS:
                    file = module.removeprefix("headgate.").replace(".", os.sep)
                    self._entered.setdefault((f"{file}.c", name))


class RecordedRouter:
    """A router as a process, and the records of its loop's thread. `walk` takes one walk."""

    def __init__(self, folder: Path) -> None:
        self._records = folder / "records"
        self._config = folder / "headgate.toml"
        self._ready = folder / "ready.json"
        self._log = folder / "log"
        self._config.write_text(CONFIG)

    @contextmanager
    def running(self) -> Iterator[Ready]:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, self._config, self._ready, self._records],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            end = time.monotonic() + READY_SECONDS
            while not self._ready.exists():
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < end, self._log.read_text()
                time.sleep(0.05)
            yield json.loads(self._ready.read_text())
        finally:
            self._process.terminate()
            self._process.wait()

    async def walk(self, act: Act) -> list[str]:
        """The files that every round entered, in the order of the first, by functions that do not
        run all the time anyway."""
        await act()  # what is done once for a session is not part of the walk
        always = _common(await self._record(_nothing))
        walked = [each for each in _common(await self._record(act)) if each not in always]
        return list(dict.fromkeys([POLLER, *(file for file, _ in walked)]))

    async def _record(self, act: Act) -> list[list[Entered]]:
        self._records.unlink(missing_ok=True)
        for number in range(1, ROUNDS + 1):
            await asyncio.sleep(REST_SECONDS)
            self._process.send_signal(signal.SIGRTMIN)
            await asyncio.sleep(START_SECONDS)
            await act()
            await asyncio.sleep(REST_SECONDS)
            self._process.send_signal(signal.SIGRTMAX)
            while len(self._rounds()) < number:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return self._rounds()

    def _rounds(self) -> list[list[Entered]]:
        if not self._records.exists():
            return []
        lines = self._records.read_text().splitlines()
        return [[(file, name) for file, name in json.loads(line)] for line in lines]


def _common(rounds: list[list[Entered]]) -> list[Entered]:
    first, *others = rounds
    return [each for each in first if all(each in other for other in others)]


async def _nothing() -> None:
    pass


async def publish_anew(ready: Ready, stack: AsyncExitStack) -> Act:
    """A PUBLISH with two subscribers and one pattern, the first on its channel"""
    return await publish(ready, stack, channels=1 + ROUNDS)


async def publish(ready: Ready, stack: AsyncExitStack, channels: int = 1) -> Act:
    """The next one on the same channel"""
    port = int(str(ready["resp"]["port"]))
    publisher, *subscribers = (stack.enter_context(RespClient("127.0.0.1", port)) for _ in range(4))
    names = [b"news.%d" % number for number in range(channels)]
    for subscriber in subscribers[:2]:
        subscriber.subscribe(names)
    subscribers[2].subscribe([b"ne*"], are_patterns=True)
    drawn = itertools.cycle(names)

    async def act() -> None:
        assert publisher.publish(next(drawn), b"rain") == 3

    return act


async def send(ready: Ready, stack: AsyncExitStack) -> Act:
    """A SEND to an idle subscriber, its MSG, its ACK"""
    smp = ready["smp"]
    address = RouterAddress.parse(f"smp://{smp['fingerprint']}@127.0.0.1:{smp['port']}")
    bob, alice = [
        await SmpClient.connect("127.0.0.1", address.port, address.key_hash) for _ in range(2)
    ]
    stack.callback(bob.close)
    stack.callback(alice.close)
    queue = await bob.new_queue()

    async def act() -> None:
        await alice.send(queue, b"hello")
        _, message = await bob.event()
        assert isinstance(message, Msg)
        await bob.ack(queue, message.message_id)

    return act


async def put(ready: Ready, stack: AsyncExitStack) -> Act:
    """A PUT to two apps, one of whose consumers has an expression; PUSH; CONFIRM"""
    port = int(str(ready["bmq"]["port"]))
    clients = [
        await stack.enter_async_context(await Client.connect(f"tcp://127.0.0.1:{port}"))
        for _ in range(3)
    ]
    posting = await clients[0].open("bmq://orders/incoming", write=True)
    shipping = await clients[1].open("bmq://orders/incoming?id=shipping", read=True)
    audit = await clients[2].open(
        "bmq://orders/incoming?id=audit", read=True, subscriptions=[Subscription("amount >= 1000")]
    )

    async def act() -> None:
        await posting.post(b"a piano", {"amount": 4000})
        for queue in (shipping, audit):
            await (await anext(queue)).confirm()

    return act


WALKS = (publish_anew, publish, send, put)


async def record() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        router = RecordedRouter(Path(name))
        ready = opened.enter_context(router.running())
        for prepare in WALKS:
            async with AsyncExitStack() as stack:
                files = await router.walk(await prepare(ready, stack))
            print(f"{prepare.__doc__}: {len(files)} files")
            print(*(f"  {file}" for file in files), sep="\n")


def serve(config: Path, ready_file: Path, records: Path) -> None:
    from headgate.cli.config_file import load
    from headgate.cli.serve import serve_router

    Recorder(records)
    serve_router(load(config), ready_file)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(*map(Path, sys.argv[1:]))
    else:
        asyncio.run(record())
