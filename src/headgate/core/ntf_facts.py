"""Facts of a notification server: the vocabulary of its journal.

Its metrics and its log have other sources; these are for the journal alone. Tokens and notifiers
are named by digests, as exclusive queues are in the journal of a router: those of notifiers are the
ones in its tallies. No fact has a device, a key or sealed data; and everything done for single
messages is only counted, so that the journal does not show when a device was woken.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

from headgate.core.facts import Fact
from headgate.core.model.value import value


@value
class NtfStarted:
    """The notification server began."""

    at: float
    version: str


@value
class TokenRegistered:
    """A device was registered for the first time."""

    at: float
    token: bytes
    provider: str


@value
class TokenChanged:
    """A token has another status, or another device."""

    at: float
    token: bytes
    provider: str
    status: str


@value
class TokenRemoved:
    """A token was removed with so many subscriptions, by its app, or because another app proved
    that the device is its own."""

    at: float
    token: bytes
    count: int


@value
class NotifierAdded:
    """A notifier wakes a token's device from now on, or again."""

    at: float
    notifier: bytes
    token: bytes
    router: str


@value
class NotifierEnded:
    """A router refused a notifier, or ended it; `status` gives the reason."""

    at: float
    notifier: bytes
    router: str
    status: str


@value
class NotifierRemoved:
    """An app removed a notifier of its token."""

    at: float
    notifier: bytes
    router: str


@value
class NotifiersActive:
    """A router confirmed so many subscriptions."""

    at: float
    router: str
    count: int


@value
class NotifiersLost:
    """The session with a router ended, and so many subscriptions outside of the service with it."""

    at: float
    router: str
    count: int


@value
class ServiceForgotten:
    """A router does not know our service: so many subscriptions are single from now on."""

    at: float
    router: str
    count: int


@value
class NoticesCounted:
    """Notices of routers in about a second, by their outcome."""

    at: float
    fate: str
    count: int


@value
class PushesCounted:
    """Pushes in about a second, by purpose and outcome."""

    at: float
    provider: str
    push: str
    outcome: str
    count: int


@value
class DriftsCounted:
    """Tallies of routers that differed from ours in about a second, by the kind of difference."""

    at: float
    drift: str
    count: int


NtfFact: TypeAlias = (
    NtfStarted
    | TokenRegistered
    | TokenChanged
    | TokenRemoved
    | NotifierAdded
    | NotifierEnded
    | NotifierRemoved
    | NotifiersActive
    | NotifiersLost
    | ServiceForgotten
    | NoticesCounted
    | PushesCounted
    | DriftsCounted
)

NTF_KINDS: tuple[type[NtfFact], ...] = get_args(NtfFact)

AnyFact: TypeAlias = Fact | NtfFact
"""All facts that a journal may have, of either server."""
