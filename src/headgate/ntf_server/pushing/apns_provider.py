"""Apple's push service, or one that is spoken to like Apple's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from headgate.notify import apns
from headgate.notify.outcomes import Failed, PushOutcome
from headgate.notify.push_content import Push, apns_json
from headgate.ntf_server.pushing.http_posting import HttpPosting, NoAnswer, Target
from headgate.wire.ntf.devices import ApnsDevice, Device


class ApnsProvider:
    """The provider that posts pushes to one host. `tokens` show who sends, and may be shared with
    other hosts of Apple's."""

    def __init__(
        self,
        posting: HttpPosting,
        host: Target,
        topic: str,
        tokens: apns.ProviderTokens,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._posting = posting
        self._host = host
        self._topic = topic
        self._tokens = tokens
        self._clock = clock

    async def push(self, device: Device, push: Push) -> PushOutcome:
        assert isinstance(device, ApnsDevice), "a provider is given devices of its own"
        authorization = self._tokens.authorization(int(self._clock()))
        target = replace(self._host, path=self._host.path + apns.path(device))
        headers = apns.headers(push, self._topic, authorization)
        answer = await self._posting.post(target, headers, apns_json(push))
        if isinstance(answer, NoAnswer):
            return Failed(answer.text)
        self._tokens.answered(answer.status)
        return apns.outcome(answer.status, answer.body, answer.retry_after, self._clock())

    async def close(self) -> None:
        await self._posting.close()
