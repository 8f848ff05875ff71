"""The pusher: it makes pushes and keeps what became of them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from headgate.agent.tasks import Tasks
from headgate.core.model.value import value
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

PUSH_SECONDS: Final = 60.0
"""Providers have shorter bounds of their own; this one holds if that fails."""

RETRY_SECONDS: Final = 2.0
"""After which the records are asked again."""

PAGE: Final = 1000

LABELS: Final = {Delivered: "delivered", Dead: "dead", Later: "failed", Failed: "failed"}
"""Of what was not tried again."""


class Pusher:
    """Pushes through all providers of a server; implements `apps.ports.CodePort`.

    Each provider has a queue of its own. Its answer about a device, or a code, that was replaced
    since changes nothing.
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
        self._tasks = Tasks()
        self._settled: dict[bytes, int] = {}
        """Tokens to whose notices providers have answered, and the newest notice of each."""
        self._is_settling = False
        self.outcomes: Counter[tuple[Provider, PushKind, str]] = Counter()
        """Outcomes of pushes since the start, counted by their labels."""

    def start(self) -> None:
        """Push what was kept before this run and not pushed in it."""
        self._tasks.run(self._push_kept(), "pushing what was kept")

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
        await self._tasks.close()
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
        except StoreError as error:
            # A disk that fails passes, and nothing was pushed.
            self.outcomes[provider, turn.kind, "store"] += 1
            log.error("a push was not made", extra={"fields": {"error": str(error)}})
            self._queues[provider].add_later(turn, RETRY_SECONDS)
            return
        if made is None or made.token.device.provider is not provider:
            self.outcomes[provider, turn.kind, "not_wanted"] += 1
            return
        outcome = await self._bring(provider, turn, made)
        if outcome is None:
            return
        try:
            await self._keep(provider, turn, made, outcome)
        except StoreError as error:
            # The next push to the device finds the same out.
            log.error("what became of a push is not kept", extra={"fields": {"error": str(error)}})

    async def _bring(self, provider: Provider, turn: Turn, made: MadePush) -> PushOutcome | None:
        """Bring a push; none if the host that it goes to has enough of them: then it comes back."""
        device, queue = made.token.device, self._queues[provider]
        if not isinstance(device, WebPushDevice):
            return await self._outcome(provider, made.token, made.push)
        lane = device.host.lower()
        if not queue.enter(lane, turn):
            return None
        try:
            return await self._outcome(provider, made.token, made.push)
        finally:
            queue.leave(lane)

    async def _outcome(self, provider: Provider, token: Token, push: Push) -> PushOutcome:
        try:
            async with asyncio.timeout(PUSH_SECONDS):
                return await self._providers[provider].push(token.device, push)
        except Exception as error:
            # S004-29: a provider that fails costs this push. The error may name the device.
            log.error("a provider failed", extra={"fields": {"error": type(error).__name__}})
            return Failed(type(error).__name__)

    async def _keep(
        self, provider: Provider, turn: Turn, made: MadePush, outcome: PushOutcome
    ) -> None:
        queue, token = self._queues[provider], made.token
        again = replace(turn, is_second=True)
        match outcome:
            case Later(seconds) if not turn.is_second and queue.add_later(again, seconds):
                self.outcomes[provider, turn.kind, "later"] += 1
                return
            case _:
                self.outcomes[provider, turn.kind, LABELS[type(outcome)]] += 1
        if made.newest is not None:
            self._settle(token.id, made.newest)
        match outcome:
            case Delivered() if turn.kind is PushKind.CODE:
                await self._records.write(_confirm, token)
            case Dead(reason):
                change = partial(invalidate, device=token.device, reason=reason)
                await self._records.write(tokens.change, token.id, change)
            case Failed(text):
                log.warning("a push failed", extra={"fields": {"answer": text}})
            case _:
                pass

    # What was pushed, and what was not.

    def _settle(self, token: bytes, newest: int) -> None:
        """Write down that the notices of a token need no push, with those of others."""
        self._settled[token] = newest
        if not self._is_settling:
            self._is_settling = True
            self._tasks.run(self._settle_all(), "settling pushes", to_end=True)

    async def _settle_all(self) -> None:
        try:
            while self._settled:
                settled, self._settled = self._settled, {}
                await self._records.write(notices.settle, settled.items())
        except StoreError as error:
            # After a restart these are pushed once more, which does no harm.
            log.error("pushes are not written down", extra={"fields": {"error": str(error)}})
        finally:
            self._is_settling = False

    async def _push_kept(self) -> None:
        after: bytes | None = b""
        while after is not None:
            try:
                page = await self._records.read(notices.owners_waiting, after, PAGE)
            except StoreError as error:
                log.error("kept notices wait", extra={"fields": {"error": str(error)}})
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for token in page:
                if token.takes_messages:
                    self.push_notices(token)
            after = page[-1].id if len(page) == PAGE else None


@value
class MadePush:
    """A push as it is brought to a device."""

    token: Token
    push: Push
    newest: int | None = None
    """The number of the last notice in it."""


def _make(tables: Tables, turn: Turn) -> MadePush | None:
    """The push of a turn; none if the token does not want it any more."""
    token = tokens.get(tables, turn.token)
    if token is None:
        return None
    nonce = secrets.token_bytes(NONCE_BYTES)
    if turn.kind is PushKind.CODE:
        made: CodePush = seal_code(token.key, nonce, token.code)
        return None if token.status is TokenStatus.INVALID else MadePush(token, made)
    if not token.takes_messages:
        return None
    if turn.kind is PushKind.CHECK:
        return MadePush(token, CheckPush())
    # ACC-111: what the app opens with the key that it agreed on with us.
    entries = notices.latest(tables, token.id)
    if not entries:
        return None
    push = seal_entries(token.key, nonce, entries)
    return MadePush(token, push, notices.newest(tables, token.id))


def _confirm(tables: Tables, pushed: Token) -> None:
    """The provider took the code that was pushed to this device."""

    def decide(token: Token) -> Token:
        return confirm(token, pushed.code) if token.device == pushed.device else token

    tokens.change(tables, pushed.id, decide)
