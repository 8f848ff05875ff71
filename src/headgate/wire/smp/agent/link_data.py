"""Link data: the data that a router stores for a short link, and how it is sealed and proved.

It has two parts. The fixed part is a link to a connection and a root key; its hash is the key of
the short link, so the router cannot change it. The user's part is the owner's to change: it is
signed by the root key or, at a contact's address, by an owner whom the root key or an earlier owner
has signed. Both are sealed with a key derived from the hash, and padded.
"""

from __future__ import annotations

from dataclasses import field
from hashlib import sha3_256
from hmac import compare_digest
from typing import Final, NamedTuple, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from headgate.core.model.value import value
from headgate.crypto.box import NONCE_BYTES, box, unbox
from headgate.crypto.hsalsa20 import hsalsa20
from headgate.crypto.keys import KeyKind, kind_of, verify
from headgate.crypto.padding import LENGTH_BYTES, pad, unpad
from headgate.errors import Malformed, TooLong
from headgate.wire.smp.agent.links import ConnectionLink, read_link
from headgate.wire.smp.agent.versions import encode_versions, read_versions
from headgate.wire.smp.codec.encoding import FieldReader, boolean, items, large, string
from headgate.wire.smp.handshake import Versions

FIXED_PADDED: Final = 2008
USER_PADDED: Final = 13784
LINK_ID_BYTES: Final = 24
DATA_KEY_BYTES: Final = 32

CONTACT: Final = b"SimpleXContactLink"
INVITATION: Final = b"SimpleXInvLink"
"""Purposes of key derivations."""

OWNERS_MAX: Final = 32
"""Most owners of a link. Each is checked against all before it, and the data has room for 122."""

LARGE_MARK: Final = 0xFF
"""Stands in place of a length of one byte: the length follows in two bytes."""


@value
class FixedLinkData:
    """The part that never changes."""

    versions: Versions
    """Versions of agents' messages."""
    root_key: bytes
    """A key of Ed25519, as SPKI."""
    link: ConnectionLink
    entity_id: bytes | None = None

    @classmethod
    def parse(cls, data: bytes) -> FixedLinkData:
        """Parse the fixed part. Later versions may add fields at the end."""
        reader = FieldReader(data)
        versions = read_versions(reader)
        root_key = _read_signing_key(reader)
        link = read_link(reader)
        return cls(versions, root_key, link, None if reader.is_done else reader.string())

    def encode(self) -> bytes:
        entity = b"" if self.entity_id is None else string(self.entity_id)
        return encode_versions(self.versions) + string(self.root_key) + self.link.encode() + entity


@value
class LinkOwner:
    """Another person who may change the data of a contact's address."""

    id: bytes
    key: bytes
    """A key of Ed25519, as SPKI."""
    signature: bytes
    """Signature by the root key, or by an earlier owner."""

    @classmethod
    def sign(cls, id: bytes, key: bytes, by: Ed25519PrivateKey) -> LinkOwner:
        return cls(id, key, by.sign(id + key))

    @classmethod
    def read(cls, reader: FieldReader) -> LinkOwner:
        inner = FieldReader(reader.string())
        owner = cls(inner.string(), _read_signing_key(inner), inner.string())
        inner.finish()
        return owner

    def encode(self) -> bytes:
        return string(string(self.id) + string(self.key) + string(self.signature))


@value
class InvitationData:
    """The data of an invitation."""

    versions: Versions
    data: bytes = field(repr=False)

    def encode(self) -> bytes:
        return b"I" + encode_versions(self.versions) + _encode_data(self.data)


@value
class ContactData:
    """The data of a contact's address."""

    versions: Versions
    is_direct: bool
    """Whether requests go to the address itself."""
    owners: tuple[LinkOwner, ...]
    data: bytes = field(repr=False)

    def encode(self) -> bytes:
        owners = items([owner.encode() for owner in self.owners])
        relays = items([])
        head = b"C" + encode_versions(self.versions) + boolean(self.is_direct)
        return head + owners + relays + _encode_data(self.data)


UserLinkData: TypeAlias = InvitationData | ContactData


