"""Commands of apps, carried out. An answer is given when the change is in the records.

The right to a command is checked first, outside of the transaction: the key of a token never
changes. Decisions about a token or a subscription are made inside, by its state at that moment.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

from headgate.crypto.proof import Verifier
from headgate.errors import HeadgateError, StoreError, Unauthorised
from headgate.notify import subscriptions as deciding
from headgate.notify.subscriptions import NotifierSubscription
from headgate.notify.tokens import (
    CODE_BYTES,
    ID_BYTES,
    FreshToken,
    Token,
    check_may_subscribe,
    check_provider,
    register,
    replace_device,
    set_interval,
    superseded,
    use,
    verify,
)
from headgate.ntf_server.apps.ports import CodePort, SubscribePort
from headgate.ntf_server.apps.registration_rate import RegistrationRate
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.records import Records, Tables, routers, subscriptions, tokens
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.records.subscriptions import RemovedSubscription
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import Device
from headgate.wire.ntf.errors import error_text
from headgate.wire.ntf.replies import IdSub, IdTkn, NtfReply, TokenState
from headgate.wire.ntf.transmissions import NtfRequest
from headgate.wire.smp.codec.commands import Ping
from headgate.wire.smp.codec.replies import Err, Ok, Pong

log = logging.getLogger("headgate.ntf")

PRIVATE_BYTES: Final = 32
DAY_SECONDS: Final = 24 * 3600


class AppCommands:
    """The commands of all apps of a server. Owned by it; sessions call `answer`."""

    def __init__(
        self,
        records: Records,
        settings: AppSettings,
        codes: CodePort,
        notifiers: SubscribePort,
        clock: Callable[[], float],
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._records = records
        self._settings = settings
        self._codes = codes
        self._notifiers = notifiers
        self._clock = clock
        self._draw = draw
        self._rate = RegistrationRate(settings.registrations_per_minute)

    async def answer(self, request: NtfRequest, verifier: Verifier, network: str) -> NtfReply:
        """The answer to a request of a session. `network` is where it came from."""
        try:
            return await self._answer(request, verifier, network)
        except StoreError as error:
            log.error("a command was not carried out", extra={"fields": {"error": str(error)}})
            return Err(error_text(error))
        except HeadgateError as error:
            return Err(error_text(error))
        except Exception:
            # A mistake of ours costs the app that met it an answer, and nobody else anything.
            log.exception("a command failed")
            return Err("INTERNAL")

    async def _answer(self, request: NtfRequest, verifier: Verifier, network: str) -> NtfReply:
        match request.command:
            case Ping():
                return Pong()
            case c.TNew() as asked:
                return await self._register(request, asked, verifier, network)
            case c.SNew() as asked:
                token = await self._records.read(tokens.get, asked.token)
                await self._check(request, verifier, token)
                return await self._subscribe(asked)
            case c.SChk() | c.SDel():
                return await self._of_subscription(request, verifier)
            case _:
                return await self._of_token(request, verifier)

    # Tokens.

    async def _register(
        self, request: NtfRequest, asked: c.TNew, verifier: Verifier, network: str
    ) -> IdTkn:
        keys = [asked.verify_key]
        if not verifier.entity(request.signed, request.authorization, keys, request.correlation):
            raise Unauthorised
        check_provider(asked.device, self._settings.providers)
        self._rate.count(network, self._clock())
        fresh = FreshToken(self._draw(ID_BYTES), self._draw(PRIVATE_BYTES), self._draw(CODE_BYTES))
        # ACC-110: it is on the disk before it is answered, and before its code is on the way.
        token = await self._records.write(_register, asked, fresh, self._day)
        self._codes.push_code(token)
        return IdTkn(token.id, token.public_key)

    async def _of_token(self, request: NtfRequest, verifier: Verifier) -> NtfReply:
        token = await self._records.read(tokens.get, request.entity)
        token = await self._check(request, verifier, token)
        match request.command:
            case c.TChk():
                return TokenState(token.status, token.reason)
            case c.TVfy(code):
                self._notifiers.forget(await self._records.write(_verify, token.id, code))
            case c.TRpl(device):
                check_provider(device, self._settings.providers)
                fresh = self._draw(CODE_BYTES)
                replaced = await self._records.write(_replace_device, token.id, device, fresh)
                self._codes.push_code(replaced)
            case c.TDel():
                self._notifiers.forget(await self._records.write(tokens.remove, token.id))
            case c.TCrn(minutes):
                change = partial(set_interval, minutes=minutes)
                await self._records.write(_change, token.id, change)
            case other:
                raise AssertionError(f"{other.tag!r} is not about a token")
        return Ok()

    # Subscriptions.

    async def _subscribe(self, asked: c.SNew) -> IdSub:
        fresh = self._draw(ID_BYTES)
        router, made, is_new = await self._records.write(_subscribe, asked, fresh)
        if is_new:
            self._notifiers.want(router, made)
        return IdSub(made.id)

    async def _of_subscription(self, request: NtfRequest, verifier: Verifier) -> NtfReply:
        found = await self._records.read(_find, request.entity)
        token = await self._check(request, verifier, None if found is None else found[1])
        assert found is not None, "without a subscription nothing is authorized"
        check_may_subscribe(token)
        subscription, _, router = found
        if isinstance(request.command, c.SDel):
            removed = await self._records.write(subscriptions.remove, subscription.id)
            self._notifiers.forget([] if removed is None else [removed])
            return Ok()
        return subscription.state(self._notifiers.is_service_active(router))

    # Who asks.

    async def _check(self, request: NtfRequest, verifier: Verifier, token: Token | None) -> Token:
        """The token, if it is there and its key signed. It takes as long if it is not there."""
        keys = [] if token is None else [token.verify_key]
        is_signed = verifier.entity(
            request.signed, request.authorization, keys, request.correlation
        )
        if token is None or not is_signed:
            raise Unauthorised
        if token.used_day != self._day:
            return await self._records.write(_change, token.id, partial(use, day=self._day))
        return token

    @property
    def _day(self) -> int:
        return int(self._clock() // DAY_SECONDS)


# Transactions.


def _get(tables: Tables, id: bytes) -> Token:
    """Raises for a token that was removed meanwhile."""
    token = tokens.get(tables, id)
    if token is None:
        raise Unauthorised
    return token


def _change(tables: Tables, id: bytes, decide: Callable[[Token], Token]) -> Token:
    """Raises for a token that was removed meanwhile."""
    token = tokens.change(tables, id, decide)
    if token is None:
        raise Unauthorised
    return token


def _register(tables: Tables, asked: c.TNew, fresh: FreshToken, day: int) -> Token:
    found = tokens.of_device(tables, asked.device, asked.verify_key)
    token = register(found, asked, fresh, day)
    if token is not found:
        tokens.put(tables, token)
        tokens.record(tables, found, token)
    return token


def _verify(tables: Tables, id: bytes, code: bytes) -> list[RemovedSubscription]:
    """The subscriptions that leave, with their tokens."""
    token = _change(tables, id, lambda before: verify(before, code))
    # ACC-109: a device has one owner, the last who showed its code.
    leaving = superseded(token, tokens.all_of_device(tables, token.device))
    return [gone for other in leaving for gone in tokens.remove(tables, other.id)]


def _replace_device(tables: Tables, id: bytes, device: Device, code: bytes) -> Token:
    token = _get(tables, id)
    other = tokens.of_device(tables, device, token.verify_key)
    is_taken = other is not None and other.id != id
    return _change(tables, id, lambda before: replace_device(before, device, is_taken, code))


def _subscribe(
    tables: Tables, asked: c.SNew, fresh: bytes
) -> tuple[RouterNumber, NotifierSubscription, bool]:
    """The router, the subscription, and whether it is to be made at the router."""
    check_may_subscribe(_get(tables, asked.token))
    router = routers.find(tables, asked.router)
    found = None if router is None else subscriptions.of_notifier(tables, router, asked.notifier)
    held = subscriptions.held_by(tables, asked.token)
    made = deciding.subscribe(found, asked, fresh, held)
    if router is None:
        router = routers.number_of(tables, asked.router)
    if made is not found:
        subscriptions.put(tables, router, made)
    return router, made, found is None or not found.is_wanted


def _find(
    tables: Tables, id: bytes
) -> tuple[NotifierSubscription, Token | None, RouterNumber] | None:
    subscription = subscriptions.get(tables, id)
    if subscription is None:
        return None
    router = routers.find(tables, subscription.router)
    assert router is not None, "a subscription has a router"
    return subscription, tokens.get(tables, subscription.token), router
