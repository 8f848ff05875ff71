"""Ratchet: the encryption between two connected agents, in which every message has its own key.

It is the double ratchet with encrypted headers, over X448, with a KEM beside it if both want one. A
`Ratchet` is a value: encrypting or decrypting returns a new one and leaves the old. If the new one
is stored before the result is used, no key is ever used twice, and after an error nothing has
changed. Fresh private keys come as arguments.

Names of the papers: `root_key` is RK; `sending` has DHr, CKs and HKs; `receiving` CKr and HKr;
`private` is DHs; `sent`, `received`, `previous_sent` are Ns, Nr, PN; the two `next_..._header_key`
are NHKs and NHKr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple

from headgate.core.model.value import value
from headgate.crypto.gcm import decrypt
from headgate.crypto.kem import Kem, KemKeyPair
from headgate.crypto.padding import unpad
from headgate.crypto.ratchet_keys import KEY_BYTES, AgreedKeys, step_chain, step_root
from headgate.crypto.x448 import RAW_BYTES, public_of
from headgate.errors import AlreadyDecrypted, Malformed, NotDecrypted
from headgate.wire.smp.agent.message_key import ASSOCIATED_BYTES, MessageKey, check_room
from headgate.wire.smp.agent.ratchet_chains import ReceivingChain, SendingChain
from headgate.wire.smp.agent.ratchet_messages import (
    HEADER_PADDED,
    HEADER_PADDED_KEM,
    EncryptedHeader,
    RatchetHeader,
    RatchetMessage,
)
from headgate.wire.smp.agent.ratchet_parameters import (
    KEM_FROM,
    KemAcceptance,
    KemParameters,
    KemProposal,
)
from headgate.wire.smp.agent.skipped_keys import SkippedKey, SkippedKeys
from headgate.wire.smp.codec.encoding import (
    FieldReader,
    boolean,
    large,
    maybe,
    word16,
    word32,
)

BLOB_VERSION: Final = 1
"""The first byte of an encoded ratchet."""


class RatchetVersion(NamedTuple):
    """The version that is written, and the highest that is supported."""

    current: int
    highest: int

    def raised_to(self, peer: int) -> RatchetVersion:
        """The version after the peer has named its highest. It never becomes lower."""
        return RatchetVersion(max(self.current, min(peer, self.highest)), self.highest)


@value
class OwnKem:
    """The own key pair of a KEM, for the peer to answer, and the own answer to the peer's."""

    pair: KemKeyPair
    ciphertext: bytes | None

    @property
    def parameters(self) -> KemParameters:
        if self.ciphertext is None:
            return KemProposal(self.pair.public)
        return KemAcceptance(self.ciphertext, self.pair.public)

    @classmethod
    def read(cls, reader: FieldReader) -> OwnKem:
        pair = KemKeyPair(reader.large(), reader.large())
        return cls(pair, reader.maybe(FieldReader.large))

    def encode(self) -> bytes:
        ciphertext = None if self.ciphertext is None else large(self.ciphertext)
        return large(self.pair.public) + large(self.pair.private) + maybe(ciphertext)


@value
class Decrypted:
    """An opened message, and the state to store in place of the old one."""

    plaintext: bytes = field(repr=False)
    ratchet: Ratchet
    skipped: SkippedKeys = field(repr=False)
    """All skipped keys that are kept now."""
    added: tuple[SkippedKey, ...] = ()
    used: SkippedKey | None = None
    dropped: tuple[SkippedKey, ...] = ()
    """Changes of the skipped keys; `dropped` were too many."""


