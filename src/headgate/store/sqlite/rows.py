"""Rows of SQLite's tables as values of the core, and back."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeAlias

from headgate.core.model.ids import MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Message, MessageEntry, Stored
from headgate.core.model.parties import Parties, QueueRecord
from headgate.core.turn.store_requests import Head
from headgate.store.blobs import (
    DAMAGED,
    decode_apps,
    decode_parties,
    decode_properties,
    encode_parties,
    encode_properties,
)

Row: TypeAlias = tuple[Any, ...]


def ids(parties: Parties | None) -> Row:
    """The ids of sender, notifier and link."""
    if parties is None:
        return None, None, None
    return (
        parties.sender,
        parties.notifier.id if parties.notifier is not None else None,
        parties.link.id if parties.link is not None else None,
    )


def record_row(record: QueueRecord) -> Row:
    """All parts of a record that can be amended."""
    parties = record.parties
    notifier = parties.notifier if parties is not None else None
    return (
        record.service,
        record.is_full,
        *ids(parties),
        notifier.service if notifier is not None else None,
        encode_parties(parties),
    )


def record(
    queue: QueueId, domain: str, service: ServiceId, full: int, parties: bytes
) -> QueueRecord:
    return QueueRecord(queue, domain, service, decode_parties(parties), bool(full))


def message_row(stored: Stored) -> Row:
    content = stored.message
    return (
        stored.seq,
        stored.queue,
        content.id,
        content.arrived,
        content.size,
        encode_properties(content.properties),
        content.body,
    )


def runs(seqs: Iterable[Seq]) -> list[tuple[Seq, Seq]]:
    """Some numbers, at least one, as the first and the last of each run without a gap."""
    ordered = sorted(seqs)
    gaps = [place for place, (a, b) in enumerate(pairwise(ordered), 1) if b != a + 1]
    return [(ordered[a], ordered[b - 1]) for a, b in pairwise((0, *gaps, len(ordered)))]


def heads(found: Iterable[Row]) -> tuple[dict[QueueId, Head], set[QueueId]]:
    """Heads from rows of a queue and one of its messages, or a queue and NULLs, and the queues that
    cannot be read. A queue that was requested in several ways comes several times, with more
    messages or fewer."""
    queues: dict[QueueId, tuple[Row, dict[Seq, Row]]] = {}
    for row in found:
        _, first = queues.setdefault(row[1], (row, {}))
        if row[7] is not None:
            first[row[7]] = row
    read: dict[QueueId, Head] = {}
    for queue, (row, first) in queues.items():
        with suppress(*DAMAGED):
            # Sorted here: ORDER BY would move the bodies through SQLite's sorter.
            messages = (message((seq, queue, *first[seq][8:])) for seq in sorted(first))
            read[queue] = Head(record(*row[1:6]), row[6], tuple(messages))
    return read, queues.keys() - read.keys()


def backlogs(found: Iterable[Row]) -> dict[QueueId, tuple[QueueRecord, list[MessageEntry]]]:
    queues: dict[QueueId, tuple[QueueRecord, list[MessageEntry]]] = {}
    for *kept, seq, id, arrived, size, encoded, held in found:
        queue = kept[0]
        if queue not in queues:
            queues[queue] = record(*kept), []
        if seq is not None:
            entry = MessageEntry(
                seq, id, arrived, size, decode_properties(encoded), decode_apps(held)
            )
            queues[queue][1].append(entry)
    for _, entries in queues.values():
        entries.sort(key=lambda entry: entry.seq)
    return queues


def entry(row: Row) -> MessageEntry:
    seq, id, arrived, size, encoded = row
    return MessageEntry(seq, id, arrived, size, decode_properties(encoded), ())


def message(row: Row) -> Stored:
    seq, queue, id, arrived, encoded, body, held = row
    content = Message(MessageId(id), body, arrived, decode_properties(encoded))
    return Stored(seq, queue, content, decode_apps(held))
