"""Facts of a notification server: the vocabulary of its journal.

Its metrics come from what it counts, and its log from who notices; these are for the journal alone.
Tokens and notifiers are named by digests, as exclusive queues are in the journal of a router:
those of notifiers are the ones that its tallies use. No fact has a device, a key or anything that
was sealed; and what is done for every message is counted, so that nobody can read here when whose
device was woken.
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
    """A token was removed with so many subscriptions: its app asked for it, or another app showed
    that the device is its own."""

    at: float
    token: bytes
    count: int


@value
class NotifierAdded:
    """A token is woken for a notifier from now on, or again."""

    at: float
    notifier: bytes
    token: bytes
    router: str


@value
class NotifierEnded:
    """A router refused a notifier, or ended it; status says why."""

    at: float
    notifier: bytes
    router: str
    status: str


@value
class NotifierRemoved:
    """An app does not want to be woken for a notifier any more."""

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
    """So many subscriptions that are no service's went with the session of their router."""

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
    """Notices of routers in about a second, by what became of them."""

    at: float
    fate: str
    count: int


@value
class PushesCounted:
    """Pushes in about a second, by what they were for and what became of them."""

    at: float
    provider: str
    push: str
    outcome: str
    count: int


@value
class DriftsCounted:
    """Tallies of routers that differed from ours in about a second, and how."""

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
"""What a journal may have, whoever wrote it."""
