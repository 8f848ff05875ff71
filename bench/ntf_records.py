"""Subscriptions that the benchmark of the notification server has: known to the stores of routers
and to the server's file. All are filled straight, since they are too many to be made over the
wire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.queues_store import ID_BYTES, KEY_BYTES, Crowd, hashed
from headgate.client.smp.recipient import spki
from headgate.core.model.parties import Notifier, QueueRecord
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.notify.tokens import Token
from headgate.ntf_server.records import Records, Tables, routers, subscriptions, tokens
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.router_address import RouterAddress

OF_A_TOKEN = 10
"""Subscriptions of each device."""


class WatchedCrowd(Crowd):
    """Queues with notifiers, at one router."""

    def notifier(self, n: int) -> bytes:
        return hashed(ID_BYTES, self.name, "notifier", n)

    def notifier_seed(self, n: int) -> bytes:
        return hashed(KEY_BYTES, self.name, "notifier key", n)

    def record(self, n: int) -> QueueRecord:
        found = super().record(n)
        assert found.parties is not None, "a queue with parties"
        key = spki(Ed25519PrivateKey.from_private_bytes(self.notifier_seed(n)))
        notifier = Notifier(self.notifier(n), key, self.secret)
        return replace(found, parties=replace(found.parties, notifier=notifier))


def token_id(number: int) -> bytes:
    return hashed(ID_BYTES, "token", number)


def device_of(number: int) -> ApnsDevice:
    return ApnsDevice(Provider.APNS_TEST, b"%d" % number)


def number_of(device: ApnsDevice) -> int:
    return int(device.token)


def fill(folder: Path, crowds: Sequence[tuple[RouterAddress, WatchedCrowd]]) -> None:
    """Make the file of a server. The subscriptions of a device are at one router."""
    asyncio.run(_fill(folder, crowds))


async def _fill(folder: Path, crowds: Sequence[tuple[RouterAddress, WatchedCrowd]]) -> None:
    async with await Records.open("sqlite:ntf.db", folder) as records:
        first = 0
        for address, crowd in crowds:
            await records.write(partial(_fill_router, address, crowd, first))
            first += crowd.size // OF_A_TOKEN


def _fill_router(address: RouterAddress, crowd: WatchedCrowd, first: int, tables: Tables) -> None:
    router = routers.number_of(tables, address)
    for number in range(first, first + crowd.size // OF_A_TOKEN):
        token = Token(
            token_id(number),
            device_of(number),
            hashed(KEY_BYTES, "verify", number),
            hashed(KEY_BYTES, "private", number),
            hashed(KEY_BYTES, "agreed", number),
            hashed(KEY_BYTES, "code", number),
            TokenStatus.ACTIVE,
        )
        tokens.put(tables, token)
    tables.change_many(
        f"INSERT INTO subscriptions ({subscriptions.COLUMNS}, router)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                hashed(ID_BYTES, crowd.name, "subscription", n),
                token_id(first + n // OF_A_TOKEN),
                address.encode(),
                crowd.notifier(n),
                encode_private(KeyKind.ED25519, crowd.notifier_seed(n)),
                SubscriptionStatus.NEW.value,
                b"",
                False,
                router,
            )
            for n in range(crowd.size)
        ),
    )
    tables.change("UPDATE tokens SET held = ?", OF_A_TOKEN)
