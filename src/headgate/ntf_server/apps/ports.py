"""Ports of commands of apps to the other parts of the server. Each of them returns at once; what
follows does not hold up the answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headgate.notify.subscriptions import NotifierSubscription
from headgate.notify.tokens import Token
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.records.subscriptions import RemovedSubscription


class CodePort(Protocol):
    """The port that pushes codes."""

    def push_code(self, token: Token) -> None:
        """Push the code of a token to its device."""
        ...


class SubscribePort(Protocol):
    """The port that has sessions with routers."""

    def want(self, router: RouterNumber, subscription: NotifierSubscription) -> None:
        """A subscription was stored and is to be made at its router."""
        ...

    def forget(self, removed: Iterable[RemovedSubscription]) -> None:
        """Subscriptions were removed. If one of their notifiers is wanted again, it is another
        subscription, with a key that its router has to judge."""
        ...

    def is_service_active(self, router: RouterNumber) -> bool:
        """Whether what is associated with our service at a router is active."""
        ...
