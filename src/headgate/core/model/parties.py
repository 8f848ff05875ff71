"""Parties: who may do what with an exclusive queue, and under which ids they know it.

A queue that strangers share has up to four ids: the recipient's, which is the queue's own, and
those of its sender, its notifier and its link. None can be told from another, so that knowing
one gives away nothing about the rest. Each party has a key of its own. The router keeps them
and never makes sense of them: whether a key is right is a `Proof`, which a wire hands in.
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
"""What a message takes on its way to a recipient, about: it is sealed, and padded so that its
length tells nothing."""


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
    """The purpose that a queue was made for; one of an old client says neither."""

    MESSAGING = "M"
    """One sender, who may secure the queue itself."""
    CONTACT = "C"
    """Open to many senders; its link can be read by everybody, its keys can be changed."""


@value
class Link:
    """Data that can be read by whoever knows the link, without knowing the queue."""

    id: bytes
    fixed: bytes
    user: bytes


@value
class Notifier:
    """Somebody who is told that there are messages, and nothing else."""

    id: bytes
    key: bytes
    secret: bytes
    """What the wire needs to seal a notice."""
    service: ServiceId | None = None


@value
class Parties:
    """The ids and keys of everybody who has to do with a queue."""

    keys: tuple[bytes, ...]
    """Any of them is the recipient's."""
    secret: bytes
    """What the wire needs to seal a message."""
    sender: bytes
    sender_key: bytes | None = None
    """Until it is set, anybody who knows the sender's id may send."""
    purpose: Purpose | None = None
    link: Link | None = None
    notifier: Notifier | None = None
    is_off: bool = False
    """Suspended: nothing more is taken, what is there can be read."""

    def addresses(self) -> list[Address]:
        """The ids beside the queue's own."""
        found = [Address(Party.SENDER, self.sender)]
        if self.notifier is not None:
            found.append(Address(Party.NOTIFIER, self.notifier.id))
        if self.link is not None:
            found.append(Address(Party.LINK, self.link.id))
        return found


Proof: TypeAlias = Callable[["QueueRecord | None"], HeadgateError | None]
"""Says why a command may not be carried out on a queue, or nothing. It is asked about a queue
that does not exist as well, so that a signature costs the same for both."""


# What may be changed. Each says what the parties are afterwards, or why not.


@value
class Secure:
    """Set the sender's key. The sender itself may do so only where the queue is for messaging."""

    key: bytes
    by_sender: bool = False

    def apply(self, parties: Parties) -> Parties:
        # ACC-21: only an invitation can be secured by its sender.
        if self.by_sender and parties.purpose is not Purpose.MESSAGING:
            raise Unauthorised
        # ACC-10, ACC-11, ACC-20: the same key again is fine, another is not.
        if parties.sender_key is not None and parties.sender_key != self.key:
            raise Unauthorised
        return replace(parties, sender_key=self.key)


@value
class ReadLink:
    """Read the link's data. A link for messaging is read by the one who secures the queue."""

    key: bytes | None = None

    def apply(self, parties: Parties) -> Parties:
        if parties.link is None:
            raise Unauthorised
        if self.key is not None:
            return Secure(self.key, by_sender=True).apply(parties)
        # ACC-83, ACC-84: an invitation is read by securing it, a contact by everybody.
        if parties.purpose is Purpose.MESSAGING or (
            parties.purpose is None and parties.sender_key is not None
        ):
            raise Unauthorised
        return parties


@value
class ChangeKeys:
    """Replace the recipient's keys, all of them."""

    keys: tuple[bytes, ...]

    def apply(self, parties: Parties) -> Parties:
        if parties.purpose is not Purpose.CONTACT:
            raise Unauthorised
        # ACC-22, ACC-23, ACC-24: the new keys are all there are; a key may leave itself out.
        return replace(parties, keys=self.keys)


@value
class SetLink:
    """Give the queue a link, or its link other user data; the rest of a link is fixed."""

    link: Link

    def apply(self, parties: Parties) -> Parties:
        # ACC-83: an invitation that was secured keeps its data.
        if parties.sender_key is not None and parties.purpose is not Purpose.CONTACT:
            raise Unauthorised
        kept = parties.link
        # ACC-84: of a link only the user data may change.
        if kept is not None and (kept.id, kept.fixed) != (self.link.id, self.link.fixed):
            raise Unauthorised
        return replace(parties, link=self.link)


@value
class DropLink:
    """The queue has no link any more."""

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, link=None)


@value
class SetNotifier:
    """Let somebody be told of messages, in place of whoever was."""

    notifier: Notifier

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, notifier=self.notifier)


@value
class DropNotifier:
    """The queue has no notifier any more."""

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, notifier=None)


@value
class Suspend:
    """Take no more messages."""

    def apply(self, parties: Parties) -> Parties:
        return replace(parties, is_off=True)


Change: TypeAlias = (
    Secure | ReadLink | ChangeKeys | SetLink | DropLink | SetNotifier | DropNotifier | Suspend
)


@value
class QueueRecord:
    """A queue without its messages, as the store keeps it."""

    queue: QueueId
    domain: str
    service: ServiceId | None = None
    parties: Parties | None = None
    """Who may do what with it; nobody is asked about a queue without."""
    is_full: bool = False
    """It reached its quota, and takes nothing more until it is empty."""
