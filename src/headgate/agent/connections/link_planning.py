"""Short links of our own queues, and the data behind those of others.

The data behind a link is sealed and signed before the router has it; `wire/smp/agent/link_data.py`
has the bytes. Fresh keys are arguments, or drawn by an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.client.smp.recipient import LinkData
from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.crypto.box import NONCE_BYTES
from headgate.crypto.keys import public_key
from headgate.errors import Malformed
from headgate.wire.smp.agent.link_data import (
    ContactData,
    FixedLinkData,
    InvitationData,
    SealedLink,
    UserLinkData,
    contact_link_keys,
    invitation_data_key,
    link_key,
    open_link,
    seal_fixed,
    seal_user,
)
from headgate.wire.smp.agent.links import ConnectionLink, ContactLink, InvitationLink
from headgate.wire.smp.agent.short_links import (
    ContactKind,
    ContactShortLink,
    InvitationShortLink,
    ShortLink,
)
from headgate.wire.smp.agent.versions import AGENT_VERSIONS
from headgate.wire.smp.codec.replies import Lnk
from headgate.wire.smp.codec.router_address import RouterAddress

ROOT_BYTES: Final = 32


@value
class PlannedLink:
    """A short link whose queue is about to be made."""

    key: bytes = field(repr=False)
    root_key: bytes = field(repr=False)
    """A private key of Ed25519 that signs the data of the link."""
    fixed: bytes = field(repr=False)
    data: LinkData = field(repr=False)
    """For the router."""


def plan_link(link: ConnectionLink, shown: bytes, draw: Callable[[int], bytes]) -> PlannedLink:
    """The data of a short link that leads to this one, and shows these bytes of the application.
    Raises `TooLong` if they have no room."""
    root_raw = draw(ROOT_BYTES)
    root = Ed25519PrivateKey.from_private_bytes(root_raw)
    fixed = FixedLinkData(AGENT_VERSIONS, public_key(root), link).encode()
    key = link_key(fixed)
    user: UserLinkData
    if isinstance(link, ContactLink):
        link_id, data_key = contact_link_keys(key)
        user = ContactData(AGENT_VERSIONS, True, (), shown)
    else:
        link_id, data_key = None, invitation_data_key(key)
        user = InvitationData(AGENT_VERSIONS, shown)
    sealed_fixed = seal_fixed(data_key, draw(NONCE_BYTES), fixed, root)
    sealed_user = seal_user(data_key, draw(NONCE_BYTES), user.encode(), root)
    return PlannedLink(key, root_raw, fixed, LinkData(sealed_fixed, sealed_user, link_id))


def short_link_of(router: RouterAddress, queue: ReceiveQueue) -> ShortLink | None:
    """The short link of a queue of ours, if its router has one for it."""
    if queue.link_id is None or queue.link_key is None:
        return None
    if queue.mode == Purpose.CONTACT.name.lower():
        return ContactShortLink(ContactKind.CONTACT, router, queue.link_key)
    return InvitationShortLink(router, queue.link_id, queue.link_key)


@value
class FollowedContact:
    """A contact behind the short link of an address, and the bytes that it shows."""

    link: ContactLink
    shown: bytes = field(repr=False)


def follow_contact(link: ContactShortLink, found: Lnk) -> FollowedContact:
    """The contact behind a short link. Raises `Malformed` if the router changed anything."""
    keys = contact_link_keys(link.key)
    opened = open_link(link.key, keys.data_key, SealedLink(found.fixed, found.user))
    if not isinstance(opened.fixed.link, ContactLink):
        raise Malformed("the short link of a contact leads to something else")
    return FollowedContact(opened.fixed.link, opened.user.data)


def follow_invitation(link: InvitationShortLink, found: Lnk) -> InvitationLink:
    """Follow an invitation."""
    data_key = invitation_data_key(link.key)
    opened = open_link(link.key, data_key, SealedLink(found.fixed, found.user))
    if not isinstance(opened.fixed.link, InvitationLink):
        raise Malformed("the short link of an invitation leads to something else")
    return opened.fixed.link
