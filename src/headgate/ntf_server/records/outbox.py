"""Facts in the tables, from the transaction of what they say until they are sealed."""

from __future__ import annotations

from headgate.core.ntf_facts import AnyFact
from headgate.ntf_server.records.fact_box import FactRow
from headgate.ntf_server.records.tables import Tables


def put(tables: Tables, row: FactRow) -> None:
    tables.change(
        "INSERT INTO outbox (first, last, facts) VALUES (?, ?, ?)", row.first, row.last, row.facts
    )


def add(tables: Tables, *facts: AnyFact) -> None:
    """Facts that no other change goes with."""
    for fact in facts:
        tables.record(fact)


def remove_sealed(tables: Tables, last: int) -> None:
    """Everything up to this number is in a segment."""
    tables.change("DELETE FROM outbox WHERE first <= ? AND last <= ?", last, last)


def unsealed(tables: Tables) -> tuple[int, int]:
    """The largest number that is here, and about how many bytes are."""
    row = tables.one("SELECT coalesce(max(last), 0) FROM outbox")
    size = tables.one("SELECT coalesce(sum(length(facts)), 0) FROM outbox")
    assert row is not None, "an aggregate has a row"
    assert size is not None, "an aggregate has a row"
    return int(row[0]), int(size[0])
