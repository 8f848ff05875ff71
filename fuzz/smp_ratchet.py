"""Throws bytes at a ratchet: as a message, as a header of a peer that knows its keys, as a state.

``python -m fuzz.smp_ratchet fuzz/corpus/smp_ratchet`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from headgate.crypto.gcm import encrypt
from headgate.crypto.padding import pad
from headgate.crypto.ratchet_keys import PrivatePair
from headgate.errors import Malformed
from headgate.wire.smp.agent.ratchet import Ratchet
from headgate.wire.smp.agent.ratchet_messages import (
    HEADER_PADDED,
    HEADER_PADDED_KEM,
    LARGE_FROM,
    EncryptedHeader,
    RatchetHeader,
    RatchetMessage,
)
from headgate.wire.smp.agent.ratchet_start import OfferedKeys, answer_ratchet, join_ratchet
from headgate.wire.smp.agent.skipped_keys import SkippedKeys

FRESH = b"\3" * 56
OFFERED = OfferedKeys(PrivatePair(b"\1" * 56, b"\2" * 56))
JOINED = join_ratchet(OFFERED.offer(), PrivatePair(b"\4" * 56, b"\5" * 56), b"\6" * 56)
RATCHET = answer_ratchet(OFFERED, JOINED.parameters)
BLOB = RATCHET.encode()
IV = bytes(16)
BODY = encrypt(bytes(32), IV, pad(b"", 100), b"")
"""Which no key of the ratchet opens."""


def check(data: bytes) -> None:
    """Nothing but `Malformed` is raised, and the ratchet is what it was."""
    check_message(data)
    check_state(data)
    for version in (2, 3):
        check_header(data, version)
    assert RATCHET.encode() == BLOB


def check_message(data: bytes) -> None:
    with suppress(Malformed):
        message = RatchetMessage.parse(data)
        header = EncryptedHeader.parse(message.header)
        assert EncryptedHeader.parse(header.encode()) == header
    with suppress(Malformed):
        RATCHET.decrypt(SkippedKeys(), data, FRESH)


def check_header(data: bytes, version: int) -> None:
    with suppress(Malformed):
        header = RatchetHeader.parse(data, version)
        assert header.encode(version) == data
    key, beside = RATCHET.next_receiving_header_key, RATCHET.associated_data
    size = HEADER_PADDED if version < LARGE_FROM else HEADER_PADDED_KEM
    sealed = EncryptedHeader(version, IV, encrypt(key, IV, pad(data[: size - 2], size), beside))
    with suppress(Malformed):
        RATCHET.decrypt(SkippedKeys(), RatchetMessage(sealed.encode(), BODY).encode(), FRESH)


def check_state(data: bytes) -> None:
    with suppress(Malformed):
        ratchet = Ratchet.decode(data)
        assert ratchet.encode() == data


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
