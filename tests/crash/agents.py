"""Kill -9 of agents and of their router at random moments: every message comes, in order, and none
after its acknowledgement."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from headgate.agent.records import Records
from headgate.agent.records.check import check
from headgate.testing.agents.laws import QueueBook
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.crash.routers import lasting_port, start

QUEUES = 3
CONNECTIONS = 3
HANDSHAKE_KILLS = 6
"""At most, before all are connected: then they are let alone until they are."""
PATIENCE_SECONDS = 120
CONFIG = """\
directory = "state"
[admin]
port = 0
[listen.smp]
port = {port}
[smp]
queue_quota = 20
end_flush = "50ms"
"""


@dataclass
class Result:
    kills: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    acknowledged: int = 0
    shown_again: int = 0
    unanswered: int = 0
    """Messages whose `send` was cut off by a kill, and that came all the same."""
    wrong: list[str] = field(default_factory=list)


class Family(ABC):
    """A router and two programs, each with its file, and what the programs printed before they
    were killed. Each way that messages go has a book."""

    program: ClassVar[str]
    """The module of the programs."""
    verbs: ClassVar[tuple[str, str]]
    """What the two do."""
    ways: ClassVar[tuple[str, ...]]
    places: ClassVar[int]
    """How many addresses or links one of them makes for the other."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.draw = random.Random(seed)
        self.result = Result()
        self.books = {name: QueueBook(name, self._broken) for name in self.ways}
        self.begun: dict[str, set[int]] = {name: set() for name in self.books}
        self.addresses: dict[str, str] = {}
        self.lines = 0
        self._router: subprocess.Popen[bytes] | None = None
        self._address: RouterAddress | None = None
        self._programs: dict[str, Process] = {}
        self._readings: dict[str, asyncio.Task[None]] = {}
        self._is_last = False
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "headgate.toml").write_text(CONFIG.format(port=lasting_port()))

    def _broken(self, law: str, what: str) -> None:
        self.result.wrong.append(f"{law}: {what}")

    # Rounds.

    async def play(self) -> None:
        """Start what is not running, let it work, and kill some of it."""
        await self._start()
        lines, seconds = self._work()
        wanted = self.lines + lines
        await self._until(lambda: self.lines >= wanted, "the programs work")
        await asyncio.sleep(seconds)
        one, other = self.verbs
        for name in self.draw.choice(
            (["router"], [one], [other], [one, other], ["router", one, other])
        ):
            await self._kill(name)
            self.result.kills[name] += 1

    def _work(self) -> tuple[int, float]:
        """Lines and then seconds after which something is killed."""
        return self.draw.randrange(20, 200), self.draw.uniform(0, 0.1)

    async def finish(self) -> Result:
        """Send nothing more, and wait for all that was sent."""
        self._is_last = True
        for name in self.verbs:
            await self._kill(name)
        await self._start()
        await self._until(
            lambda: not any(book.left for book in self.books.values()), "all messages come"
        )
        # What was sent without an answer has come by now, or will not: its queue is in order.
        await self.close()
        for name in self.verbs:
            async with await Records.open(self.folder / f"{name}.db") as records:
                self.result.wrong += await records.read(check)
        for name, book in self.books.items():
            if book.shown.keys() - self.begun[name]:
                self.result.wrong.append(f"{name}: messages came that nobody sent")
            self.result.sent += len(book.sent)
            self.result.acknowledged += len(book.acknowledged)
            self.result.shown_again += sum(times > 1 for times in book.shown.values())
            self.result.unanswered += len(book.shown.keys() - book.sent)
        return self.result

    async def close(self) -> None:
        for name in ("router", *self.verbs):
            await self._kill(name)

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds() and not self.result.wrong:
            await asyncio.sleep(0.005)
            for name, program in self._programs.items():
                if program.returncode is not None:
                    self.result.wrong.append(f"{name} ended by itself: {self._log(name)}")
            if time.monotonic() > end:
                left = {name: book.left[:5] for name, book in self.books.items()}
                self.result.wrong.append(f"{what}: not in {PATIENCE_SECONDS} s; {left} are left")

    # Processes.

    async def _start(self) -> None:
        if self._router is None:
            self._router = await asyncio.to_thread(start, self.folder)
            self._address = self._router_address()
        one, other = self.verbs
        if one not in self._programs:
            await self._run(one, *self._first(str(self._address)))
        await self._until(lambda: len(self.addresses) == self.places, "addresses are made")
        if other not in self._programs:
            addresses = [self.addresses[name] for name in sorted(self.addresses)]
            await self._run(other, *self._second(str(self._address), addresses))

    @abstractmethod
    def _first(self, router: str) -> list[str]:
        """The arguments of the program that makes addresses."""

    @abstractmethod
    def _second(self, router: str, addresses: list[str]) -> list[str]:
        """Those of the other one."""

    @property
    def next(self) -> str:
        """The number from which on to send; 0 for nothing more."""
        return str(0 if self._is_last else 1 + max(book.begun for book in self.books.values()))

    def _router_address(self) -> RouterAddress:
        ready = json.loads((self.folder / "ready.json").read_text())["smp"]
        return RouterAddress.parse(f"smp://{ready['fingerprint']}@{ready['host']}:{ready['port']}")

    async def _run(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self.program, name),
                *(str(self.folder / f"{name}.db"), *arguments),
                stdout=PIPE,
                stderr=log,
            )
        self._programs[name] = program
        self._readings[name] = asyncio.create_task(self._read(program))

    async def _kill(self, name: str) -> None:
        if name == "router":
            router, self._router = self._router, None
            if router is not None:
                router.kill()
                await asyncio.to_thread(router.wait)
            return
        program = self._programs.pop(name, None)
        if program is not None:
            if program.returncode is None:
                program.kill()
            await program.wait()
            # What it printed before it was killed counts.
            await self._readings.pop(name)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-2000:]

    async def _read(self, program: Process) -> None:
        assert program.stdout is not None
        while (line := await program.stdout.readline()).endswith(b"\n"):
            self._note(line.decode().split())

    def _note(self, words: list[str]) -> None:
        what, name, word = words
        self.lines += 1
        if what == "made":
            if self.addresses.setdefault(name, word) != word:
                self.result.wrong.append(f"{name} has another address")
            return
        book = self.books[name]
        number = int(word)
        match what:
            case "begun":
                self.begun[name].add(number)
                book.begun = max(book.begun, number)
            case "sent":
                book.sent.add(number)
            case "shown":
                # What the other program printed before it may be read after it.
                book.begun = max(book.begun, number)
                book.show(number)
                book.done.add(number)
            case "acked":
                book.acknowledged.add(number)