@value
class Ratchet:
    """One side of a connection, between two messages."""

    version: RatchetVersion
    associated_data: bytes = field(repr=False)
    private: bytes = field(repr=False)
    public: bytes
    """Public half of `private`: every header has it, and deriving it takes longer than all the
    rest."""
    root_key: bytes = field(repr=False)
    next_sending_header_key: bytes = field(repr=False)
    next_receiving_header_key: bytes = field(repr=False)
    sending: SendingChain | None = None
    receiving: ReceivingChain | None = None
    sent: int = 0
    received: int = 0
    previous_sent: int = 0
    has_kem_room: bool = False
    """Whether headers have room for a KEM: this fixes sizes, so it is never switched off."""
    is_kem_wanted: bool = False
    """Whether this side proposes a KEM and answers a proposal."""
    kem: OwnKem | None = None
    is_sending_kem: bool = False
    is_receiving_kem: bool = False
    """Whether the secret of a KEM is in the receiving chain."""

    @classmethod
    def of_joiner(
        cls,
        version: RatchetVersion,
        agreed: AgreedKeys,
        peer: bytes,
        fresh: bytes,
        *,
        has_kem_room: bool = False,
        kem: OwnKem | None = None,
        kem_secret: bytes = b"",
    ) -> Ratchet:
        """The ratchet of the link's user, which can send at once. `peer` is the initiator's second
        public key, `fresh` a new private key."""
        root = step_root(agreed.root_key, fresh, peer, kem_secret)
        return cls(
            version,
            agreed.associated_data,
            fresh,
            public_of(fresh),
            root.root_key,
            root.next_header_key,
            agreed.next_header_key,
            sending=SendingChain(peer, root.chain_key, agreed.header_key),
            has_kem_room=has_kem_room,
            is_kem_wanted=has_kem_room,
            kem=kem,
            is_sending_kem=bool(kem_secret),
        )

    @classmethod
    def of_initiator(
        cls,
        version: RatchetVersion,
        agreed: AgreedKeys,
        private: bytes,
        *,
        has_kem_room: bool = False,
        kem: OwnKem | None = None,
    ) -> Ratchet:
        """The ratchet of the link's maker, which can send once it has decrypted. `private` is the
        second of its keys in the link."""
        return cls(
            version,
            agreed.associated_data,
            private,
            public_of(private),
            agreed.root_key,
            agreed.next_header_key,
            agreed.header_key,
            has_kem_room=has_kem_room,
            is_kem_wanted=has_kem_room,
            kem=kem,
        )

    @property
    def can_send(self) -> bool:
        return self.sending is not None

    @property
    def is_post_quantum(self) -> bool:
        """Whether both chains have the secret of a KEM in them."""
        return self.is_sending_kem and self.is_receiving_kem

    def with_kem_wanted(self, is_wanted: bool) -> Ratchet:
        """The ratchet with or without a KEM, from the next turn on. Once made, room for it is
        kept."""
        has_room = self.has_kem_room or is_wanted
        return replace(self, is_kem_wanted=is_wanted, has_kem_room=has_room)

    # Sending.

    def advance(self) -> tuple[Ratchet, MessageKey]:
        """The ratchet after the next message, and the key of that message."""
        assert self.sending is not None, "the initiator sends nothing before the joiner has"
        step = step_chain(self.sending.chain_key)
        header = EncryptedHeader.seal(
            RatchetHeader(
                self.version.highest,
                self.public,
                None if self.kem is None else self.kem.parameters,
                self.previous_sent,
                self.sent,
            ),
            self.version.current,
            self.sending.header_key,
            step.header_iv,
            self.associated_data,
            self._header_padded,
        ).encode()
        key = MessageKey(step.message_key, step.iv, header, self.associated_data)
        sending = replace(self.sending, chain_key=step.chain_key)
        return replace(self, sending=sending, sent=self.sent + 1), key

    def encrypt(self, plaintext: bytes, padded_size: int) -> tuple[Ratchet, bytes]:
        """The ratchet after the message, and the encrypted message. Store the first, then send."""
        check_room(plaintext, padded_size)
        ratchet, key = self.advance()
        return ratchet, key.seal(plaintext, padded_size)

    @property
    def _header_padded(self) -> int:
        has_room = self.has_kem_room and self.version.current >= KEM_FROM
        return HEADER_PADDED_KEM if has_room else HEADER_PADDED

    # Receiving.

    def decrypt(
        self, skipped: SkippedKeys, data: bytes, fresh: bytes, kem: Kem | None = None
    ) -> Decrypted:
        """Open a message, or raise `Malformed`.

        `fresh` is a new private key; it is used if the peer has changed its key. Without a `kem` a
        proposal of the peer is declined.
        """
        message = RatchetMessage.parse(data)
        header = EncryptedHeader.parse(message.header)
        is_known = False
        for header_key, awaited in skipped.by_header_key():
            opened = header.open(header_key, self.associated_data)
            if opened is None:
                continue
            key = awaited.get(opened.number)
            if key is not None:
                plaintext = self._open(message, key.message_key, key.iv)
                return Decrypted(plaintext, self, skipped.without(key), used=key)
            is_known = True
            break
        if self.receiving is not None:
            opened = header.open(self.receiving.header_key, self.associated_data)
            if opened is not None:
                return self._decrypt_in_chain(skipped, message, opened)
        opened = header.open(self.next_receiving_header_key, self.associated_data)
        if opened is not None:
            return self._decrypt_in_new_chain(skipped, message, opened, fresh, kem)
        if is_known:
            raise AlreadyDecrypted("a message of an earlier chain whose key is gone")
        raise NotDecrypted("a header that no key opens")

    def _decrypt_in_chain(
        self, skipped: SkippedKeys, message: RatchetMessage, header: RatchetHeader
    ) -> Decrypted:
        assert self.receiving is not None, "its key opened the header"
        chain, added = self.receiving.skip(self.received, header.number)
        step = step_chain(chain.chain_key)
        plaintext = self._open(message, step.message_key, step.iv)
        ratchet = replace(
            self,
            version=self.version.raised_to(header.version_max),
            receiving=replace(chain, chain_key=step.chain_key),
            received=header.number + 1,
        )
        return _decrypted(plaintext, ratchet, skipped, added)

    def _decrypt_in_new_chain(
        self,
        skipped: SkippedKeys,
        message: RatchetMessage,
        header: RatchetHeader,
        fresh: bytes,
        kem: Kem | None,
    ) -> Decrypted:
        """Open a message with a new key of the peer, which begins a new chain in both directions.

        The message is opened before the sending chain is made, so that a false one costs little.
        """
        version = self.version.raised_to(header.version_max)
        added: Sequence[SkippedKey] = ()
        if self.receiving is not None:
            _, added = self.receiving.skip(self.received, header.previous_count)
        secret = self._decapsulate(header.kem, kem)
        theirs = step_root(self.root_key, self.private, header.public, secret)
        begun = ReceivingChain(theirs.chain_key, self.next_receiving_header_key)
        chain, more = begun.skip(0, header.number)
        step = step_chain(chain.chain_key)
        plaintext = self._open(message, step.message_key, step.iv)
        own_kem, own_secret = self._answer(header.kem, kem, version)
        ours = step_root(theirs.root_key, fresh, header.public, own_secret)
        ratchet = replace(
            self,
            version=version,
            private=fresh,
            public=public_of(fresh),
            root_key=ours.root_key,
            next_sending_header_key=ours.next_header_key,
            next_receiving_header_key=theirs.next_header_key,
            sending=SendingChain(header.public, ours.chain_key, self.next_sending_header_key),
            receiving=replace(chain, chain_key=step.chain_key),
            previous_sent=self.sent,
            sent=0,
            received=header.number + 1,
            kem=own_kem,
            is_sending_kem=bool(own_secret),
            is_receiving_kem=bool(secret),
        )
        return _decrypted(plaintext, ratchet, skipped, (*added, *more))

    def _decapsulate(self, offered: KemParameters | None, kem: Kem | None) -> bytes:
        """The secret of a KEM in the peer's chain, if it has put one there."""
        if not isinstance(offered, KemAcceptance):
            return b""
        if self.kem is None or kem is None:
            raise NotDecrypted("a KEM was accepted that we cannot open")
        return kem.decapsulate(self.kem.pair, offered.ciphertext)

    def _answer(
        self, offered: KemParameters | None, kem: Kem | None, version: RatchetVersion
    ) -> tuple[OwnKem | None, bytes]:
        """The KEM part of the next headers, and the secret for the sending chain."""
        if kem is None or not self.is_kem_wanted or version.current < KEM_FROM:
            return None, b""
        if offered is not None:
            made = kem.encapsulate(offered.public)
            return OwnKem(kem.generate(), made.ciphertext), made.secret
        # A declined proposal is not repeated in the very next turn.
        return (OwnKem(kem.generate(), None) if self.kem is None else None), b""

    def _open(self, message: RatchetMessage, key: bytes, iv: bytes) -> bytes:
        padded = decrypt(key, iv, message.tagged, self.associated_data + message.header)
        if padded is None:
            raise NotDecrypted("a message that its key does not open")
        return unpad(padded)

    # Storing.

    def encode(self) -> bytes:
        """The ratchet as bytes for the store, with its secrets."""
        return b"".join(
            (
                bytes((BLOB_VERSION,)),
                word16(self.version.current),
                word16(self.version.highest),
                self.associated_data,
                self.private,
                self.public,
                self.root_key,
                self.next_sending_header_key,
                self.next_receiving_header_key,
                maybe(None if self.sending is None else self.sending.encode()),
                maybe(None if self.receiving is None else self.receiving.encode()),
                word32(self.sent),
                word32(self.received),
                word32(self.previous_sent),
                boolean(self.has_kem_room),
                boolean(self.is_kem_wanted),
                maybe(None if self.kem is None else self.kem.encode()),
                boolean(self.is_sending_kem),
                boolean(self.is_receiving_kem),
            )
        )

    @classmethod
    def decode(cls, blob: bytes) -> Ratchet:
        """Read what `encode` wrote, in this version or an earlier one."""
        reader = FieldReader(blob)
        if reader.byte() != BLOB_VERSION:
            raise Malformed("the state of a ratchet in a form that this version does not know")
        ratchet = cls(
            RatchetVersion(reader.word16(), reader.word16()),
            reader.take(ASSOCIATED_BYTES),
            reader.take(RAW_BYTES),
            reader.take(RAW_BYTES),
            reader.take(KEY_BYTES),
            reader.take(KEY_BYTES),
            reader.take(KEY_BYTES),
            sending=reader.maybe(SendingChain.read),
            receiving=reader.maybe(ReceivingChain.read),
            sent=reader.word32(),
            received=reader.word32(),
            previous_sent=reader.word32(),
            has_kem_room=reader.boolean(),
            is_kem_wanted=reader.boolean(),
            kem=reader.maybe(OwnKem.read),
            is_sending_kem=reader.boolean(),
            is_receiving_kem=reader.boolean(),
        )
        reader.finish()
        return ratchet


def _decrypted(
    plaintext: bytes, ratchet: Ratchet, skipped: SkippedKeys, added: Sequence[SkippedKey]
) -> Decrypted:
    kept, dropped = skipped.with_added(added)
    return Decrypted(plaintext, ratchet, kept, added=tuple(added), dropped=dropped)
