"""The KEM of the extra `pq`, as the ratchet uses it."""

from __future__ import annotations

import pytest

from headgate.crypto.kem import KEM_CIPHERTEXT_BYTES, KEM_PUBLIC_BYTES, Kem, KemKeyPair
from headgate.errors import Malformed

sntrup761 = pytest.importorskip("headgate.crypto.sntrup761", exc_type=ImportError)


@pytest.fixture
def kem() -> Kem:
    made: Kem = sntrup761.Sntrup761()
    return made


def test_the_owner_of_the_key_finds_the_secret(kem: Kem) -> None:
    pair = kem.generate()
    made = kem.encapsulate(pair.public)
    assert kem.decapsulate(pair, made.ciphertext) == made.secret
    assert (len(pair.public), len(made.ciphertext)) == (KEM_PUBLIC_BYTES, KEM_CIPHERTEXT_BYTES)
    assert len(made.secret) == 32


def test_nobody_else_does(kem: Kem) -> None:
    made = kem.encapsulate(kem.generate().public)
    assert kem.decapsulate(kem.generate(), made.ciphertext) != made.secret


def test_what_has_another_length_is_malformed(kem: Kem) -> None:
    pair = kem.generate()
    with pytest.raises(Malformed):
        kem.encapsulate(pair.public[:-1])
    with pytest.raises(Malformed):
        kem.decapsulate(pair, bytes(KEM_CIPHERTEXT_BYTES - 1))


def test_private_keys_are_not_shown(kem: Kem) -> None:
    pair = KemKeyPair(b"public", b"private")
    assert "private" not in repr(pair)
    assert repr(kem.encapsulate(kem.generate().public)).count("secret") == 0