class Queues(Family):
    """One program makes queues and reads them, the other sends to them."""

    program = "tests.crash.agent_program"
    verbs = ("read", "write")
    ways = tuple(f"q{number}" for number in range(QUEUES))
    places = QUEUES

    def _first(self, router: str) -> list[str]:
        services = ["--services"] if self.draw.random() < 0.5 else []
        return [router, str(QUEUES), *services]

    def _second(self, router: str, addresses: list[str]) -> list[str]:
        return [self.next, *addresses]


class Connections(Family):
    """One program invites, the other joins, and both write to each other, from before they are
    connected: kills meet every step of the handshake."""

    program = "tests.crash.peer_program"
    verbs = ("invite", "join")
    ways = tuple(f"c{number}{way}" for number in range(CONNECTIONS) for way in "<>")
    places = CONNECTIONS

    def _work(self) -> tuple[int, float]:
        is_connecting = not all(book.begun for book in self.books.values())
        if is_connecting and self.result.kills.total() < HANDSHAKE_KILLS:
            return 0, self.draw.uniform(0.3, 2.0)
        return super()._work()

    def _first(self, router: str) -> list[str]:
        return [router, self.next, str(CONNECTIONS)]

    def _second(self, router: str, addresses: list[str]) -> list[str]:
        return [router, self.next, *addresses]


async def run(
    folder: Path, rounds: int, seed: int, family: Callable[[Path, int], Family] = Queues
) -> Result:
    """So many kills, and the end of it."""
    playing = family(folder, seed)
    try:
        for _ in range(rounds):
            if not playing.result.wrong:
                await playing.play()
        if not playing.result.wrong:
            await playing.finish()
    finally:
        await playing.close()
    return playing.result
