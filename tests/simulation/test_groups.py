"""Worlds with groups that clients make, histories, dead letters and channels that feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.facts import Poisoned
from headgate.core.model.message import MessageEntry
from headgate.core.reader_commands import Feed
from headgate.core.reader_effects import Fed
from headgate.core.shared.app import App
from headgate.core.shared.dead_letters import DeadLetters
from headgate.core.shared.feeding import Feeding
from headgate.core.shared.history import History
from headgate.core.shared.kept import KeptMessages
from headgate.core.shared.open_groups import OpenGroups
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError
from headgate.testing.actors import Ticker
from headgate.testing.clients.grouping import (
    GROUP_DOMAINS,
    narrow_history,
    populate_with_groups,
)
from headgate.testing.trace import Violation
from headgate.testing.world import World, play

SEEDS = 100
CHUNK = 10
SEEDS_MAX = 60
"""Within so many seeds a broken variant has to be caught."""
KEPT = 3

WATCHING = ("answers", "losses", "confirms", "states", "memory", "holding", "histories")
EVERYTHING = {
    "Confirmed", "DeadLettered", "FeedDropped", "GroupCreated", "GroupDropped", "Poisoned",
    "Skipped", "Trimmed", "TurnFailed",
}  # fmt: skip


def played(seed: int) -> World:
    """A world in which groups come and go. In every other one the history is short, and the queue
    often full."""
    domains = GROUP_DOMAINS if seed % 2 else narrow_history(GROUP_DOMAINS, KEPT)
    return play(
        seed, people=populate_with_groups, watch=WATCHING, domains=domains, actors=[Ticker()]
    )


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_group_gets_what_it_is_to_get(first: int) -> None:
    """Check 78."""
    for seed in range(first, first + CHUNK):
        played(seed)


def test_such_worlds_have_everything_in_them() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += played(seed).counts
        if set(seen) >= EVERYTHING:
            return
    pytest.fail(f"no world has {EVERYTHING - set(seen)}")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(146, id="two groups give up a message in the same turn"),
        pytest.param(108, id="a message is kept twice, and a group begins before both"),
    ],
)
def test_worlds_that_found_something(seed: int) -> None:
    played(seed)


def not_kept(self: History, queue: SharedQueue, entry: MessageEntry, turn: Turn) -> None:
    """What all have confirmed is gone, history or not."""
    queue.remove(entry, turn.undo)
    turn.batch.delete.add(entry.seq)


def nothing_of_the_past(
    self: OpenGroups, queue: SharedQueue, app: App, after: object, turn: Turn
) -> Generator[None, None, int]:
    """A group gets only what comes from now on."""
    yield from ()
    return 0


def dropped_in_memory(
    self: OpenGroups, queue: SharedQueue, name: str, reason: str, turn: Turn
) -> Iterator[None]:
    """A group that comes again with the next start."""
    yield from DROPPING(self, queue, name, reason, turn)
    del turn.batch.groups[queue.id, name]


def lost_letters(
    self: DeadLetters,
    queue: SharedQueue,
    app: App,
    entry: MessageEntry,
    attempts: int,
    target: object,
    bodies: object,
    turn: Turn,
) -> None:
    """What is given up is nowhere."""
    turn.facts.append(Poisoned(turn.now, queue.id, app.id, entry.id, attempts))
    self._releasing.dereference(queue, entry, app, turn)


def one_by_one(self: Feeding, command: Feed, turn: Turn) -> None:
    """Some of the queues have it when another one is full."""
    for part in command.parts:
        try:
            queue = self._place(part, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, part.queue, error)
            return
        if queue is not None:
            self._accepting.take_in(queue, replace(part.message, arrived=turn.now), turn)
    turn.effects.append(Fed(command.session, command.ref, len(command.parts)))


def never_put_back(self: KeptMessages, count: int, undo: object) -> Any:  # noqa: ANN401
    """A history that is trimmed although the turn fails."""
    seqs, sizes = list(self.seqs[:count]), sum(self.sizes[:count])
    del self.seqs[:count], self.arrived[:count], self.sizes[:count]
    return seqs, sizes


DROPPING = OpenGroups._dropping


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (History, "keep", not_kept),
        (OpenGroups, "_referring", nothing_of_the_past),
        (OpenGroups, "_dropping", dropped_in_memory),
        (DeadLetters, "_bury", lost_letters),
        (Feeding, "feed", one_by_one),
        (KeptMessages, "remove_first", never_put_back),
    ],
)
def test_broken_variants_are_caught(
    owner: type, name: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    for seed in range(SEEDS_MAX):
        try:
            played(seed)
        except Violation:
            return
    pytest.fail("nobody noticed")
