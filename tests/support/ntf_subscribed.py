"""A queue that a notification server watches for an app."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Queue, make_key
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.testing.smp_client import SmpClient
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.replies import IdSub, SubscriptionState
from headgate.wire.ntf.statuses import SubscriptionStatus
from tests.support.ntf_app import App, AppKeys
from tests.support.ntf_notifiers import until
from tests.support.smp_router import Rig


async def subscribed(app: App, keys: AppKeys, rig: Rig, client: SmpClient) -> Queue:
    """A new queue at a router, whose notices go to the device of the app."""
    key = make_key()
    assert isinstance(key, Ed25519PrivateKey)
    queue = await client.new_queue(notifier=key)
    private = encode_private(KeyKind.ED25519, key.private_bytes_raw())
    reply = await app.ask(c.SNew(keys.token, rig.address, queue.notifier, private), keys)
    assert isinstance(reply, IdSub)
    active = SubscriptionState(SubscriptionStatus.ACTIVE)

    async def is_active() -> bool:
        return await app.ask(c.SChk(), keys, reply.subscription) == active

    await until(is_active)
    return queue
