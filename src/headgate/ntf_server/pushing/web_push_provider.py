"""Web Push, and with it UnifiedPush: endpoints are whatever strangers name."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)

from headgate.crypto.p256 import point_of
from headgate.notify import web_push
from headgate.notify.json_tokens import unpadded
from headgate.notify.outcomes import Failed, Later, PushOutcome
from headgate.notify.push_content import Push, web_push_json
from headgate.notify.resting_hosts import RestingHosts
from headgate.ntf_server.pushing.http_posting import HttpPosting, NoAnswer, Target
from headgate.wire.ntf.devices import Device, WebPushDevice


class WebPushProvider:
    """The provider that encrypts each push for its receiver and posts it to the endpoint. A host
    that gives no answer rests for a while: those who wait for it would take the place of others."""

    def __init__(
        self,
        posting: HttpPosting,
        private: EllipticCurvePrivateKey,
        contact: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._posting = posting
        self._private = private
        self._tokens = web_push.SenderTokens(private, contact)
        self._resting = RestingHosts()
        self._clock = clock

    @property
    def public_key(self) -> str:
        """The key that an app hands to its push service when it asks for an endpoint."""
        return unpadded(point_of(self._private))

    async def push(self, device: Device, push: Push) -> PushOutcome:
        assert isinstance(device, WebPushDevice), "a provider is given devices of its own"
        began = self._clock()
        target = target_of(device)
        if wait := self._resting.seconds_left(target.host, began):
            return Later(wait)
        body = web_push.encrypt(
            web_push_json(push),
            device,
            generate_private_key(SECP256R1()),
            secrets.token_bytes(web_push.SALT_BYTES),
        )
        authorization = self._tokens.authorization(device.origin, int(began))
        answer = await self._posting.post(target, web_push.headers(push, authorization), body)
        if isinstance(answer, NoAnswer):
            self._resting.failed(target.host, began, self._clock())
            return Failed(answer.text)
        now = self._clock()
        self._resting.answered(target.host, now)
        return web_push.outcome(answer.status, answer.retry_after, now)

    async def close(self) -> None:
        await self._posting.close()


def target_of(device: WebPushDevice) -> Target:
    host = device.host.lower().removeprefix("[").removesuffix("]")
    return Target(host, device.port, device.path)
