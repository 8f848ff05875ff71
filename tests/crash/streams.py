"""Producers and workers of a stream while their router is killed, and what they saw."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from tests.support.resp_servers import eventually
from tests.support.stream_router import StreamRouter

LOST = (redis.ConnectionError, redis.TimeoutError)
PAUSE_SECONDS = 0.02
WORKERS = 3


@dataclass
class Seen:
    """What clients know of entries, by what is in them."""

    added: set[str] = field(default_factory=set)
    """The router has answered that it has them."""
    delivered: Counter[str] = field(default_factory=Counter)
    acknowledged: set[str] = field(default_factory=set)
    """The router has answered that they are done with."""
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Crew:
    """One producer and some workers, each in a thread, that go on whatever happens."""

    def __init__(self, router: StreamRouter) -> None:
        self._router = router
        self.seen = Seen()
        self._is_over = threading.Event()
        self.is_adding = threading.Event()
        self.is_adding.set()
        self._threads = [threading.Thread(target=self._produce, daemon=True)]
        self._threads += [
            threading.Thread(target=self._work, args=(f"w{n}",), daemon=True)
            for n in range(WORKERS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(30)

    def _produce(self) -> None:
        number = 0
        while not self._is_over.is_set():
            with suppress(*LOST):
                client = self.client()
                while not self._is_over.is_set():
                    if not self.is_adding.wait(PAUSE_SECONDS):
                        continue
                    number += 1
                    client.xadd("w", {"n": str(number), "data": f"body {number}"})
                    with self.seen.lock:
                        self.seen.added.add(str(number))
            self._is_over.wait(PAUSE_SECONDS)

    def _work(self, name: str) -> None:
        while not self._is_over.is_set():
            with suppress(*LOST):
                client = self.client()
                while not self._is_over.is_set():
                    self._take(client, name)
            self._is_over.wait(PAUSE_SECONDS)

    def _take(self, client: redis.Redis, name: str) -> None:
        found: Any = client.xreadgroup("team", name, {"w": ">"}, count=5, block=100)
        for _, entries in found or ():
            for id, fields in entries:
                number = fields["n"]
                with self.seen.lock:
                    self.seen.delivered[number] += 1
                    if number in self.seen.acknowledged:
                        self.seen.wrong.append(f"{number} came again after its acknowledgement")
                    if fields["data"] != f"body {number}":
                        self.seen.wrong.append(f"{number} came with {fields}")
                if client.xack("w", "team", id) == 1:
                    with self.seen.lock:
                        self.seen.acknowledged.add(number)

    def client(self) -> redis.Redis:
        host, port = self._router.resp
        return redis.Redis(host, port, decode_responses=True, socket_timeout=10)


def run(folder: Path, rounds: int, entries: int) -> Seen:
    """Kill the router so many times, each time after so many entries more; then let the crew come
    to rest."""
    router = StreamRouter(folder)
    router.start()
    crew = Crew(router)
    crew.start()
    seen = crew.seen
    try:
        for _ in range(rounds):
            enough = len(seen.added) + entries
            eventually(lambda enough=enough: len(seen.added) >= enough, "entries are added")  # type: ignore[misc]
            router.kill()
            router.start()
        crew.is_adding.clear()
        eventually(lambda: seen.added <= seen.delivered.keys(), "everything is delivered")
        client = crew.client()
        eventually(lambda: client.xlen("w") == 0, "everything is acknowledged")
    finally:
        crew.stop()
        router.stop()
    return seen
