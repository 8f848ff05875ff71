"""Short links: the key to data on a router, in a hundred characters.

The data is a link to a connection and the owner's own data; see `link_data`. A contact's short link
has only the key, from which the id and the encryption of the data are derived. An invitation's has
the id that the router assigned beside it.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import field
from enum import Enum
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.agent.query import Query, escape
from headgate.wire.smp.codec.router_address import (
    KEY_HASH_BYTES,
    RouterAddress,
    check_hosts,
    decode_base64,
    parse_port,
)

LINK_KEY_BYTES: Final = 32
LINK_ID_BYTES_MAX: Final = 255

TEXT: Final = re.compile(
    r"(?:simplex:|https://(?P<host>[^/?#:]+))/(?P<kind>[acgri])/?#/?"
    r"(?:(?P<id>[^/?]+)/)?(?P<key>[^/?]+)/?(?:\?(?P<query>.*))?",
    re.DOTALL,
)


class ContactKind(Enum):
    """The kind of a contact's address. The value is the letter in its short link."""

    CONTACT = "a"
    CHANNEL = "c"
    GROUP = "g"
    RELAY = "r"


@value
class ContactShortLink:
    """A link that leads to a contact's address."""

    kind: ContactKind
    router: RouterAddress
    key: bytes = field(repr=False)

    @property
    def text(self) -> str:
        return f"simplex:/{self.kind.value}#{_base64(self.key)}{_format_router(self.router)}"

    def __str__(self) -> str:
        return self.text


@value
class InvitationShortLink:
    """A link that leads to an invitation."""

    router: RouterAddress
    id: bytes
    key: bytes = field(repr=False)

    @property
    def text(self) -> str:
        where = f"{_base64(self.id)}/{_base64(self.key)}"
        return f"simplex:/i#{where}{_format_router(self.router)}"

    def __str__(self) -> str:
        return self.text


ShortLink: TypeAlias = ContactShortLink | InvitationShortLink


def parse_short_link(text: str, known: Iterable[RouterAddress] = ()) -> ShortLink:
    """Parse the text. A link that is a web page of its router may leave out the fingerprint: then
    the router must be among the `known`."""
    match = TEXT.fullmatch(text)
    if match is None:
        raise Malformed("no short link: simplex:/a#... or simplex:/i#.../...")
    key = decode_base64(match["key"])
    if len(key) != LINK_KEY_BYTES:
        raise Malformed(f"the key of a short link has {LINK_KEY_BYTES} bytes")
    router = _parse_router(match["host"], Query(match["query"] or ""), known)
    if match["kind"] != "i":
        if match["id"] is not None:
            raise Malformed("the short link of a contact has only a key")
        return ContactShortLink(ContactKind(match["kind"]), router, key)
    link_id = decode_base64(match["id"] or "")
    if not 0 < len(link_id) <= LINK_ID_BYTES_MAX:
        raise Malformed("the short link of an invitation has an id before its key")
    return InvitationShortLink(router, link_id, key)


def _parse_router(host: str | None, query: Query, known: Iterable[RouterAddress]) -> RouterAddress:
    more = query.find("h")
    names = check_hosts([*([host] if host else []), *(more.split(",") if more else [])])
    if not names:
        raise Malformed("a short link names its router")
    encoded = query.find("c")
    if encoded is None:
        for router in known:
            if names[0] in router.hosts:
                return RouterAddress(router.hosts, router.written_port, router.key_hash)
        raise Malformed("a short link without the fingerprint of its router, which is not known")
    key_hash = decode_base64(encoded)
    if len(key_hash) != KEY_HASH_BYTES:
        raise Malformed(f"the fingerprint of a router has {KEY_HASH_BYTES} bytes")
    port = query.find("p")
    return RouterAddress(names, parse_port(port) if port else None, key_hash)


def _format_router(router: RouterAddress) -> str:
    port = "" if router.written_port is None else f"&p={router.written_port}"
    return f"?h={escape(','.join(router.hosts))}{port}&c={_base64(router.key_hash)}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
