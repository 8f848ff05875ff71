"""Parties: the ids and keys by which clients use an exclusive queue.

A queue that strangers share has up to four ids: the recipient's, which is the queue's own, and
those of its sender, its notifier and its link. None can be derived from another, so that knowing
one reveals nothing about the rest. Each party has a key of its own. The router keeps the keys
without using them: whether a key fits is decided by a `Proof`, which a wire provides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum, IntEnum
from typing import TypeAlias

from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.limits import KiB
from headgate.core.model.value import value
from headgate.errors import HeadgateError, Unauthorised

SEALED_BYTES = 16 * KiB
"""Bytes of a message on its way to a recipient, about: it is sealed, and padded so that its length
reveals nothing."""


class Party(IntEnum):
    """The party that an id of a queue belongs to."""

    RECIPIENT = 0
    SENDER = 1
    NOTIFIER = 2
    LINK = 3


@value
class Address:
    """A queue as one of its parties knows it."""

    party: Party
    id: bytes


class Purpose(Enum):
    """The purpose that a queue was made for; one of an old client has none."""

    MESSAGING = "M"
    """One sender, who may secure the queue itself."""
    CONTACT = "C"
    """Open to many senders; its link can be read by anybody, its keys can be changed."""


@value
class Link:
    """Data that can be read by its id, without knowing the queue."""

    id: bytes
    fixed: bytes
    user: bytes


@value
class Notifier:
    """A party that learns that there are messages, and nothing else."""

    id: bytes
    key: bytes
    secret: bytes
    """The key with which the wire seals notices."""
    service: ServiceId | None = None


@value
class Parties:
    """The ids and keys of all parties of a queue."""

    keys: tuple[bytes, ...]
    """The recipient's keys, any of which is valid."""
    secret: bytes
    """The key with which the wire seals messages."""
    sender: bytes
    sender_key: bytes | None = None
    """Until it is set, anybody who knows the sender's id may send."""
    purpose: Purpose | None = None
    link: Link | None = None
    notifier: Notifier | None = None
    is_off: bool = False
    """Suspended: no more messages are accepted, present ones can be read."""

    def addresses(self) -> list[Address]:
        """The ids beside the queue's own."""
        found = [Address(Party.SENDER, self.sender)]
        if self.notifier is not None:
            found.append(Address(Party.NOTIFIER, self.notifier.id))
        if self.link is not None:
            found.append(Address(Party.LINK, self.link.id))
        return found


Proof: TypeAlias = Callable[["QueueRecord | None"], HeadgateError | None]
"""Returns why a command may not be carried out on a queue, or None. It is called even if the queue
does not exist, so that a signature costs the same for both."""


# Changes of the parties. Each returns the changed parties, or raises.


@value
class Secure:
    """Set the sender's key. The sender itself may do so only if the queue is for messaging."""

    key: bytes
    by_sender: bool = False

    def apply(self, parties: Parties) -> Parties:
        # ACC-21: only a queue for messaging can be secured by its sender.
        if self.by_sender and parties.purpose is not Purpose.MESSAGING:
            raise Unauthorised
        # ACC-10, ACC-11, ACC-20: the same key again is accepted, another is refused.
        if parties.sender_key is not None and parties.sender_key != self.key:
            raise Unauthorised
        return replace(parties, sender_key=self.key)


@value
class ReadLink:
    """Read the link's data. A link for messaging is read by the sender that secures the queue."""

    key: bytes | None = None

    def apply(self, parties: Parties) -> Parties:
        if parties.link is None:
            raise Unauthorised
        if self.key is not None:
            return Secure(self.key, by_sender=True).apply(parties)
        # ACC-83, ACC-84: an invitation is read by securing it, a contact's link by anybody.
        if parties.purpose is Purpose.MESSAGING or (
            parties.purpose is None and parties.sender_key is not None
        ):
            raise Unauthorised
        return parties


@value
class ChangeKeys:
    """Replace all of the recipient's keys."""

    keys: tuple[bytes, ...]

    def apply(self, parties: Parties) -> Parties:
        if parties.purpose is not Purpose.CONTACT:
            raise Unauthorised
        # ACC-22, ACC-23, ACC-24: the new keys replace all; a key may leave itself out.
        return replace(parties, keys=self.keys)


@value
class SetLink:
    """Give the queue a link, or its link other user data; the rest of a link is fixed."""

    link: Link

    def apply(self, parties: Parties) -> Parties:
        # ACC-83: a secured invitation keeps its data.
        if parties.sender_key is not None and parties.purpose is not Purpose.CONTACT:
            raise Unauthorised
        kept = parties.link
        # ACC-84: only the user data of a link may change.
        if kept is not None and (kept.id, kept.fixed) != (self.link.id, self.link.fixed):
            raise Unauthorised
        return replace(parties, link=self.link)


@value
class DropLink:
    """Remove the queue's link."""

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, link=None)


@value
class SetNotifier:
    """Set the notifier of a queue, replacing the present one."""

    notifier: Notifier

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, notifier=self.notifier)


@value
class DropNotifier:
    """Remove the queue's notifier."""

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, notifier=None)


@value
class Suspend:
    """Accept no more messages."""

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, is_off=True)


Change: TypeAlias = (
    Secure | ReadLink | ChangeKeys | SetLink | DropLink | SetNotifier | DropNotifier | Suspend
)


@value
class QueueRecord:
    """A queue without its messages, as the store has it."""

    queue: QueueId
    domain: str
    service: ServiceId | None = None
    parties: Parties | None = None
    """Its parties; a shared queue has none."""
    is_full: bool = False
    """Whether it reached its quota, and accepts no more until it is empty."""
