"""Queue address: where to send messages for one recipient, as text and as bytes.

The recipient publishes it, alone or inside a link. It has the router, the id that senders use, and
the recipient's public key for this queue. `QueueInfo` has one version in place of a range: a joiner
sends it for the queue on which it wants to be answered.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final

from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.crypto.keys import KeyKind, kind_of
from headgate.errors import Malformed
from headgate.wire.smp.agent.query import Query, escape
from headgate.wire.smp.agent.versions import (
    encode_versions,
    format_versions,
    parse_versions,
    read_versions,
)
from headgate.wire.smp.codec.encoding import FieldReader, boolean, string, word16
from headgate.wire.smp.codec.router_address import (
    SCHEME,
    RouterAddress,
    check_hosts,
    decode_base64,
)
from headgate.wire.smp.handshake import Versions

SECURABLE_FROM: Final = 3
"""The first client version in which a sender may secure a queue itself."""

PURPOSE_FROM: Final = 4
"""The first client version that names the purpose of a queue."""

UNVERSIONED: Final = Versions(1, 1)
"""The version of the oldest addresses, which have none."""

ID_BYTES_MAX: Final = 255

READ_AS: Final = {
    b"M": Purpose.MESSAGING,
    b"T": Purpose.MESSAGING,
    b"C": Purpose.CONTACT,
    b"F": Purpose.CONTACT,
}
"""Values of a purpose, and of the older flag that a sender may secure the queue."""

TEXTS: Final = {Purpose.MESSAGING: "m", Purpose.CONTACT: "c"}


@value
class QueueAddress:
    """Where a queue takes messages, and the key for sealing them."""

    versions: Versions
    """Versions of envelopes that the recipient reads."""
    router: RouterAddress
    sender_id: bytes
    key: bytes
    """A key of X25519, as SPKI."""
    purpose: Purpose | None
    """None in an address of an old client, which counts as a contact's."""

    @classmethod
    def parse(cls, text: str) -> QueueAddress:
        """Parse the text, in the present form or an older one."""
        where, mark, fragment = text.partition("#")
        if not (mark and where.startswith(SCHEME)):
            raise Malformed("no address of a queue")
        server, slash, sender = where.removeprefix(SCHEME).partition("/")
        router = RouterAddress.parse(SCHEME + server)
        sender_id = decode_base64(sender.removesuffix("/"))
        if not (slash and 0 < len(sender_id) <= ID_BYTES_MAX):
            raise Malformed("the address of a queue has no id of its senders")
        key_text, question, parameters = fragment.partition("?")
        key_text = key_text.removesuffix("/")
        if not question:
            router = _with_hosts(router, "")
            return cls(UNVERSIONED, router, sender_id, _parse_key(key_text), None)
        query = Query(parameters)
        return cls(
            parse_versions(query.need("v")),
            _with_hosts(router, query.find("srv") or ""),
            sender_id,
            _parse_key(key_text or query.need("dh")),
            _parse_purpose(query),
        )

    @property
    def text(self) -> str:
        parameters = [f"v={format_versions(self.versions)}", f"dh={escape(_key_text(self.key))}"]
        if self.purpose is not None:
            parameters.append(f"q={TEXTS[self.purpose]}")
        if self.sender_can_secure and self.versions.lowest < PURPOSE_FROM:
            parameters.append("k=s")
        sender = urlsafe_b64encode(self.sender_id).decode()
        return f"{self.router.text}/{sender}#/?{'&'.join(parameters)}"

    @classmethod
    def read(cls, reader: FieldReader) -> QueueAddress:
        versions = read_versions(reader)
        return cls(versions, *_read_place(reader))

    def encode(self) -> bytes:
        return encode_versions(self.versions) + _encode_place(self) + self._encode_purpose()

    @property
    def sender_can_secure(self) -> bool:
        return self.purpose is Purpose.MESSAGING

    def at(self, version: int) -> QueueInfo:
        """The address in the version agreed on with a peer."""
        return QueueInfo(version, self.router, self.sender_id, self.key, self.purpose)

    def _encode_purpose(self) -> bytes:
        lowest, highest = self.versions
        if lowest >= PURPOSE_FROM:
            return b"" if self.purpose is None else self.purpose.value.encode()
        if lowest >= SECURABLE_FROM or (highest >= SECURABLE_FROM and self.sender_can_secure):
            return boolean(self.sender_can_secure)
        return b""

    def __str__(self) -> str:
        return self.text


@value
class QueueInfo:
    """A queue on which a peer wants to be answered."""

    version: int
    router: RouterAddress
    sender_id: bytes
    key: bytes
    """A key of X25519, as SPKI."""
    purpose: Purpose | None

    @classmethod
    def read(cls, reader: FieldReader) -> QueueInfo:
        """Read the bytes. If a peer leaves out the purpose and the next byte is one of its letters,
        they are misread: the format is ambiguous."""
        version = reader.word16()
        return cls(version, *_read_place(reader))

    def encode(self) -> bytes:
        """The bytes. Any letter may follow, so the purpose is always written."""
        assert self.purpose is not None, "a queue of ours has a purpose"
        assert self.version >= SECURABLE_FROM, "a purpose has no place in an older version"
        named = self.version >= PURPOSE_FROM
        purpose = self.purpose.value.encode() if named else boolean(self.sender_can_secure)
        return word16(self.version) + _encode_place(self) + purpose

    @property
    def sender_can_secure(self) -> bool:
        return self.purpose is Purpose.MESSAGING


def _read_place(reader: FieldReader) -> tuple[RouterAddress, bytes, bytes, Purpose | None]:
    router = RouterAddress.read(reader)
    sender_id = reader.string()
    if not sender_id:
        raise Malformed("the address of a queue has no id of its senders")
    key = reader.dh_key()
    purpose = READ_AS.get(reader.peek())
    if purpose is not None:
        reader.byte()
    return router, sender_id, key, purpose


def _encode_place(place: QueueAddress | QueueInfo) -> bytes:
    return place.router.encode() + string(place.sender_id) + string(place.key)


def _parse_purpose(query: Query) -> Purpose | None:
    for purpose, letter in TEXTS.items():
        if query.find("q") == letter:
            return purpose
    return Purpose.MESSAGING if query.find("k") == "s" else None


def _parse_key(text: str) -> bytes:
    key = decode_base64(text)
    if kind_of(key) is not KeyKind.X25519:
        raise Malformed("the address of a queue has a key of X25519")
    return key


def _key_text(key: bytes) -> str:
    return urlsafe_b64encode(key).decode()


def _with_hosts(router: RouterAddress, more: str) -> RouterAddress:
    """The router with the hosts that older clients wrote separately, and without the password,
    which is not for senders."""
    hosts = [*router.hosts, *(more.split(",") if more else ())]
    return RouterAddress(check_hosts(hosts), router.written_port, router.key_hash)
