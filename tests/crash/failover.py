"""An owner that is killed or stopped under load: the other router has what it answered."""

from __future__ import annotations

import asyncio
import random
import time
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.client.smp.service import make_service
from headgate.core.model.ids import Seq
from headgate.journal import reader
from headgate.store.postgres import PostgresStore
from tests.crash.smp import Round, verified
from tests.crash.smp_ledger import Ledger
from tests.crash.smp_load import MESSAGING, NOTIFYING, Door, Load
from tests.crash.smp_stored import Contents, Told, contents_of, seal_all
from tests.support.router_pair import Pair

SECTIONS = """\
[listen.smp]
port = 0
[smp]
queue_quota = 5
end_flush = "50ms"
notification_flush = "50ms"
"""
DEADLINE_SECONDS = 60.0
OWNER_TIMEOUT = "3s"
"""Long enough for a busy machine."""
KILL, STOP = "kill", "stop"


@dataclass
class Failover(Round):
    how: str = ""
    seconds: float = 0.0
    """From the signal until the other one served."""
    late: int = 0
    """Answers that a stopped owner gave when it went on. They have to be true."""


class LookedAt(PostgresStore):
    """Reads what is stored while a router has it."""

    async def open(self) -> Seq:
        self._database._prepare = lambda db: None  # type: ignore[method-assign]
        self._database._try_lock = lambda db: True  # type: ignore[method-assign]
        return await super().open()


class Failovers:
    """One database, two routers, and the clients that see one after the other."""

    def __init__(self, folder: Path, url: str) -> None:
        self.pair = Pair(folder, url, SECTIONS, OWNER_TIMEOUT)
        self.ledger = Ledger()
        self._url = url
        self._contents = Contents()
        self._services = {name: make_service(time.time()) for name in (*MESSAGING, NOTIFYING)}

    async def play(self, seed: int, how: str) -> Failover:
        """Look at what the last failover left, load, kill or stop at a drawn moment, look into the
        store, and let who was stopped go on."""
        draw, result = random.Random(f"failover {seed}"), Failover(how=how)
        owner, other = self.pair.owner, self.pair.other
        door = self._door(owner.addresses["smp"])
        await verified(self.ledger, self._contents, door, draw, 0.5, result)
        load = Load(self.ledger, door, seed, store_may_fail=False)
        await load.start()
        await self._busy(load, draw.randrange(30, 120), result)
        await asyncio.sleep(draw.uniform(0, 0.1))
        load.is_over = True
        begun = time.monotonic()
        (owner.kill if how == KILL else owner.pause)()
        await other.serves()
        result.seconds = time.monotonic() - begun
        self._contents = await self._look()
        if how == STOP:
            answered = load.taken + load.acks
            owner.go_on()
        await load.stop()
        if how == STOP:
            result.late = load.taken + load.acks - answered
        else:
            owner.start()
        await owner.waits()
        again = await self._look()
        result.taken, result.acks, result.markers = load.taken, load.acks, load.full
        result.cut_off = sum(line.cut_off for line in self.ledger.lines.values())
        result.wrong += load.wrong
        result.wrong += self.ledger.compare(self._contents)
        result.wrong += self._contents.compare_tallies()
        if again != self._contents:
            result.wrong.append("the store changed after it was taken over")
        self.ledger.settle(self._contents)
        return result

    async def finish(self, seed: int) -> Round:
        """Read everything that is left, end both, and play back the facts of both journals."""
        result = Round()
        door = self._door(self.pair.owner.addresses["smp"])
        await verified(self.ledger, self._contents, door, random.Random(seed), 1.0, result)
        self.pair.kill()
        contents = await contents_of(self._url, self.pair.members[0].folder)
        result.wrong += self.ledger.compare(contents)
        left = sum(len(kept.messages) for kept in contents.queues.values())
        if left:
            result.wrong.append(f"{left} messages are left")
        result.wrong += self._compare_facts(contents)
        for member in self.pair.members:
            if "Traceback" in member.log:
                result.wrong.append(member.log[member.log.index("Traceback") :][:2000])
        return result

    def _compare_facts(self, contents: Contents) -> list[str]:
        """A fact has one number, and is the same in both journals if it is in both."""
        folders = [member.journal for member in self.pair.members]
        seal_all(self._url, folders[0])
        facts: dict[int, dict[str, Any]] = {}
        wrong = [
            f"two facts have the number {fact['number']}"
            for folder in folders
            for fact in reader.facts(folder, 0)
            if facts.setdefault(fact["number"], fact) != fact
        ]
        told = Told()
        wrong += told.play([facts[number] for number in sorted(facts)])
        wrong += told.compare(contents)
        return wrong

    def _door(self, told: dict[str, Any]) -> Door:
        known = urlsafe_b64decode(told["fingerprint"] + "=")
        return Door(told["host"], told["port"], known, self._services)

    async def _look(self) -> Contents:
        return await contents_of(self._url, Path(), LookedAt(self._url))

    async def _busy(self, load: Load, messages: int, result: Round) -> None:
        wanted, end = load.taken + messages, time.monotonic() + DEADLINE_SECONDS
        while load.taken < wanted:
            await asyncio.sleep(0.005)
            if load.wrong or time.monotonic() > end:
                result.wrong.append(f"only {load.taken} messages were taken")
                return
