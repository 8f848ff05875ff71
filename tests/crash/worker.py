"""A router under load that expects to be killed.

    python -m tests.crash.worker FOLDER SEED

Every line on standard output is a promise or an intention, written before the router goes on:

    R queue message     a receipt was given
    A queue message     a confirm is about to be asked for
    D queue message     the confirm was answered
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from pathlib import Path

from headgate.core.commands import Confirm, Create, Interest, Open, Send, Subscribe
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.errors import NoMessage, NoSuchQueue, QueueExists, QuotaReached
from headgate.journal.sealer_process import JournalSettings
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore

# Full queues make senders wait, or the backlog would grow from round to round until a router
# spends its short life reading it.
EXCLUSIVE = Domain("line", Mode.EXCLUSIVE, max_messages=200)
FANOUT = Domain("fan", Mode.FANOUT, apps=("a", "b"), max_messages=1000)
DOMAINS = {domain.name: domain for domain in (EXCLUSIVE, FANOUT)}
LINES = tuple(QueueId(b"line%d" % n) for n in range(5))
FAN = QueueId(b"fan")
INTERESTS = (Interest(window=Window(10)),)


def say(kind: str, queue: QueueId, message: MessageId) -> None:
    os.write(1, f"{kind} {queue.decode()} {message.decode()}\n".encode())


async def main(folder: Path, seed: int) -> None:
    router = Router(
        store=SqliteStore(folder / "queues.db"),
        domains=DOMAINS,
        limits=Limits(),
        journal=JournalSettings(folder / "journal", 1_000_000, None, None),
    )
    await router.start()
    tasks = [kill_sealers(router, seed)]
    for queue in LINES:
        tasks += [send(router, queue, seed), receive(router, queue, seed)]
    tasks += [send(router, FAN, seed), read(router, "a", seed), read(router, "b", seed)]
    os.write(1, b"ready\n")
    await asyncio.gather(*tasks)


async def kill_sealers(router: Router, seed: int) -> None:
    """The sealer dies now and then too."""
    draw = random.Random(f"sealer {seed}")
    while True:
        await asyncio.sleep(draw.uniform(0.05, 0.5))
        if router.journal is not None and router.journal.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(router.journal.process.pid, signal.SIGKILL)


async def send(router: Router, queue: QueueId, seed: int) -> None:
    session = InProcessSession(router, "sender")
    if queue == FAN:
        await session.ask(Open, FAN, "fan", read=False, write=True)
    else:
        with contextlib.suppress(QueueExists):
            await session.ask(Create, queue, "line")
    draw = random.Random(f"send {queue!r} {seed}")
    number = 0

    async def one() -> None:
        nonlocal number
        number += 1
        message = MessageId(b"%b-%d-%d" % (queue, seed, number))
        body = bytes(draw.randrange(2000))
        try:
            await session.ask(Send, queue, Message(message, body, router.clock()))
        except QuotaReached:
            await asyncio.sleep(0.005)
        else:
            say("R", queue, message)

    while True:
        await asyncio.gather(*(one() for _ in range(draw.randrange(1, 30))))


async def receive(router: Router, queue: QueueId, seed: int) -> None:
    """Subscribe, confirm some, and hang up now and then."""
    draw = random.Random(f"receive {queue!r} {seed}")
    while True:
        session = InProcessSession(router, "receiver")
        try:
            await session.ask(Subscribe, queue)
        except NoSuchQueue:
            await asyncio.sleep(0.001)
            session.close()
            continue
        message = (await session.delivery()).message.id
        for _ in range(draw.randrange(1, 40)):
            say("A", queue, message)
            try:
                answer = await session.ask(Confirm, queue, (message,))
            except NoMessage:
                break
            say("D", queue, message)
            following = getattr(answer, "message", None)
            message = following.id if following else (await session.delivery()).message.id
        session.close(lost=draw.random() < 0.5)


async def read(router: Router, app: str, seed: int) -> None:
    """One app of the fanout queue. Only when both have confirmed is a message gone."""
    draw = random.Random(f"read {app} {seed}")
    while True:
        session = InProcessSession(router, app)
        await session.ask(Open, FAN, "fan", app, interests=INTERESTS)
        for _ in range(draw.randrange(1, 60)):
            message = (await session.delivery()).message.id
            if draw.random() < 0.8:
                say(f"A{app}", FAN, message)
                await session.ask(Confirm, FAN, (message,), app)
                say(f"D{app}", FAN, message)
        session.close(lost=draw.random() < 0.5)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
