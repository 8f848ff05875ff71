"""Being woken: an agent that sleeps has its queues watched by a notification server.

The agent registers a device there, shows the code that comes to the device, and hands over the
notifier of each of its queues. From then on a push names the queue that has a message. The server
learns neither senders nor messages; with the notifiers it can only subscribe to notices.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.agent.events import NamedQueue
from headgate.agent.model import ConnectionId, RouterId, UserId
from headgate.agent.operations import Operations
from headgate.agent.ports import RouterPort
from headgate.agent.push_token import PushedNotice, PushToken
from headgate.agent.records import Records, connections, push_tokens, receive_queues, routers
from headgate.agent.records.database import Database
from headgate.agent.records.push_tokens import PushTokenRecord
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.stored_keys import unpack_key
from headgate.client.ntf.link import AppRequest, NtfLink, NtfOutcome
from headgate.client.smp.recipient import spki
from headgate.client.smp.requests import set_notifier
from headgate.client.smp.timing import Timing
from headgate.core.model.value import value
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, public_key, raw_key
from headgate.crypto.private_keys import encode_private
from headgate.errors import HeadgateError, Malformed, StoreError, UnexpectedReply
from headgate.notify.push_content import (
    CheckPush,
    CodePush,
    NoticeEntry,
    open_push,
    parse_entries,
    parse_push,
)
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import Device
from headgate.wire.ntf.replies import IdTkn, NtfReply, TokenState
from headgate.wire.ntf.statuses import TokenStatus
from headgate.wire.smp.codec.replies import Nid
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.sealed import open_notice, parse_notice

PRIVATE_BYTES: Final = 32
PAGE: Final = 100
"""Queues that are handed over together."""


@value
class WatchedQueue:
    """A queue that has a notifier."""

    queue: ReceiveQueue
    notifier: bytes
    private: bytes


class Notifying:
    """The registration of devices, and the watching of queues. Owned by an agent; tokens and
    notifiers are in the records. Each call has a connection of its own with the server, since calls
    are rare."""

    def __init__(
        self,
        records: Records,
        routers: RouterPort,
        timing: Timing,
        *,
        operations: Operations | None = None,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._records = records
        self._routers = routers
        self._timing = timing
        self._operations = operations or Operations()
        self._draw = draw
        self._handing_over = asyncio.Lock()
        """A queue has one notifier at its router, so two must not be made at once."""

    # Devices.

    async def register(self, server: NtfAddress, device: Device) -> PushToken:
        """The token of a device. Until it is verified each call has the server push its code
        again."""
        private = self._draw(PRIVATE_BYTES), self._draw(PRIVATE_BYTES)
        fresh = PushTokenRecord(server.text, device.encode(), *private)
        record = await self._records.write(push_tokens.keep, fresh)
        if not record.verified:
            key = _sign_key(record)
            dh = encode_key(KeyKind.X25519, public_of(record.dh_private))
            command = c.TNew(device, public_key(key), dh)
            async with self._link(server) as link:
                reply = await link.ask(AppRequest(command, key))
            if not isinstance(reply, IdTkn):
                raise UnexpectedReply(f"{reply.tag.decode()} is no answer to TNEW")
            push_key = shared_key(record.dh_private, raw_key(reply.dh))
            await self._records.write(
                push_tokens.put_registered, server.text, record.device, reply.token, push_key
            )
        return _token(server, device, await self._record(server, device))

    async def verify(self, token: PushToken, push: bytes) -> PushToken:
        """Prove the device to the server with the code that it pushed. The token is verified from
        then on."""
        code = parse_push(push)
        if not isinstance(code, CodePush):
            raise Malformed("a push without a code")
        shown = c.TVfy(open_push(token.push_key, code))
        await self._ask(token, shown)
        await self._records.write(
            push_tokens.put_verified, token.server.text, token.device.encode(), True
        )
        return await self._found(token)

    async def status(self, token: PushToken) -> TokenState:
        """The server's view of a token. One that is not active there has to be registered again."""
        reply = await self._ask(token, c.TChk())
        if not isinstance(reply, TokenState):
            raise UnexpectedReply(f"{reply.tag.decode()} is no answer to TCHK")
        if reply.status is not TokenStatus.ACTIVE:
            await self._records.write(
                push_tokens.put_verified, token.server.text, token.device.encode(), False
            )
        return reply

    async def remove(self, token: PushToken) -> None:
        """Have the server forget the device, and all that it watches for it."""
        await self._ask(token, c.TDel())
        await self._records.write(push_tokens.remove, token.server.text, token.device.encode())

    # Queues.

    async def notify(
        self, token: PushToken, user: UserId
    ) -> dict[ConnectionId, HeadgateError | None]:
        """Have all queues of a user watched; return the error of each connection, if any. Repeating
        it is harmless, and does what is left."""
        record = await self._record(token.server, token.device)
        found: dict[ConnectionId, HeadgateError | None] = {}
        async with (
            self._handing_over,
            self._operations.operation(),
            self._link(token.server) as link,
        ):
            for router in await self._records.read(routers.of_user, user):
                after = b""
                while page := await self._records.read(
                    receive_queues.page, user, router, after, PAGE
                ):
                    after = page[-1].recipient_id
                    await self._hand_over(link, record, router, page, found)
        return found

    async def _hand_over(
        self,
        link: NtfLink,
        record: PushTokenRecord,
        router: RouterId,
        page: Sequence[ReceiveQueue],
        found: dict[ConnectionId, HeadgateError | None],
    ) -> None:
        """Make the notifiers of a page of queues, then hand them to the server."""
        watched: list[WatchedQueue] = []
        made = await asyncio.gather(*map(self._watched, page))
        for queue, each in zip(page, made, strict=True):
            found.setdefault(queue.connection, None)
            if isinstance(each, WatchedQueue):
                watched.append(each)
            else:
                found[queue.connection] = each
        known = await self._records.read(routers.get, router)
        assert known is not None, "queues are at routers that are kept"
        requests = [_subscribing(record, known.address, each) for each in watched]
        outcomes: list[NtfOutcome] = await link.ask_all(requests)
        for each, outcome in zip(watched, outcomes, strict=True):
            if isinstance(outcome, HeadgateError):
                found[each.queue.connection] = outcome

    async def _watched(self, queue: ReceiveQueue) -> WatchedQueue | HeadgateError:
        """The queue with its notifier: the existing one, or one that its router makes now."""
        if queue.notifier_id is not None and queue.notifier_key is not None:
            return WatchedQueue(queue, queue.notifier_id, queue.notifier_key)
        private, dh = self._draw(PRIVATE_BYTES), self._draw(PRIVATE_BYTES)
        key = Ed25519PrivateKey.from_private_bytes(private)
        request = set_notifier(
            queue.recipient_id,
            unpack_key(queue.key_kind, queue.private_key),
            spki(key),
            spki(dh),
        )
        _, (outcome,) = await self._routers.ask(
            queue.user, queue.router, queue.connection, [request]
        )
        if isinstance(outcome, HeadgateError):
            return outcome
        assert isinstance(outcome, Nid), "what answers NKEY"
        secret = shared_key(dh, raw_key(outcome.dh))
        # A lost answer costs a notifier: the next NKEY replaces it at the router.
        await self._records.write(
            receive_queues.put_notifier, queue.key, outcome.notifier, private, secret
        )
        return WatchedQueue(queue, outcome.notifier, private)

    # Pushes.

    async def open(self, token: PushToken, push: bytes) -> list[PushedNotice]:
        """The queues that have messages, the newest last; None if the push only wakes."""
        content = parse_push(push)
        if isinstance(content, CheckPush):
            return []
        if isinstance(content, CodePush):
            raise Malformed("a push with a code, which is to be verified")
        entries = parse_entries(open_push(token.push_key, content))
        return await self._records.read(_notices, entries)

    # The server.

    async def _ask(self, token: PushToken, command: c.NtfCommand) -> NtfReply:
        record = await self._record(token.server, token.device)
        async with self._link(token.server) as link:
            return await link.ask(AppRequest(command, _sign_key(record), token.id))

    @asynccontextmanager
    async def _link(self, server: NtfAddress) -> AsyncIterator[NtfLink]:
        """A connection for one call."""
        async with await NtfLink.connect(server, timing=self._timing) as link:
            yield link

    async def _record(self, server: NtfAddress, device: Device) -> PushTokenRecord:
        found = await self._records.read(push_tokens.get, server.text, device.encode())
        if found is None or found.token is None:
            raise StoreError("this device is not registered here any more; register it again")
        return found

    async def _found(self, token: PushToken) -> PushToken:
        record = await self._record(token.server, token.device)
        return _token(token.server, token.device, record)


