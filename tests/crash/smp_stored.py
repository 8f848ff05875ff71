"""What is in the store of a router of the SMP wire that does not run, and what its facts say."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally, name_of
from headgate.core.model.value import value
from headgate.core.turn.store_requests import Head, Load
from headgate.journal import reader
from headgate.journal.sealer import Bounds, Sealer
from headgate.store import open_store
from headgate.store.base import Store

MANY = 10**6


@value
class Kept:
    """A queue as the store has it."""

    service: bytes | None
    notifier: bytes
    notifier_service: bytes | None
    is_full: bool
    messages: tuple[tuple[bytes, bytes, bool], ...]
    """Id, body, and whether it is a marker."""


@dataclass
class Contents:
    queues: dict[bytes, Kept] = field(default_factory=dict)
    tallies: dict[bytes, Tally] = field(default_factory=dict)
    identities: set[bytes] = field(default_factory=set)
    """Services."""
    strays: int = 0
    """Messages without a queue."""

    def owned(self) -> Iterator[tuple[bytes, bytes]]:
        """What is associated with a service, queues and notifiers, and with which."""
        for id, kept in self.queues.items():
            if kept.service is not None:
                yield id, kept.service
            if kept.notifier_service is not None:
                yield kept.notifier, kept.notifier_service

    def recount(self, service: bytes) -> Tally:
        return Tally.of(QueueId(id) for id, owner in self.owned() if owner == service)

    def compare_tallies(self) -> Iterator[str]:
        for service, tally in self.tallies.items():
            if tally != self.recount(service):
                yield f"the tally of {service.hex()} is {tally}, not {self.recount(service)}"


async def contents_of(url: str, folder: Path, store: Store | None = None) -> Contents:
    """Read behind the store's back what there is, and through the store what it is."""
    with closing(_connect(url, folder)) as db:
        ids = [bytes(id) for (id,) in db.execute("SELECT id FROM queues").fetchall()]
        known = [bytes(id) for (id,) in db.execute("SELECT service FROM identities").fetchall()]
        [(strays,)] = db.execute(
            "SELECT count(*) FROM messages WHERE queue NOT IN (SELECT number FROM queues)"
        ).fetchall()
    store = store or open_store(url, folder)
    await store.open()
    try:
        loaded = await store.load(
            Load(heads={QueueId(id): MANY for id in ids}, services=set(map(ServiceId, known)))
        )
    finally:
        await store.close()
    queues = {bytes(id): _kept(head) for id, head in loaded.heads.items()}
    tallies = {bytes(id): loaded.services.get(ServiceId(id), NOTHING) for id in known}
    return Contents(queues, tallies, set(known), strays)


def _connect(url: str, folder: Path) -> sqlite3.Connection | psycopg.Connection[Any]:
    if url.startswith("sqlite:"):
        return sqlite3.connect(folder / url.removeprefix("sqlite:"))
    return psycopg.connect(url, options="-c search_path=headgate")


def _kept(head: Head) -> Kept:
    record, parties = head.record, head.record.parties
    assert parties is not None, "a queue of this wire has parties"
    assert len(head.first) == head.messages, "the store counts what it has"
    notifier = parties.notifier
    return Kept(
        record.service,
        b"" if notifier is None else notifier.id,
        None if notifier is None else notifier.service,
        record.is_full,
        tuple((s.message.id, s.message.body, s.message.is_marker) for s in head.first),
    )


def seal_all(source: str, directory: Path) -> None:
    """Seal what is left, as a new sealer would."""
    sealer = Sealer(source, directory, Bounds())
    while sealer.seal(2**62):
        pass
    sealer.close()


@dataclass
class Told:
    """The facts of a journal, played back as far as they go."""

    last: int = 0
    queues: dict[bytes, list[bytes]] = field(default_factory=dict)
    """The messages of each queue, which is named by its digest."""
    owners: dict[bytes, bytes] = field(default_factory=dict)
    services: set[bytes] = field(default_factory=set)
    confirmed: set[bytes] = field(default_factory=set)

    def read(self, source: str, directory: Path) -> Iterator[str]:
        """Seal what is left, as a new sealer would, and play what came since."""
        seal_all(source, directory)
        return self.play(reader.facts(directory, self.last))

    def play(self, facts: Iterable[dict[str, Any]]) -> Iterator[str]:
        for fact in facts:
            if fact["number"] <= self.last:
                yield f"number {fact['number']} comes after {self.last}"
            self.last = fact["number"]
            if problem := self._play(fact):
                yield f"fact {self.last}: {problem}"

    def _play(self, fact: dict[str, Any]) -> str | None:
        queue, message = fact.get("queue", b""), fact.get("message", b"")
        match fact["kind"]:
            case "QueueCreated":
                if queue in self.queues:
                    return "a queue was made twice"
                self.queues[queue] = []
            case "QueueDeleted":
                if queue not in self.queues:
                    return "a queue was deleted that is not there"
                if fact["messages"] != len(self.queues.pop(queue)):
                    return "a queue was deleted with another number of messages"
            case "Accepted":
                if queue not in self.queues or message in self.queues[queue]:
                    return "a message was taken twice, or by no queue"
                self.queues[queue].append(message)
            case "Confirmed":
                if self.queues.get(queue, [])[:1] != [message]:
                    return "a message was confirmed that is not the first"
                del self.queues[queue][0]
                self.confirmed.add(message)
            case "Associated":
                self.owners.pop(queue, None)
                if "service" in fact:
                    self.owners[queue] = fact["service"]
            case "ServiceIdentified":
                self.services.add(fact["service"])
        return None

    def compare(self, contents: Contents) -> Iterator[str]:
        stored = {
            name_of(QueueId(id)): [message for message, *_ in kept.messages]
            for id, kept in contents.queues.items()
        }
        for name in stored.keys() | self.queues.keys():
            if stored.get(name) != self.queues.get(name):
                yield f"{name.hex()} has {stored.get(name)}, told is {self.queues.get(name)}"
        owned = {name_of(QueueId(id)): owner for id, owner in contents.owned()}
        if owned != self.owners:
            yield f"told and stored associations differ: {self.owners.items() ^ owned.items()}"
        if contents.identities != self.services:
            yield "told and stored services differ"
