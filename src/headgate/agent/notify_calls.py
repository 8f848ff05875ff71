"""Calls of an application for being woken by pushes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from headgate.agent.model import ConnectionId, UserId
from headgate.agent.notifying import Notifying
from headgate.agent.push_token import PushedNotice, PushToken
from headgate.errors import HeadgateError
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import Device
from headgate.wire.ntf.replies import TokenState


class NotifyCalls(ABC):
    """The part of `Agent` that has its queues watched by a notification server, for a program that
    does not stay connected. Each call raises `NotConnected`, `TimedOut` and, with the server's
    error, `RequestRefused`; each may be cancelled, and repeated."""

    user: UserId
    _notifying: Notifying

    @abstractmethod
    def _check_open(self) -> None:
        """Raises `Closed` if the agent is closed."""

    async def push_token(self, server: str | NtfAddress, device: Device) -> PushToken:
        """The token of a device at a notification server: made once, and returned again later.
        Until it is verified, the server pushes a code to the device, which is for `verify`. Raises
        `LargeMessage` for an endpoint that is too long."""
        self._check_open()
        parsed = NtfAddress.parse(server) if isinstance(server, str) else server
        return await self._notifying.register(parsed, device)

    async def verify(self, token: PushToken, push: bytes) -> PushToken:
        """Prove to the server that the device is ours, with the push that it sent there, as the
        push service brought it; return the token. Raises `Malformed` for another push."""
        self._check_open()
        return await self._notifying.verify(token, push)

    async def notify(
        self, token: PushToken, *, user: UserId | None = None
    ) -> dict[ConnectionId, HeadgateError | None]:
        """Have all present queues watched for a verified token; return the error of each
        connection, or None. Call it again when there are more queues."""
        self._check_open()
        return await self._notifying.notify(token, self.user if user is None else user)

    async def open_push(self, token: PushToken, push: bytes) -> list[PushedNotice]:
        """The queues that have messages, the newest last, by a push to the device; None if it only
        wakes. Raises `Malformed` for anything else, and for a push to another token."""
        self._check_open()
        return await self._notifying.open(token, push)

    async def push_status(self, token: PushToken) -> TokenState:
        """The status of a token at the server. A dead one is registered again by `push_token`."""
        self._check_open()
        return await self._notifying.status(token)

    async def remove_push_token(self, token: PushToken) -> None:
        """Have the server forget the device and all that it watches for it."""
        self._check_open()
        await self._notifying.remove(token)
