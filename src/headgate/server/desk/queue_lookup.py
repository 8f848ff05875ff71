"""Queues by their names: from memory, or else with one question to the store, if that has time."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING

from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.model.ids import QueueId, ServiceId, SessionId
from headgate.core.model.parties import QueueRecord
from headgate.core.model.queue_uri import SCHEME, parse_uri
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.store_requests import Listed, Listing, Load, Loaded
from headgate.errors import HeadgateError
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import (
    Blocker,
    QueueAnswer,
    StoredQueueRow,
    StoredQueuesAnswer,
)
from headgate.server.desk.asking import shown
from headgate.server.desk.kept import is_shared
from headgate.server.desk.names import digest, local_name, short_name

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

DOMAINS_NAMED = 20
BUSY = 0.8
"""Above it the store is not asked for those who only look."""
ID_BYTES = 24
"""Of the queues of SimpleX clients."""
ID_HINT = "an exclusive queue is found by the id that its recipient knows, not by its digest"


async def look_up(desk: Desk, name: str) -> QueueAnswer:
    """A shared queue by its address, with or without ``bmq://``; an exclusive one by its id in hex
    or base64, which has no slash in it."""
    if "/" in name:
        return await _shared(desk, name if name.startswith(SCHEME) else SCHEME + name)
    queue = _id(name)
    cached = desk.router.broker.shard.cache.find(queue)
    if cached is not None:
        return _exclusive(desk, cached.record, cached.messages, cached)
    loaded = await _asked(desk, Load(heads={queue: 1}))
    head = loaded.heads.get(queue)
    if head is None:
        raise Refusal(404, "there is no queue with this id", "no_such_queue", ID_HINT)
    return _exclusive(desk, head.record, head.messages, CachedQueue(head), in_memory=False)


async def listed(desk: Desk, domain: str, after: str, limit: int) -> StoredQueuesAnswer:
    """Shared queues of a domain that come after a name, open or not."""
    page = Listing(domain, QueueId(after.encode()), limit)
    found = (await _asked(desk, Load(listings={page}))).listings[page]
    here = desk.router.broker.shard.shared.queues
    rows = [_stored(domain, each, here.get(each.queue)) for each in found]
    return StoredQueuesAnswer(rows=rows, next=rows[-1].queue if len(rows) == limit else None)


def _stored(domain: str, listed: Listed, here: SharedQueue | None) -> StoredQueueRow:
    return StoredQueueRow(
        queue=listed.queue.decode(errors="backslashreplace"),
        domain=domain,
        messages=listed.messages,
        bytes=listed.bytes,
        consumers=0 if here is None else len(here.readers()),
        producers=0 if here is None else len(here.producers),
    )


def _id(name: str) -> QueueId:
    for decode in (bytes.fromhex, _base64):
        try:
            found = decode(name)
        except ValueError:
            continue
        if len(found) == ID_BYTES:
            return QueueId(found)
    raise Refusal(
        400,
        "this is not the name of a queue",
        "bad_name",
        "write DOMAIN/QUEUE, or the id of an exclusive queue in hex or base64",
    )


def _base64(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise ValueError(text) from None


async def _asked(desk: Desk, load: Load) -> Loaded:
    """The rows of the store, one question at a time."""
    if desk.sampler.busy > BUSY:
        raise Refusal(503, "the store has no time", "busy", "ask again when turns are less busy")
    async with desk.at_work:
        try:
            return await desk.router.store.load(load)
        except HeadgateError as error:
            raise Refusal(503, str(error), "store") from None


async def _shared(desk: Desk, name: str) -> QueueAnswer:
    try:
        uri = parse_uri(name)
    except HeadgateError as error:
        raise Refusal(400, str(error), "bad_name", "write DOMAIN/QUEUE") from None
    domain = desk.router.broker.shard.domains.get(uri.domain)
    if domain is None or not is_shared(domain):
        shared = [d.name for d in desk.router.broker.shard.domains.values() if is_shared(d)]
        known = ", ".join(sorted(shared)[:DOMAINS_NAMED]) or "none"
        raise Refusal(
            404,
            f"no domain {shown(uri.domain)} has shared queues",
            "no_such_domain",
            f"those that have: {known}",
        )
    queue = QueueId(uri.canonical.encode())
    here = desk.router.broker.shard.shared.queues.get(queue)
    if here is not None:
        return _open(uri.canonical, here)
    page = Listing(uri.domain, _before(queue), 1)
    loaded = await _asked(desk, Load(listings={page}))
    found = next(iter(loaded.listings[page]), None)
    if found is None or found.queue != queue:
        raise Refusal(
            404,
            f"{uri.domain} has no queue {shown(local_name(uri.canonical))}",
            "no_such_queue",
            "a queue is made when a client opens it first; see domains",
        )
    return QueueAnswer(
        queue=uri.canonical,
        kind="shared",
        domain=uri.domain,
        service=None,
        subscriber=None,
        backlog_messages=found.messages,
        backlog_bytes=found.bytes,
        oldest_at=None,
        unconfirmed=None,
        notifier=None,
        in_memory=False,
        apps=[app for app in domain.apps if app],
    )


def _before(queue: QueueId) -> QueueId:
    """After all names that come before this one: no name has a byte above 127."""
    return QueueId(queue[:-1] + bytes([queue[-1] - 1, 0xFF]))


def _open(name: str, queue: SharedQueue) -> QueueAnswer:
    first = next(iter(queue.entries.values()), None)
    return QueueAnswer(
        queue=name,
        kind="shared",
        domain=queue.domain.name,
        service=None,
        subscriber=None,
        backlog_messages=queue.meter.messages,
        backlog_bytes=queue.meter.bytes,
        oldest_at=None if first is None else first.arrived,
        unconfirmed=sum(len(app.outstanding) for app in queue.apps.values()),
        notifier=None,
        in_memory=True,
        consumers=sum(len(app.consumers) for app in queue.apps.values()),
        producers=len(queue.producers),
        undelivered=sum(app.undelivered() for app in queue.apps.values()),
        apps=[app for app in queue.app_ids() if app],
    )


def _exclusive(
    desk: Desk,
    record: QueueRecord,
    messages: int,
    cached: CachedQueue,
    *,
    in_memory: bool = True,
) -> QueueAnswer:
    shard = desk.router.broker.shard
    holder = shard.exclusive.holders.holder(record)
    state = None if holder is None else shard.session_states.kept(holder)
    oldest = cached.first[0].message.arrived if cached.first else None
    return QueueAnswer(
        queue=digest(record.queue),
        kind="exclusive",
        domain=record.domain,
        service=_service(record.service),
        subscriber=_subscriber(desk, holder),
        backlog_messages=messages,
        backlog_bytes=None,
        oldest_at=oldest,
        unconfirmed=int(state is not None and record.queue in state.gates),
        notifier=record.parties is not None and record.parties.notifier is not None,
        in_memory=in_memory,
    )


def _service(service: ServiceId | None) -> str | None:
    return None if service is None else service[:8].hex()


def _subscriber(desk: Desk, holder: SessionId | None) -> Blocker | None:
    session = None if holder is None else desk.router.broker.sessions.get(holder)
    return None if session is None else Blocker(session=session.id, name=short_name(session))