def _token(server: NtfAddress, device: Device, record: PushTokenRecord) -> PushToken:
    assert record.token is not None, "a token that was registered"
    assert record.push_key is not None, "a token that was registered"
    return PushToken(server, device, record.token, record.verified, record.push_key)


def _sign_key(record: PushTokenRecord) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(record.sign_key)


def _subscribing(
    record: PushTokenRecord, router: RouterAddress, watched: WatchedQueue
) -> AppRequest:
    assert record.token is not None, "a token that was registered"
    # The password is for making queues.
    bare = RouterAddress(router.hosts, router.written_port, router.key_hash)
    private = encode_private(KeyKind.ED25519, watched.private)
    return AppRequest(c.SNew(record.token, bare, watched.notifier, private), _sign_key(record))


# Jobs of the records.


def _notices(tables: Database, entries: Sequence[NoticeEntry]) -> list[PushedNotice]:
    """The queues of entries. Entries for queues that are gone, or that cannot be opened, are left
    out: the server keeps the notifiers it was given."""
    found = []
    for entry in entries:
        queue = _of_notifier(tables, entry)
        if queue is None or queue.notice_key is None:
            continue
        try:
            plaintext = open_notice(queue.notice_key, entry.nonce, entry.metadata)
            notice = parse_notice(plaintext)
        except Malformed:
            continue
        record = connections.get(tables, queue.connection)
        name = None if record is None else record.name
        named = NamedQueue(queue.connection, name)
        found.append(PushedNotice(named, notice.message_id, notice.seconds))
    return found


def _of_notifier(tables: Database, entry: NoticeEntry) -> ReceiveQueue | None:
    address = RouterAddress.parse(entry.router)
    router = routers.find(tables, address)
    return None if router is None else receive_queues.of_notifier(tables, router, entry.notifier)
