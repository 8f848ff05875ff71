"""Links: what one person gives to another so that their agents connect, as text and as bytes.

An invitation is for one person, and has the keys with which the ratchet begins. A contact's address
is for anybody: a user of it sends an invitation there. A short link leads to the bytes.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.agent.query import Query, escape
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.ratchet_parameters import RatchetOffer
from headgate.wire.smp.agent.versions import (
    encode_versions,
    format_versions,
    parse_versions,
    read_versions,
)
from headgate.wire.smp.codec.encoding import FieldReader, items, large, maybe
from headgate.wire.smp.handshake import Versions

TEXT: Final = re.compile(r"(?:simplex:|https://[^/?#]+)/(invitation|contact)/?#/?\?(.*)", re.DOTALL)
"""A web page with the same path shows the link to people whose agent did not open it."""

QUEUES_MAX: Final = 255
DATA_BYTES_MAX: Final = 65535


@value
class InvitationLink:
    """A link for the first person to use it."""

    versions: Versions
    """Versions of agents' messages that its maker reads."""
    queues: tuple[QueueAddress, ...]
    offer: RatchetOffer
    data: bytes | None = field(default=None, repr=False)
    """For the application."""

    @property
    def text(self) -> str:
        more = f"&e2e={escape(self.offer.text)}"
        return f"simplex:/invitation#/?{_format(self)}{more}{_format_data(self.data)}"

    def encode(self) -> bytes:
        return b"I" + _encode(self) + self.offer.encode()

    def __str__(self) -> str:
        return self.text


@value
class ContactLink:
    """A link for anybody, again and again."""

    versions: Versions
    queues: tuple[QueueAddress, ...]
    data: bytes | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        return f"simplex:/contact#/?{_format(self)}{_format_data(self.data)}"

    def encode(self) -> bytes:
        return b"C" + _encode(self)

    def __str__(self) -> str:
        return self.text


ConnectionLink: TypeAlias = InvitationLink | ContactLink


def parse_link(text: str) -> ConnectionLink:
    """Parse the text: parameters in any order, unknown ones ignored."""
    match = TEXT.fullmatch(text)
    if match is None:
        raise Malformed(
            "no link to a connection: simplex:/invitation#/?... or simplex:/contact#/?..."
        )
    query = Query(match[2])
    versions = parse_versions(query.need("v"))
    addresses = query.need("smp").split(";")
    data = query.find_bytes("data")
    if len(addresses) > QUEUES_MAX or (data is not None and len(data) > DATA_BYTES_MAX):
        raise Malformed("a link with more than its bytes could hold")
    queues = tuple(QueueAddress.parse(address) for address in addresses)
    if match[1] == "contact":
        return ContactLink(versions, queues, data)
    return InvitationLink(versions, queues, RatchetOffer.parse(query.need("e2e")), data)


def read_link(reader: FieldReader) -> ConnectionLink:
    """Read the bytes of a link."""
    kind = reader.char()
    if kind not in (b"I", b"C"):
        raise Malformed("no link to a connection")
    versions = read_versions(reader)
    queues = tuple(reader.some(QueueAddress.read))
    data = reader.maybe(FieldReader.large)
    if kind == b"C":
        return ContactLink(versions, queues, data)
    return InvitationLink(versions, queues, RatchetOffer.read(reader), data)


def _format(link: ConnectionLink) -> str:
    queues = ";".join(queue.text for queue in link.queues)
    return f"v={format_versions(link.versions)}&smp={escape(queues)}"


def _format_data(data: bytes | None) -> str:
    return "" if data is None else f"&data={escape(data)}"


def _encode(link: ConnectionLink) -> bytes:
    queues = items([queue.encode() for queue in link.queues])
    data = maybe(None if link.data is None else large(link.data))
    return encode_versions(link.versions) + queues + data
