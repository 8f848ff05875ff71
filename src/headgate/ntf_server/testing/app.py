"""An app with a device: it registers, subscribes its notifiers, looks after them, and changes its
mind. It believes what it was answered, and the world holds the server to that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from random import Random
from typing import TYPE_CHECKING

from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.crypto.private_keys import encode_private
from headgate.errors import HeadgateError
from headgate.notify.push_content import CodePush, MessagesPush, Push, open_push, parse_entries
from headgate.ntf_server.testing.router import NotifierRouter, RouterNotifier
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.replies import IdSub, IdTkn, NtfReply, SubscriptionState, TokenState
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.replies import Err, Ok

if TYPE_CHECKING:
    from headgate.ntf_server.testing.world import NtfWorld

PATIENCE_SECONDS = 40.0
"""After which an app that was pushed no code registers again."""
DEATH_SECONDS = 30.0
"""Within which a server has written down that a device is dead, or failed to."""
OVER = (SubscriptionStatus.END, SubscriptionStatus.AUTH, SubscriptionStatus.DELETED)
"""Statuses that an app has to act on."""
PASSING = ("STORE", "QUOTA", "INTERNAL")
"""How errors begin after which a command may be repeated."""


class Unanswered(Exception):
    """The server did not answer, or could not carry the command out."""


@dataclass(eq=False)
class Watched:
    """A notifier of an app, and what the app knows of its subscription."""

    name: str
    router: NotifierRouter
    notifier: RouterNotifier
    key: bytes
    subscription: bytes = b""
    """As the server answered it; empty if there is none, or nobody knows."""
    gone: bytes = b""
    """The subscription that was removed last."""
    since: float | None = None
    """When it began to be certain that notices are pushed; none if it is not."""
    sent: int = 0
    """Messages of its queue."""
    got: int = 0
    """The newest message that the device was woken for."""


@dataclass(eq=False)
class TokenBook:
    """A token, as its app knows it."""

    id: bytes = b""
    push_key: bytes = b""
    code: bytes = b""
    is_verified: bool = False


class WorldApp:
    """An app with a device, owned by a world. Its device never sleeps."""

    def __init__(self, world: NtfWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.seed} {name}")
        self.watched: list[Watched] = []
        self.devices = 0
        self.book = TokenBook()
        self.changed_at = 0.0
        """When it last asked for something that takes its token, or its device, away."""
        self.died_at = -inf
        """When the provider said last that its device is dead."""
        self.installs = 0
        self._make_keys()
        self.device = self._new_device()
        self._sealed: list[CodePush] = []
        self._pushed = asyncio.Event()

    def _make_keys(self) -> None:
        self.installs += 1
        self.verify_key = f"{self.name} {self.installs}".encode()
        self._dh = self.random.randbytes(32)

    def _new_device(self) -> ApnsDevice:
        self.devices += 1
        return ApnsDevice(Provider.APNS_TEST, f"{self.name} {self.devices}".encode())

    # Its device.

    def receive(self, push: Push) -> None:
        """The device is woken."""
        match push:
            case CodePush():
                self._sealed.append(push)
                self._pushed.set()
            case MessagesPush():
                for entry in parse_entries(self._opened(push) or b""):
                    for each in self.watched:
                        if each.notifier.id == entry.notifier:
                            each.got = max(each.got, int(entry.metadata))

    def _opened(self, push: CodePush | MessagesPush) -> bytes | None:
        """None if it is sealed for a token that this app has not, or has no more."""
        try:
            return open_push(self.book.push_key, push) if self.book.push_key else None
        except HeadgateError:
            return None

    # Its life.

    async def live(self) -> None:
        while True:
            try:
                await self._go_on()
            except Unanswered:
                await asyncio.sleep(self.random.uniform(1.0, 10.0))

    async def _go_on(self) -> None:
        if not self.book.id:
            await self._register()
        elif not self.book.is_verified:
            await self._verify()
        elif missing := [each for each in self.watched if not each.subscription]:
            await self._subscribe(missing[0])
        else:
            await asyncio.sleep(self.random.choice((1.0, 30.0, 100.0)) * self.random.random())
            if self.world.is_calm or self.random.random() < 0.7:
                await self._look()
            else:
                await self._change()

    async def _register(self) -> None:
        dh = encode_key(KeyKind.X25519, public_of(self._dh))
        reply = await self._ask(c.TNew(self.device, self.verify_key, dh))
        assert isinstance(reply, IdTkn), f"TNEW: {reply}"
        if self.book.id and self.book.id != reply.token:
            self.world.broken("kept", f"{self.name} is registered as somebody else")
        self.book.id = reply.token
        self.book.push_key = shared_key(self._dh, raw_key(reply.dh))

    async def _verify(self) -> None:
        for push in self._sealed:
            self.book.code = self._opened(push) or self.book.code
        self._sealed.clear()
        self._pushed.clear()
        code, self.book.code = self.book.code, b""
        if not code:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._pushed.wait()
            except TimeoutError:
                await self._register()
            return
        # Whoever had the device before loses it, with all that it subscribed to.
        self.changed_at = self.world.loop.now
        try:
            reply = await self._ask(c.TVfy(code), self.book.id)
        except Unanswered:
            self.book.code = code
            raise
        # If the provider has just said that the device is dead, that may be kept after this.
        self.book.is_verified = reply == Ok() and not self._may_be_dead
        if self.book.is_verified:
            for each in self.watched:
                if each.subscription:
                    each.since = self.world.loop.now

    async def _subscribe(self, each: Watched) -> None:
        asked = c.SNew(self.book.id, each.router.address, each.notifier.id, each.key)
        reply = await self._ask(asked)
        if isinstance(reply, IdSub):
            each.subscription = reply.subscription
            each.since = self.world.loop.now
        else:
            # The token is not active any more.
            await self._look_at_token()

    # Looking after it.

    async def _look(self) -> None:
        await self._look_at_token()
        for each in self.watched:
            if each.subscription and self.book.is_verified:
                await self._look_at(each)

    async def _look_at_token(self) -> None:
        reply = await self._ask(c.TChk(), self.book.id)
        if not isinstance(reply, TokenState):
            self.world.broken("kept", f"{self.name} has no token any more: {reply}")
        elif reply.status is not TokenStatus.ACTIVE:
            self.book.is_verified = False
            if reply.status is TokenStatus.INVALID:
                await self._register()

    async def _look_at(self, each: Watched) -> None:
        reply = await self._ask(c.SChk(), each.subscription)
        if not isinstance(reply, SubscriptionState):
            self.world.broken("kept", f"{each.name} is subscribed no more: {reply}")
        elif reply.status in OVER:
            if each.notifier.id not in each.router.notifiers:
                await self._remove(each)
                each.notifier = each.router.add_notifier()
                each.sent = each.got = 0
            else:
                await self._subscribe(each)

    # Changing its mind.

    async def _change(self) -> None:
        match self.random.randrange(8):
            case 0 | 1 | 2:
                await self._remove(self.random.choice(self.watched))
            case 3:
                await self._replace_device()
            case 4:
                await self._leave()
            case 5:
                self._install_again()
            case _:
                minutes = self.random.choice((0, 20, 60))
                await self._ask(c.TCrn(minutes), self.book.id)

    async def _remove(self, each: Watched) -> None:
        """Remove a subscription, however often that has to be asked for."""
        subscription, each.subscription, each.since = each.subscription, b"", None
        await self._insist(c.SDel(), subscription)
        # It was removed by the last request, or by an earlier one that was not answered.
        each.gone = subscription

    async def _replace_device(self) -> None:
        self.device = self._new_device()
        self._forget_pushes()
        await self._insist(c.TRpl(self.device), self.book.id)

    async def _leave(self) -> None:
        self._forget_pushes()
        token, self.book = self.book.id, TokenBook()
        self._forget_subscriptions()
        await self._insist(c.TDel(), token)

    def _install_again(self) -> None:
        """The app forgets its keys and begins anew, with the device that it has."""
        self.world.trace.add(self.name, "is installed again")
        self._make_keys()
        self._forget_pushes()
        self.book = TokenBook()
        self._forget_subscriptions()

    def _forget_pushes(self) -> None:
        """From here on nothing is sure until a code was verified."""
        self.changed_at = self.world.loop.now
        self.book.is_verified = False
        self.book.code = b""
        self._sealed.clear()
        for each in self.watched:
            each.since = None

    def _forget_subscriptions(self) -> None:
        for each in self.watched:
            each.subscription = b""

    def died(self) -> None:
        """The provider said that the device is dead."""
        self.changed_at = self.died_at = self.world.loop.now
        self.book.is_verified = False
        for each in self.watched:
            each.since = None

    @property
    def _may_be_dead(self) -> bool:
        return self.world.loop.now < self.died_at + DEATH_SECONDS

    # Asking.

    async def _insist(self, command: c.NtfCommand, entity: bytes) -> None:
        """Ask until there is an answer."""
        while True:
            self.changed_at = self.world.loop.now
            try:
                await self._ask(command, entity)
            except Unanswered:
                await asyncio.sleep(self.random.uniform(1.0, 10.0))
            else:
                return

    async def _ask(self, command: c.NtfCommand, entity: bytes = b"") -> NtfReply:
        reply = await self.world.server.ask(self, command, entity)
        self.world.trace.add(self.name, f"{command.tag.decode()}: {_brief(reply)}")
        if isinstance(reply, Err) and reply.text.startswith(PASSING):
            raise Unanswered
        return reply


def _brief(reply: NtfReply) -> str:
    match reply:
        case TokenState():
            return reply.status.value
        case SubscriptionState():
            return reply.status.value
        case Err(text):
            return text
        case _:
            return type(reply).__name__


def notifier_private(number: int) -> bytes:
    """A key of a notifier. Routers of these worlds believe who asks."""
    return encode_private(KeyKind.X25519, number.to_bytes(32, "big"))
