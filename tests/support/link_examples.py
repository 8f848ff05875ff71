"""Links to connections, and strategies for others."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.wire.smp.agent.link_data import FixedLinkData
from headgate.wire.smp.agent.links import ContactLink, InvitationLink
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.handshake import Versions
from tests.support.agent_examples import (
    QUEUE,
    ROUTER,
    ed25519_public,
    queue_addresses,
    versions,
)
from tests.support.ratchet_examples import OFFER, offers
from tests.support.smp_examples import SENDER, larges

INVITATION = InvitationLink(Versions(2, 7), (QUEUE,), OFFER)

CONTACT_QUEUE = QueueAddress(Versions(2, 4), ROUTER, SENDER, QUEUE.key, None)
CONTACT = ContactLink(Versions(2, 7), (CONTACT_QUEUE,))

ROOT_KEY = ed25519_public(0x0A)
FIXED = FixedLinkData(Versions(2, 7), ROOT_KEY, CONTACT)

queue_lists = st.lists(queue_addresses, min_size=1, max_size=3).map(tuple)
link_data = st.none() | larges
invitations = st.builds(InvitationLink, versions, queue_lists, offers, link_data)
contacts = st.builds(ContactLink, versions, queue_lists, link_data)
links = invitations | contacts
