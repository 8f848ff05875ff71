"""HSalsa20 in two ways, against the vector of NaCl's authors and against each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto import hsalsa20 as module
from headgate.crypto.hsalsa20 import by_libsodium, by_salsa20, fastest, hsalsa20

SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
FIRST_KEY = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")


@pytest.mark.parametrize("hash", [by_salsa20, hsalsa20])
def test_the_secret_of_nacls_authors_has_their_key(hash: module.Hash) -> None:
    assert hash(SHARED) == FIRST_KEY


@given(st.binary(min_size=32, max_size=32))
def test_both_ways_agree(secret: bytes) -> None:
    assert hsalsa20(secret) == by_salsa20(secret)


def test_the_library_is_found() -> None:
    assert hsalsa20 is not by_salsa20, "it is slower, and everything works"


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_secret_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"32 bytes|Incorrect key length"):
        hsalsa20(bytes(size))


def test_a_library_without_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(library: str) -> module.Hash:
        return by_libsodium("libc.so.6")

    monkeypatch.setattr(module, "by_libsodium", missing)
    assert fastest() is by_salsa20
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert fastest() is by_salsa20
