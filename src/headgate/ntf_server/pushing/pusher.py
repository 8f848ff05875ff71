"""Makes pushes and keeps what became of them."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Mapping
from functools import partial

from headgate.crypto.box import NONCE_BYTES
from headgate.errors import StoreError
from headgate.notify.outcomes import Dead, Delivered, Failed, Later, PushOutcome
from headgate.notify.push_content import CheckPush, CodePush, Push, seal_code, seal_entries
from headgate.notify.tokens import Token, confirm, invalidate
from headgate.ntf_server.pushing.lanes import LANE_MAX
from headgate.ntf_server.pushing.provider import PushProvider
from headgate.ntf_server.pushing.queue import SIZE_MAX, UNDER_WAY_MAX, ProviderQueue
from headgate.ntf_server.pushing.turns import PushKind, Turn
from headgate.ntf_server.records import Records, Tables, notices, tokens
from headgate.wire.ntf.devices import Provider, WebPushDevice
from headgate.wire.ntf.statuses import TokenStatus

log = logging.getLogger("headgate.ntf")


class Pusher:
    """Pushes through all providers of a server; implements `apps.ports.CodePort`.

    Each provider has a queue of its own. What it answers about a device, or a code, that was
    replaced since changes nothing.
    """

    def __init__(
        self,
        records: Records,
        providers: Mapping[Provider, PushProvider],
        *,
        size_max: int = SIZE_MAX,
        under_way_max: int = UNDER_WAY_MAX,
        lane_max: int = LANE_MAX,
    ) -> None:
        self._records = records
        self._providers = dict(providers)
        self._queues = {
            provider: ProviderQueue(
                partial(self._send, provider),
                size_max=size_max,
                under_way_max=under_way_max,
                lane_max=lane_max,
            )
            for provider in providers
        }
        self.outcomes: Counter[tuple[Provider, PushKind, str]] = Counter()
        """What became of pushes, since the beginning; a label of each."""

    def __len__(self) -> int:
        """Pushes that wait or are under way."""
        return sum(map(len, self._queues.values()))

    def push_code(self, token: Token) -> None:
        self._add(PushKind.CODE, token)

    def push_notices(self, token: Token) -> None:
        """A token has a notice that is in the records."""
        self._add(PushKind.NOTICES, token)

    def push_check(self, token: Token) -> None:
        """The periodic push of a token is due."""
        self._add(PushKind.CHECK, token)

    async def close(self) -> None:
        for queue in self._queues.values():
            await queue.close()
        for provider in self._providers.values():
            await provider.close()

    def _add(self, kind: PushKind, token: Token) -> None:
        provider = token.device.provider
        queue = self._queues.get(provider)
        if queue is None:
            # It was enabled when the device was registered, and is not any more.
            self.outcomes[provider, kind, "no_provider"] += 1
        elif not queue.add(kind, token.id):
            self.outcomes[provider, kind, "no_room"] += 1

    async def _send(self, provider: Provider, turn: Turn) -> None:
        """Make a push as the records are now, bring it, and keep what became of it."""
        try:
            made = await self._records.read(_make, turn)
            if made is None or made[0].device.provider is not provider:
                self.outcomes[provider, turn.kind, "not_wanted"] += 1
                return
            await self._bring(provider, turn, *made)
        except StoreError as error:
            self.outcomes[provider, turn.kind, "store"] += 1
            log.error("a push was not made or kept", extra={"fields": {"error": str(error)}})

    async def _bring(self, provider: Provider, turn: Turn, token: Token, push: Push) -> None:
        """Bring a push, unless the host that it goes to has enough of them: then it comes back."""
        device, queue = token.device, self._queues[provider]
        if not isinstance(device, WebPushDevice):
            await self._keep(provider, turn, token, await self._outcome(provider, token, push))
            return
        lane = device.host.lower()
        if queue.enter(lane, turn):
            try:
                outcome = await self._outcome(provider, token, push)
            finally:
                queue.leave(lane)
            await self._keep(provider, turn, token, outcome)

    async def _outcome(self, provider: Provider, token: Token, push: Push) -> PushOutcome:
        try:
            return await self._providers[provider].push(token.device, push)
        except Exception as error:
            # S004-29: a provider that fails costs this push. The error may name the device.
            log.error("a provider failed", extra={"fields": {"error": type(error).__name__}})
            return Failed(type(error).__name__)

    async def _keep(
        self, provider: Provider, turn: Turn, token: Token, outcome: PushOutcome
    ) -> None:
        queue = self._queues[provider]
        match outcome:
            case Later(seconds) if not turn.is_second and queue.add_later(turn, seconds):
                label = "later"
            case Later():
                label = "failed"
            case Delivered():
                label = "delivered"
                if turn.kind is PushKind.CODE:
                    await self._records.write(_confirm, token)
            case Dead(reason):
                label = "dead"
                change = partial(invalidate, device=token.device, reason=reason)
                await self._records.write(tokens.change, token.id, change)
            case Failed(text):
                label = "failed"
                log.warning("a push failed", extra={"fields": {"answer": text}})
        self.outcomes[provider, turn.kind, label] += 1


def _make(tables: Tables, turn: Turn) -> tuple[Token, Push] | None:
    """The push of a turn; none if the token does not want it any more."""
    token = tokens.get(tables, turn.token)
    if token is None:
        return None
    nonce = secrets.token_bytes(NONCE_BYTES)
    if turn.kind is PushKind.CODE:
        made: CodePush = seal_code(token.key, nonce, token.code)
        return None if token.status is TokenStatus.INVALID else (token, made)
    if not token.takes_messages:
        return None
    if turn.kind is PushKind.CHECK:
        return token, CheckPush()
    # ACC-111: what the app opens with the key that it agreed on with us.
    entries = notices.latest(tables, token.id)
    return (token, seal_entries(token.key, nonce, entries)) if entries else None


def _confirm(tables: Tables, pushed: Token) -> None:
    """The provider took the code that was pushed to this device."""

    def decide(token: Token) -> Token:
        return confirm(token, pushed.code) if token.device == pushed.device else token

    tokens.change(tables, pushed.id, decide)
