"""The two messages of the handshake, each alone in a padded block.

The server greets with its versions, the session id of TLS and a key made for this connection,
signed by the leaf of its certificates. The certificates themselves are not repeated: the app knows
them from TLS. The app answers with the version that it chose and the server that it means. Fields
after the known ones are ignored, so that later versions may add some.
"""

from __future__ import annotations

from typing import Final

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import FieldReader, large, string, word16
from headgate.wire.smp.handshake import Versions

VERSIONS: Final = Versions(2, 3)
"""The supported versions. Version 1 has no batches and no authenticators; version 3 says why a
token is invalid."""

KEY_SINCE: Final = 2


@value
class NtfServerHello:
    """The first message. A server that speaks version 1 only has no key in it."""

    versions: Versions
    session_id: bytes
    signed_key: bytes = b""
    """An X25519 key of this connection, signed by the leaf of the server's certificates."""

    def encode(self) -> bytes:
        lowest, highest = self.versions
        head = word16(lowest) + word16(highest) + string(self.session_id)
        return head + large(self.signed_key) if highest >= KEY_SINCE else head

    @classmethod
    def parse(cls, data: bytes) -> NtfServerHello:
        reader = FieldReader(data)
        versions = Versions(reader.word16(), reader.word16())
        session_id = reader.string()
        if versions.highest < KEY_SINCE:
            return cls(versions, session_id)
        return cls(versions, session_id, reader.large())


@value
class NtfClientHello:
    """The second message."""

    version: int
    key_hash: bytes
    """The fingerprint of the server that the app means."""

    def encode(self) -> bytes:
        return word16(self.version) + string(self.key_hash)

    @classmethod
    def parse(cls, data: bytes) -> NtfClientHello:
        reader = FieldReader(data)
        return cls(reader.word16(), reader.string())

    def check(self, key_hash: bytes) -> None:
        """Raises if another server was meant, or a version that we do not speak. There is no
        answer to that: the server closes."""
        if self.key_hash != key_hash:
            raise Malformed("another server was meant")
        if not VERSIONS.lowest <= self.version <= VERSIONS.highest:
            raise Malformed("no common version")
