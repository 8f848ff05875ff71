"""The handshake with a notification server."""

from __future__ import annotations

from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.box import public_of
from headgate.crypto.keys import KeyKind, encode_key, open_signed_key, public_key, sign_key
from headgate.errors import Malformed
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.hello import VERSIONS, NtfClientHello, NtfServerHello
from headgate.wire.ntf.transmissions import decode_block, encode_block
from headgate.wire.smp.handshake import Versions
from tests.support.ntf_examples import KEY_HASH
from tests.support.smp_examples import SESSION

LEAF = Ed25519PrivateKey.from_private_bytes(bytes([5]) * 32)
SESSION_KEY = encode_key(KeyKind.X25519, public_of(bytes([0x11]) * 32))
SIGNED_KEY = bytes.fromhex(
    "3076302a300506032b656e0321007b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13"
    "300506032b657003410094a034de26634fceb120b25e7da33a8a2f55cd258840f62f477f653a050f869c0311ed76"
    "d59cb0acb218be8816112a77d54e6531edb500d224b6fcef32df4303"
)


def test_the_servers_hello_has_its_bytes() -> None:
    hello = NtfServerHello(Versions(1, 3), SESSION, sign_key(LEAF, SESSION_KEY))
    data = hello.encode()
    assert data == bytes.fromhex("0001000320") + SESSION + b"\0\x78" + SIGNED_KEY
    assert len(data) == 159
    assert (
        sha256(encode_block(data)).hexdigest()
        == "0f5d1155c41d50392d43f548fe0876d40e30cc939b3bd3e0fb494d00ba77413f"
    )
    assert NtfServerHello.parse(decode_block(encode_block(data))) == hello
    assert open_signed_key(hello.signed_key, public_key(LEAF)) == SESSION_KEY


def test_the_clients_hello_has_its_bytes() -> None:
    hello = NtfClientHello(3, KEY_HASH)
    assert hello.encode() == bytes.fromhex("000320") + KEY_HASH
    assert len(hello.encode()) == 35
    assert NtfClientHello.parse(hello.encode()) == hello


@pytest.mark.parametrize("versions", [Versions(1, 2), Versions(2, 2), VERSIONS])
def test_a_server_of_version_2_has_a_key(versions: Versions) -> None:
    hello = NtfServerHello(versions, SESSION, SIGNED_KEY)
    assert hello.encode().endswith(SIGNED_KEY)
    assert NtfServerHello.parse(hello.encode()) == hello


def test_a_server_of_version_1_has_no_key() -> None:
    hello = NtfServerHello(Versions(1, 1), SESSION)
    assert hello.encode() == bytes.fromhex("0001000120") + SESSION
    assert NtfServerHello.parse(hello.encode()) == hello
    assert VERSIONS.common(hello.versions) is None


@pytest.mark.parametrize(
    ("theirs", "version"), [((1, 2), 2), ((1, 3), 3), ((3, 9), 3), ((4, 5), None)]
)
def test_the_highest_common_version_is_chosen(theirs: tuple[int, int], version: int | None) -> None:
    assert VERSIONS.common(Versions(*theirs)) == version


def test_what_follows_a_hello_is_of_later_versions() -> None:
    client = NtfClientHello(3, KEY_HASH)
    server = NtfServerHello(VERSIONS, SESSION, SIGNED_KEY)
    assert NtfClientHello.parse(client.encode() + b"more") == client
    assert NtfServerHello.parse(server.encode() + b"more") == server


@pytest.mark.parametrize("version", [0, 1, 4, 65535])
def test_a_version_that_we_do_not_speak_is_refused(version: int) -> None:
    with pytest.raises(Malformed, match="version"):
        NtfClientHello(version, KEY_HASH).check(KEY_HASH)


@pytest.mark.parametrize("version", [2, 3])
def test_a_client_must_mean_this_server(version: int) -> None:
    NtfClientHello(version, KEY_HASH).check(KEY_HASH)
    with pytest.raises(Malformed, match="another server"):
        NtfClientHello(version, KEY_HASH[:-1]).check(KEY_HASH)


TEXT = "ntf://mr2ahu8oDg5hvmjC-C6p_Yc4YsFC-JJi5IDZOU7fqAg=@push.example"


def test_the_address_of_a_server_is_read_and_written() -> None:
    address = NtfAddress.parse(TEXT)
    assert (address.hosts, address.port, address.key_hash) == (("push.example",), 443, KEY_HASH)
    assert str(address) == TEXT
    other = NtfAddress.parse(TEXT + ",[::1]:8443/")
    assert (other.hosts, other.port, other.text) == (
        ("push.example", "[::1]"),
        8443,
        TEXT + ",[::1]:8443",
    )


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("ntf:", "smp:"),
        TEXT.partition("@")[0],
        TEXT.replace("mr2a", ""),
        TEXT.replace("push.example", ""),
        TEXT + ":0",
    ],
)
def test_what_is_no_address_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        NtfAddress.parse(text)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_malformed(text: str) -> None:
    for whole in (text, "ntf://" + text, TEXT + text):
        try:
            address = NtfAddress.parse(whole)
        except Malformed:
            continue
        assert NtfAddress.parse(address.text) == address
