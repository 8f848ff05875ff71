"""A router as a process, and clients of the official SDK, each a process too."""

from __future__ import annotations

import asyncio
import base64
import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.support.bmq_sdk import Value, decoded, encoded

DEADLINE_SECONDS = 20.0
READY_SECONDS = 60.0
LINE_BYTES = 64 * 1024 * 1024
SEEN_LINES = 40
SEEN_CHARS = 300
PORTS = range(20_000, 32_000)
"""Below those that the system gives to outgoing connections: nobody takes the port of a router
that is just being restarted."""

WORKERS = int(os.environ.get("TEST_WORKERS", "1"))
"""How many a router of these tests has, if its test does not say."""
FENCES = "fences"
CONFIG = """\
directory = "state"
[admin]
port = 0
[workers]
count = {workers}
[listen.bmq]
port = {port}
[domains.{fences}]
mode = "priority"
{domains}
"""
SUCCESS = "SUCCESS"

T = TypeVar("T")


class Router:
    """A `headgate serve` that keeps its port, so that clients find it after a restart."""

    def __init__(self, folder: Path, domains: str, workers: int = WORKERS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._workers = workers
        self._folder = folder
        self._ready = folder / "ready.json"
        self._log = folder / "log"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.configure(domains)

    @property
    def broker(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def configure(self, domains: str) -> None:
        text = CONFIG.format(port=self._port, fences=FENCES, domains=domains, workers=self._workers)
        (self._folder / "headgate.toml").write_text(text)

    # Its life.

    def start(self) -> None:
        self._ready.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from headgate.cli import main; main()", "serve"),
                    *("--config", self._folder / "headgate.toml", "--ready-file", self._ready),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + READY_SECONDS
        while not self._ready.exists():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.02)
        assert "bmq" in json.loads(self._ready.read_text()), "nothing listens for clients"

    def stop(self) -> None:
        assert self._process is not None, "start comes first"
        self._process.terminate()
        assert self._process.wait(READY_SECONDS) == 0, self.log

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill -9, if it runs."""
        if self._process is not None and self.is_running:
            self._process.kill()
            self._process.wait()

    async def reload(self, domains: str) -> bool:
        """Ask the router to take these domains; whether it did."""
        assert self._process is not None, "start comes first"
        self.configure(domains)
        before = len(self._events("configuration reloaded", "configuration not reloaded"))
        self._process.send_signal(signal.SIGHUP)

        async def told() -> str | None:
            found = self._events("configuration reloaded", "configuration not reloaded")
            return found[before] if len(found) > before else None

        said = await _polled("the answer to SIGHUP", told, lambda: self.log[-2000:])
        return said == "configuration reloaded"

    def _events(self, *names: str) -> list[str]:
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line["event"] for line in lines if line["event"] in names]

    # What it says of itself.

    def status(self) -> dict[str, Any]:
        at = json.loads(self._ready.read_text())["admin"]
        connection = http.client.HTTPConnection(at["host"], at["port"], timeout=DEADLINE_SECONDS)
        token = Path(at["token_file"]).read_text().strip()
        known = {"Authorization": f"Bearer {token}"}
        connection.request("GET", "/status.json?limit=1000", headers=known)
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return found

    async def queue(self, uri: str) -> dict[str, Any]:
        """The status of a queue; its "apps" are a mapping here."""
        status = await asyncio.to_thread(self.status)
        found = [queue for queue in status["queues"] if queue["queue"] == uri]
        assert found, f"no {uri} among {[queue['queue'] for queue in status['queues']]}"
        return {**found[0], "apps": {app["app"]: app for app in found[0]["apps"]}}

    async def until(self, uri: str, what: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the status of a queue is so."""
        queue: dict[str, Any] = {}

        async def told() -> bool | None:
            nonlocal queue
            queue = await self.queue(uri)
            return holds(queue) or None

        await _polled(what, told, lambda: queue)

    async def sessions(self, count: int) -> None:
        """Wait until the router has so many sessions of this wire."""
        wires: list[str] = []

        async def told() -> bool | None:
            nonlocal wires
            wires = [s["wire"] for s in (await asyncio.to_thread(self.status))["sessions"]]
            return True if wires.count("bmq") == count else None

        await _polled(f"{count} sessions", told, lambda: wires)

    async def empties(self, uri: str) -> None:
        await self.until(uri, f"{uri} without messages", lambda queue: queue["messages"] == 0)


async def _polled(
    what: str, told: Callable[[], Awaitable[T | None]], seen: Callable[[], object]
) -> T:
    end = time.monotonic() + DEADLINE_SECONDS
    while (found := await told()) is None:
        assert time.monotonic() < end, f"{what} did not come; seen: {seen()}"
        await asyncio.sleep(0.02)
    return found


def free_port() -> int:
    for port in random.Random().sample(PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@dataclass(frozen=True)
class Message:
    queue: str
    guid: str
    body: bytes
    properties: Mapping[str, Value]
    types: Mapping[str, str]


@dataclass(frozen=True)
class Acked:
    status: str
    guid: str | None


class SdkError(Exception):
    """What the SDK raised."""


class Client:
    """One process with one session of the SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._acks: dict[int, Acked] = {}
        self._changed = asyncio.Event()
        self._seen: deque[str] = deque(maxlen=SEEN_LINES)
        self._stderr = b""
        self._fences = itertools.count(1)
        self._fenced: set[int] = set()
        self._has_fence = False
        self._ended = False
        self.messages: list[Message] = []
        """Those that came and were not taken yet."""
        self.events: list[str] = []
        """The names of the session's events, in order."""
        self._tasks = [asyncio.create_task(task) for task in (self._read(), self._read_stderr())]

    @classmethod
    async def start(cls, broker: str, *, compress: bool = False, name: str | None = None) -> Client:
        """A process with a session that is connected."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.bmq_sdk", broker),
            *(() if name is None else (name,)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=LINE_BYTES,
            env={name: text for name, text in os.environ.items() if name != "BMQ_BROKER_URI"},
        )
        client = cls(process)
        try:
            await client._ask("start", compress=compress)
        except BaseException:
            await client.kill()
            raise
        return client

    # What a session can do. A refusal of the SDK is an SdkError.

    async def open(
        self,
        queue: str,
        *,
        read: bool = False,
        write: bool = False,
        priority: int | None = None,
        max_unconfirmed_messages: int | None = None,
        max_unconfirmed_bytes: int | None = None,
    ) -> None:
        options = _options(priority, max_unconfirmed_messages, max_unconfirmed_bytes)
        await self._ask("open", queue=queue, read=read, write=write, options=options)

    async def configure(
        self,
        queue: str,
        *,
        priority: int | None = None,
        max_unconfirmed_messages: int | None = None,
        max_unconfirmed_bytes: int | None = None,
    ) -> None:
        options = _options(priority, max_unconfirmed_messages, max_unconfirmed_bytes)
        await self._ask("configure", queue=queue, options=options)

    async def options(self, queue: str) -> dict[str, int]:
        return await self._ask("options", queue=queue)

    async def close(self, queue: str) -> None:
        await self._ask("close", queue=queue)

    async def put(
        self,
        queue: str,
        body: bytes,
        properties: Mapping[str, Value] | None = None,
        types: Mapping[str, str] | None = None,
        *,
        ack: bool = True,
    ) -> int:
        """Post, and do not wait for the acknowledgement that comes under the number."""
        post = next(self._numbers)
        await self._ask(
            "post",
            queue=queue,
            body=base64.b64encode(body).decode(),
            properties=encoded(properties or {}),
            types=types or {},
            post=post if ack else None,
        )
        return post

    async def acked(self, post: int) -> Acked:
        return await self._until(f"the ack of post {post}", lambda: self._acks.get(post))

    @property
    def acked_count(self) -> int:
        return len(self._acks)

    async def acks(self, count: int) -> list[str]:
        """The statuses of all acknowledgements so far, as soon as there are so many."""
        await self._until(f"{count} acks", lambda: True if len(self._acks) >= count else None)
        return [ack.status for ack in self._acks.values()]

    async def post(
        self,
        queue: str,
        body: bytes,
        properties: Mapping[str, Value] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> str:
        """Post, and wait for the acknowledgement; its status."""
        return (await self.acked(await self.put(queue, body, properties, types))).status

    async def post_all(
        self,
        queue: str,
        bodies: Iterable[bytes],
        properties: Mapping[str, Value] | None = None,
    ) -> None:
        """Post one after the other without waiting; all are to be taken."""
        posts = [await self.put(queue, body, properties) for body in bodies]
        statuses = [(await self.acked(post)).status for post in posts]
        assert statuses == [SUCCESS] * len(posts)

    async def message(self) -> Message:
        """The next message, in order of arrival."""
        await self._until("a message", lambda: self.messages or None)
        return self.messages.pop(0)

    async def take(self, count: int) -> list[Message]:
        """So many messages; more may have come."""
        await self._until(
            f"{count} messages", lambda: True if len(self.messages) >= count else None
        )
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken

    async def confirm(self, *messages: Message) -> None:
        """There is no reply: what follows on this session comes after it."""
        for message in messages:
            await self._ask("confirm", queue=message.queue, guid=message.guid)

    async def event(self, name: str, times: int = 1) -> None:
        """Wait until an event of the session has come so many times."""
        await self._until(name, lambda: True if self.events.count(name) >= times else None)

    async def settle(self) -> None:
        """Wait until all that was under way has come.

        What the client asked before has been done, and what the router sent it before is in
        `messages`: a message to a queue of its own has gone all the way round. It goes twice, as
        the first time it may share a turn of the router with the last request, and queues have
        no order among themselves.
        """
        if not self._has_fence:
            await self.open(self._fence, read=True, write=True)
            self._has_fence = True
        for _ in range(2):
            await self._go_round(next(self._fences))

    async def _go_round(self, fence: int) -> None:
        await self.put(self._fence, b"%d" % fence, ack=False)
        await self._until("the fence", lambda: True if fence in self._fenced else None)

    async def given(self) -> list[bytes]:
        """The bodies of the messages that came and were not taken, nothing being under way."""
        await self.settle()
        return bodies(self.messages)

    @property
    def _fence(self) -> str:
        return f"bmq://{FENCES}/{self._process.pid}"

    # Its end.

    async def stop(self) -> None:
        """Stop the session; the process ends well."""
        await self._ask("stop")
        await asyncio.wait(self._tasks, timeout=DEADLINE_SECONDS)
        async with asyncio.timeout(DEADLINE_SECONDS):
            code = await self._process.wait()
        assert code == 0, self._died()

    async def kill(self) -> None:
        """Kill -9."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await asyncio.wait(self._tasks)

    def suspend(self) -> None:
        """Let the process stand still: it is connected, and reads nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_killed(self) -> bool:
        return self._process.returncode == -signal.SIGKILL

    @property
    def is_stopped(self) -> bool:
        return self._process.returncode == 0

    # Inside.

    async def _ask(self, do: str, **arguments: object) -> dict[str, int]:
        number = next(self._numbers)
        line = json.dumps({"number": number, "do": do, **arguments})
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # its end is told below
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()
        await self._until(f"the answer to {line[:SEEN_CHARS]}", lambda: self._answers.get(number))
        answer = self._answers.pop(number)
        if "error" in answer:
            raise SdkError(answer["error"])
        return answer["answer"] or {}

    async def _until(self, what: str, found: Callable[[], T | None]) -> T:
        end = time.monotonic() + DEADLINE_SECONDS
        while (value := found()) is None:
            assert not self._ended, f"{what} did not come: {self._died()}"
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, end - time.monotonic())):
                    await self._changed.wait()
            if time.monotonic() >= end and found() is None:
                raise AssertionError(f"{what} did not come in time; {self._told()}")
        return value

    def _died(self) -> str:
        return f"the client ended with {self._process.returncode}; {self._told()}"

    def _told(self) -> str:
        seen, errors = "\n".join(self._seen), self._stderr[-4000:].decode(errors="replace")
        return f"events: {self.events}\nseen:\n{seen}\nstderr:\n{errors}"

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._take(json.loads(line))
            if b'"answer": null' not in line:
                self._seen.append(line.decode()[:SEEN_CHARS].rstrip())
            self._changed.set()
        await self._process.wait()
        self._ended = True
        self._changed.set()

    def _take(self, line: dict[str, Any]) -> None:
        if "number" in line:
            self._answers[line["number"]] = line
        elif line["event"] == "session":
            self.events.append(line["name"])
        elif line["event"] == "ack":
            self._acks[line["post"]] = Acked(line["status"], line["guid"])
        elif line["queue"] == self._fence:
            self._fenced.add(int(base64.b64decode(line["body"])))
            self._confirm_fence(line["guid"])
        else:
            self.messages.append(
                Message(
                    line["queue"],
                    line["guid"],
                    base64.b64decode(line["body"]),
                    decoded(line["properties"]),
                    line["types"],
                )
            )

    def _confirm_fence(self, guid: str) -> None:
        assert self._process.stdin is not None
        command = {"number": 0, "do": "confirm", "queue": self._fence, "guid": guid}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while part := await self._process.stderr.read(65_536):
            self._stderr += part


def _options(
    priority: int | None, max_unconfirmed_messages: int | None, max_unconfirmed_bytes: int | None
) -> dict[str, int]:
    options = {
        "consumer_priority": priority,
        "max_unconfirmed_messages": max_unconfirmed_messages,
        "max_unconfirmed_bytes": max_unconfirmed_bytes,
    }
    return {name: option for name, option in options.items() if option is not None}


def bodies(messages: Iterable[Message]) -> list[bytes]:
    return [message.body for message in messages]


def numbered(count: int, first: int = 0) -> list[bytes]:
    """So many bodies that tell their place."""
    return [b"%d" % number for number in range(first, first + count)]