def parse_user_data(data: bytes) -> UserLinkData:
    """Parse the user's part. Later versions may add fields at the end."""
    reader = FieldReader(data)
    kind = reader.char()
    versions = read_versions(reader)
    if kind == b"I":
        return InvitationData(versions, _read_data(reader))
    if kind != b"C":
        raise Malformed("no data of a link")
    is_direct = reader.boolean()
    owners = tuple(reader.items(LinkOwner.read))
    if len(owners) > OWNERS_MAX:
        raise Malformed(f"a link with more than {OWNERS_MAX} owners")
    if reader.byte():
        raise Malformed("a channel with relays, which this version does not read")
    return ContactData(versions, is_direct, owners, _read_data(reader))


# Keys.


class ContactLinkKeys(NamedTuple):
    """Keys derived from the key of a contact's short link."""

    link_id: bytes
    data_key: bytes


def link_key(fixed: bytes) -> bytes:
    """The key of a short link, made of the encoded fixed part."""
    return sha3_256(fixed).digest()


def contact_link_keys(key: bytes) -> ContactLinkKeys:
    made = _derive(key, CONTACT, LINK_ID_BYTES + DATA_KEY_BYTES)
    return ContactLinkKeys(made[:LINK_ID_BYTES], made[LINK_ID_BYTES:])


def invitation_data_key(key: bytes) -> bytes:
    return _derive(key, INVITATION, DATA_KEY_BYTES)


# Sealing.


class SealedLink(NamedTuple):
    """Both parts as the router stores them."""

    fixed: bytes
    user: bytes


@value
class OpenedLink:
    """Both parts, after all signatures were checked."""

    fixed: FixedLinkData
    user: UserLinkData


def seal_fixed(data_key: bytes, nonce: bytes, fixed: bytes, root: Ed25519PrivateKey) -> bytes:
    return _seal(data_key, nonce, fixed, root, FIXED_PADDED)


def seal_user(data_key: bytes, nonce: bytes, user: bytes, by: Ed25519PrivateKey) -> bytes:
    """Seal a user's part, signed by the root key or an owner's."""
    return _seal(data_key, nonce, user, by, USER_PADDED)


def open_link(key: bytes, data_key: bytes, sealed: SealedLink) -> OpenedLink:
    """Open and check both parts of a short link with this key."""
    fixed_signature, fixed_bytes = _open(data_key, sealed.fixed)
    if not compare_digest(link_key(fixed_bytes), key):
        raise Malformed("the data of the link is not what the link was made of")
    fixed = FixedLinkData.parse(fixed_bytes)
    if not verify(fixed.root_key, fixed_bytes, fixed_signature):
        raise Malformed("the data of the link is not signed by its root key")
    user_signature, user_bytes = _open(data_key, sealed.user)
    user = parse_user_data(user_bytes)
    signers = [fixed.root_key]
    if isinstance(user, ContactData):
        for owner in user.owners:
            if not any(verify(by, owner.id + owner.key, owner.signature) for by in signers):
                raise Malformed("an owner of the link whom nobody before has signed")
            signers.append(owner.key)
    if not any(verify(by, user_bytes, user_signature) for by in signers):
        raise Malformed("what the link shows is not signed by an owner")
    return OpenedLink(fixed, user)


def _seal(
    data_key: bytes, nonce: bytes, data: bytes, by: Ed25519PrivateKey, padded_size: int
) -> bytes:
    signed = string(by.sign(data)) + data
    room = padded_size - LENGTH_BYTES
    if len(signed) > room:
        raise TooLong(len(data), room - (len(signed) - len(data)))
    return nonce + box(hsalsa20(data_key), nonce, pad(signed, padded_size))


def _open(data_key: bytes, sealed: bytes) -> tuple[bytes, bytes]:
    """The signature of a sealed part, and the signed bytes."""
    reader = FieldReader(sealed)
    nonce = reader.take(NONCE_BYTES)
    signed = FieldReader(unpad(unbox(hsalsa20(data_key), nonce, reader.rest())))
    return signed.string(), signed.rest()


def _derive(key: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(SHA512(), size, None, purpose).derive(key)


def _read_signing_key(reader: FieldReader) -> bytes:
    key = reader.string()
    if kind_of(key) is not KeyKind.ED25519:
        raise Malformed("no key of Ed25519")
    return key


def _encode_data(data: bytes) -> bytes:
    if len(data) < LARGE_MARK:
        return string(data)
    return bytes((LARGE_MARK,)) + large(data)


def _read_data(reader: FieldReader) -> bytes:
    size = reader.byte()
    return reader.large() if size == LARGE_MARK else reader.take(size)
