"""Calls of an application about plain queues."""

from __future__ import annotations

from abc import ABC, abstractmethod

from headgate.agent.events import Message
from headgate.agent.fetching import Fetching
from headgate.agent.model import RouterId, UserId
from headgate.agent.queues import OwnQueue, Queues
from headgate.agent.sender_queue import SenderQueue
from headgate.agent.sending import Sending
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.codec.router_address import RouterAddress


class QueueCalls(ABC):
    """The part of `Agent` for queues without a connection around them: one program sends, another
    receives the same bytes. Every coroutine may be cancelled: stored steps go on."""

    user: UserId
    _queues: Queues
    _fetching: Fetching
    _sending: Sending

    @abstractmethod
    async def _router(self, address: str | RouterAddress) -> RouterId:
        """The number of a router, which is stored if it is new."""

    @abstractmethod
    async def _router_for(self, router: str | RouterAddress | None, what: str) -> RouterAddress:
        """The router for a new queue."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises `Closed` if the agent is closed."""

    async def queue(
        self, name: str, *, router: str | RouterAddress | None = None, user: UserId | None = None
    ) -> OwnQueue:
        """The queue of this name: made once, at this router or at the first that the agent was
        opened with, and returned again later. Its `address` is for the one program that sends to
        it. Raises the router's refusal, `NotConnected` and `TimedOut`."""
        self._check_open()
        owner = self.user if user is None else user
        known = await self._queues.find(owner, name)
        if known is not None:
            return known
        place = await self._router_for(router, f"the queue {name}")
        return await self._queues.make(owner, place, name)

    async def fetch(self, queue: OwnQueue) -> Message | None:
        """The first message of a queue that is not subscribed, or None: for an agent that was
        opened without subscribing. The queue is locked until the message is acknowledged. Raises
        `Prohibited` if it is subscribed or locked, `NotConnected` and `TimedOut`."""
        self._check_open()
        return await self._fetching.fetch((queue.router, queue.recipient_id))

    async def open_queue(
        self, address: str | QueueAddress, *, user: UserId | None = None
    ) -> SenderQueue:
        """Become the sender of a queue by its address. Raises `LinkUsed` if there is another.
        Without a connection with its router it is secured as soon as there is one."""
        self._check_open()
        if isinstance(address, str):
            address = QueueAddress.parse(address)
        await self._router(address.router)
        opened = await self._queues.open(self.user if user is None else user, address)
        return SenderQueue(opened, self._sending)
