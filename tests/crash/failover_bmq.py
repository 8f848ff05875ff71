"""Owners that are killed or stopped under clients of BlazingMQ's SDK, who know one address."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.crash.bmq import DOMAINS, Result, play
from tests.crash.failover import KILL, OWNER_TIMEOUT, STOP
from tests.support.bmq_router import FENCES, Router
from tests.support.front import Front
from tests.support.router_pair import Pair

# A message that is given back once is given to nobody any more: no failover may count as that.
SECTIONS = f"""\
[listen.bmq]
port = 0
[domains.{FENCES}]
mode = "priority"
{DOMAINS}
max_delivery_attempts = 1
"""


class PairOfRouters(Router):
    """Two routers behind one address, of which the one that serves fails now and then."""

    def __init__(self, folder: Path, url: str) -> None:
        self.pair = Pair(folder, url, SECTIONS, OWNER_TIMEOUT)
        self._front = Front()
        self.seconds: list[tuple[str, float]] = []
        """How each failed, and how long it took until the other served."""

    async def __aenter__(self) -> PairOfRouters:
        await self._front.start()
        await self.pair.start()
        self._turn()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._front.stop()
        self.pair.kill()

    @property
    def broker(self) -> str:
        return f"tcp://127.0.0.1:{self._front.port}"

    @property
    def log(self) -> str:
        return "".join(member.log for member in self.pair.members)

    @property
    def _ready(self) -> Path:  # type: ignore[override]
        return self.pair.owner.ready_file

    def _turn(self) -> None:
        self._front.turn_to(self.pair.owner.addresses["bmq"]["port"])

    async def fail(self, draw: random.Random) -> None:
        """The owner is killed or stopped; the other serves; who was stopped goes on."""
        how = (STOP, KILL)[len(self.seconds) % 2]
        owner, other = self.pair.owner, self.pair.other
        begun = time.monotonic()
        (owner.kill if how == KILL else owner.pause)()
        await other.serves()
        self.seconds.append((how, time.monotonic() - begun))
        self._front.turn_to(other.addresses["bmq"]["port"])
        (owner.start if how == KILL else owner.go_on)()
        await owner.waits()


async def run(folder: Path, url: str, rounds: int, seed: int) -> tuple[Result, PairOfRouters]:
    async with PairOfRouters(folder, url) as routers:
        result = await play(routers, rounds, seed)
    return result, routers
