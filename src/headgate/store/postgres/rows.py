"""Rows as values of the core, and back. Texts are bytes in the database, which allows no NUL in a
text."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from headgate.core.model.ids import MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import MARKER, Message, MessageEntry, Stored
from headgate.core.model.parties import QueueRecord
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Head, Past
from headgate.store.blobs import (
    DAMAGED,
    decode_apps,
    decode_parties,
    decode_properties,
    encode_parties,
    encode_properties,
)
from headgate.store.postgres.database import Row


def columns(rows: Iterable[Row]) -> list[list[Any]]:
    """The arrays for these rows, of which there is at least one."""
    return [list(column) for column in zip(*rows, strict=True)]


def record_row(record: QueueRecord) -> Row:
    """All parts of a record that can be amended."""
    parties = record.parties
    if parties is None:
        return record.service, record.is_full, None, None, None, None, None
    link, notifier = parties.link, parties.notifier
    return (
        record.service,
        record.is_full,
        parties.sender,
        notifier.id if notifier is not None else None,
        link.id if link is not None else None,
        notifier.service if notifier is not None else None,
        encode_parties(parties),
    )


def message_row(stored: Stored) -> Row:
    message = stored.message
    return (
        stored.seq,
        stored.queue,
        message.arrived,
        message.size,
        message.id,
        encode_properties(message.properties),
        message.body,
    )


def tallies(rows: Iterable[Row]) -> dict[ServiceId, Tally]:
    """The tally of each service, summed over the rows of its shards."""
    found: dict[ServiceId, Tally] = {}
    for service, count, hashed in rows:
        found[service] = found.get(service, NOTHING).join(Tally.parse(count, hashed))
    return found


def message(row: Row) -> Stored:
    seq, queue, id, arrived, properties, body, apps = row
    found = Message(MessageId(id), body, arrived, decode_properties(properties))
    return Stored(seq, queue, found, decode_apps(apps))


def heads(rows: Iterable[Row]) -> tuple[dict[QueueId, Head], set[QueueId]]:
    """Heads from rows of a queue and one of its messages, or a queue and NULLs, and the queues
    that cannot be read."""
    queues: dict[QueueId, tuple[Row, dict[Seq, Row]]] = {}
    for row in rows:
        _, first = queues.setdefault(row[0], (row, {}))
        if row[6] is not None:
            first[row[6]] = row
    read: dict[QueueId, Head] = {}
    for queue, (row, first) in queues.items():
        with suppress(*DAMAGED):
            # Sorted here: the server would move the bodies through its sorter.
            messages = (message((seq, queue, *first[seq][7:12])) for seq in sorted(first))
            read[queue] = Head(record(*row[:5]), row[5], tuple(messages))
    return read, queues.keys() - read.keys()


def backlogs(rows: Iterable[Row]) -> dict[QueueId, tuple[QueueRecord, list[MessageEntry]]]:
    found: dict[QueueId, tuple[QueueRecord, list[MessageEntry]]] = {}
    for queue, domain, service, full, parties, seq, id, arrived, size, properties, apps in rows:
        if queue not in found:
            found[queue] = record(queue, domain, service, full, parties), []
        if seq is not None:
            entry = MessageEntry(
                seq, id, arrived, size, decode_properties(properties), decode_apps(apps)
            )
            found[queue][1].append(entry)
    for _, entries in found.values():
        entries.sort(key=lambda entry: entry.seq)
    return found


def entry(row: Row) -> MessageEntry:
    seq, id, arrived, size, properties = row
    return MessageEntry(seq, id, arrived, size, decode_properties(properties), ())


def past(
    seq: Seq, queue: QueueId, domain: bytes, id: MessageId, arrived: float, properties: bytes
) -> Past:
    is_marker = decode_properties(properties).get(MARKER) is True
    return Past(seq, queue, domain.decode(), id, arrived, is_marker)


def record(
    queue: QueueId, domain: bytes, service: ServiceId | None, full: bool, parties: bytes | None
) -> QueueRecord:
    return QueueRecord(queue, domain.decode(), service, decode_parties(parties), full)
