"""Keys of queues in the records."""

from __future__ import annotations

import pytest

from headgate.agent.stored_keys import pack_key, unpack_key
from headgate.client.smp.recipient import Kind, make_key, spki
from headgate.errors import StoreError


@pytest.mark.parametrize("kind", ["ed25519", "ed448", "x25519"])
def test_a_key_comes_back(kind: Kind) -> None:
    key = make_key(kind)
    name, raw = pack_key(key)
    assert name == kind
    assert spki(unpack_key(name, raw)) == spki(key)


@pytest.mark.parametrize("kind", ["ed25519", "ed448", "x25519", "rsa"])
def test_what_is_no_key_is_refused_without_showing_it(kind: str) -> None:
    with pytest.raises(StoreError) as caught:
        unpack_key(kind, b"secret")
    assert "secret" not in str(caught.value)
