"""The check whether what is stored fits the modes of a configuration: else a start would lose
it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.shared.mode_check import complaint
from headgate.core.turn.store_requests import Listed, Listing, Load
from headgate.errors import ConfigError
from headgate.store.base import Store
from headgate.store.sqlite import sql

PAGE = 1000
"""Queues that are looked at together."""


async def check_modes(store: Store, domains: Mapping[str, Domain]) -> None:
    """Raise if the store has messages that could not be read in the mode of their domain."""
    for domain in _shared(domains):
        listed: list[Listed] = []
        page = Listing(domain.name, QueueId(b""), PAGE)
        while found := (await store.load(Load(listings={page}))).listings[page]:
            listed += found
            page = Listing(domain.name, found[-1].queue, PAGE)
        if text := complaint(domain, listed):
            raise ConfigError(text)


def check_modes_of_file(db: sqlite3.Connection, domains: Mapping[str, Domain]) -> None:
    """Check the modes against the queues in a file that a router has open."""
    question = sql.text(sql.LISTINGS, 4, 1)
    for domain in _shared(domains):
        most = 1 << 31
        found = db.execute(question, (0, domain.name, b"", most, most)).fetchall()
        listed = (
            Listed(queue, messages, size, None if is_whole is None else bool(is_whole), groups)
            for _, queue, messages, size, is_whole, groups in found
        )
        if text := complaint(domain, listed):
            raise ConfigError(text)


def _shared(domains: Mapping[str, Domain]) -> Iterator[Domain]:
    return (domain for domain in domains.values() if domain.mode is not Mode.EXCLUSIVE)
