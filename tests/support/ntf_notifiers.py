"""The part of a notification server that has sessions with routers, with tokens and subscriptions
that a test makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.agent.engine.backoff import Delays
from headgate.agent.engine.settings import NOTIFIER
from headgate.agent.shell_settings import ShellSettings
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.notify.subscriptions import NotifierSubscription
from headgate.notify.tokens import Token
from headgate.ntf_server.records import Records, Tables, routers, subscriptions, tokens
from headgate.ntf_server.records.audit import audit
from headgate.ntf_server.records.routers import RouterNumber, RouterRecord
from headgate.ntf_server.routers.intake import NoticeIntake
from headgate.ntf_server.routers.shell import NotifierShell
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.ntf_tokens import token_in

PATIENCE_SECONDS = 60.0

QUICK = ShellSettings(
    engine=replace(NOTIFIER, delays=Delays(first=0.01, longest=0.05), failure_seconds=0.01),
    retry_seconds=0.01,
)

OWNER = token_in(TokenStatus.ACTIVE)


@dataclass
class NotifierScene:
    """A shell that runs, its records, and what it did."""

    shell: NotifierShell
    records: Records
    intake: NoticeIntake
    pushed: list[Token] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    async def subscribe(
        self,
        router: RouterAddress,
        notifier: bytes,
        key: Ed25519PrivateKey,
        token: bytes = OWNER.id,
    ) -> NotifierSubscription:
        """What SNEW leads to."""
        made = subscription_to(router, notifier, key, token)
        number = await self.records.write(add, made)
        self.shell.want(number, made)
        return made

    async def unsubscribe(self, made: NotifierSubscription) -> None:
        """What SDEL leads to."""
        removed = await self.records.write(subscriptions.remove, made.id)
        assert removed is not None
        self.shell.forget([removed])

    async def status(self, made: NotifierSubscription) -> SubscriptionStatus | None:
        found = await self.records.read(subscriptions.get, made.id)
        return None if found is None else found.status

    async def reaches(self, made: NotifierSubscription, status: SubscriptionStatus) -> None:
        async def holds() -> bool:
            return await self.status(made) is status

        await until(holds)

    async def is_associated(self, made: NotifierSubscription) -> bool:
        found = await self.records.read(subscriptions.get, made.id)
        return found is not None and found.is_associated

    async def router(self, number: int = 1) -> RouterRecord:
        record = await self.records.read(routers.get, RouterNumber(number))
        assert record is not None
        return record


def subscription_to(
    router: RouterAddress, notifier: bytes, key: Ed25519PrivateKey, token: bytes = OWNER.id
) -> NotifierSubscription:
    private = encode_private(KeyKind.ED25519, key.private_bytes_raw())
    return NotifierSubscription(b"s" + notifier[1:], token, router, notifier, private)


def add(tables: Tables, made: NotifierSubscription) -> RouterNumber:
    number = routers.number_of(tables, made.router)
    subscriptions.put(tables, number, made)
    return number


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that comes over the network."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def notifying(
    folder: Path,
    *,
    services: bool = True,
    trust_tally: bool = False,
    settings: ShellSettings = QUICK,
    url: str = "sqlite:ntf.db",
) -> AsyncIterator[NotifierScene]:
    """The shell over the records of this folder, which are in order when it ends."""
    async with await Records.open(url, folder) as records:
        await records.write(tokens.put, OWNER)
        pushed: list[Token] = []
        errors: list[Exception] = []
        intake = NoticeIntake(records, pushed.append, errors.append, 0.01)
        shell = NotifierShell(
            records,
            intake.take,
            errors.append,
            services=services,
            trust_tally=trust_tally,
            settings=settings,
        )
        await shell.start()
        try:
            yield NotifierScene(shell, records, intake, pushed, errors)
        finally:
            await shell.close()
            await intake.close()
        assert await records.read(audit) == []
        assert errors == []
