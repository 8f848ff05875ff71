"""Worlds with readers: named consumers that fetch, are lost, come back and claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.model.ids import SessionId
from headgate.core.shared.app import App
from headgate.core.shared.claiming import Claiming
from headgate.core.shared.reader import Readers
from headgate.core.turn.turn import Turn
from headgate.core.turn.undo import Undo
from headgate.testing.actors import Ticker
from headgate.testing.clients.reading import populate_with_readers
from headgate.testing.trace import Violation
from headgate.testing.world import DOMAINS, World, play

SEEDS = 100
CHUNK = 10
SEEDS_MAX = 60
"""Within so many seeds a broken variant has to be caught."""

WATCHING = ("answers", "losses", "confirms", "order", "states", "memory", "holding")
EVERYTHING = {"Claimed", "Confirmed", "Delivered", "Poisoned", "ReaderGone", "Returned"}


def played(seed: int) -> World:
    """A world in which readers are soon believed to be lost, and messages have few attempts. In
    every other one messages stay until somebody takes them: no operator gives them a time."""
    domains = [
        replace(domain, consumer_grace=0.5, max_delivery_attempts=seed % 3, message_ttl=None)
        for domain in DOMAINS
    ]
    actors = [Ticker()] if seed % 2 else None
    return play(seed, people=populate_with_readers, watch=WATCHING, domains=domains, actors=actors)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_is_lost_and_nothing_held_twice(first: int) -> None:
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


def never_deserted(self: Readers, session: SessionId, now: float, undo: Undo) -> None:
    """Who is gone is believed to be there."""


def claimed_and_kept(self: App, seq: int, undo: Undo) -> Any:  # noqa: ANN401
    """What is claimed stays in line."""


def forgotten_acks(self: Claiming, command: object, turn: Turn) -> Iterator[None]:
    """A claim that nobody answers."""
    yield from ()


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Readers, "leave", never_deserted),
        (App, "take_out", claimed_and_kept),
        (Claiming, "claim", forgotten_acks),
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
