"""The three messages of a handshake."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz.smp_handshake import check
from headgate.crypto.keys import (
    check_chain,
    fingerprint,
    leaf_key,
    open_signed_key,
    public_key,
    sign_key,
)
from headgate.errors import Malformed
from headgate.wire.smp.codec.ciphers import PlainCipher
from headgate.wire.smp.handshake import (
    LEGACY,
    VERSIONS,
    ClientHello,
    Role,
    ServerHello,
    ServiceAccepted,
    ServiceHello,
    ServiceRefused,
    TransportError,
    Versions,
    parse_service_reply,
)
from tests.support.repository import CORPORA
from tests.support.smp_parties import (
    CA_CERTIFICATE,
    CLIENT_SESSION,
    LEAF,
    LEAF_CERTIFICATE,
    NOW,
    RECIPIENT,
    ROUTER_SESSION,
    SERVICE,
    SERVICE_CERTIFICATE,
    SERVICE_ID,
    SERVICE_SESSION,
    SESSION_ID,
    dh_spki,
)

WIRE_8 = bytes.fromhex(
    "0008209abd9a86ef280e0e61be68c2f82ea9fd873862c142f89262e480d9394edfa8082c302a300506032b65"
    "6e0321000faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20"
)
WIRE_9 = bytes.fromhex(
    "0013209abd9a86ef280e0e61be68c2f82ea9fd873862c142f89262e480d9394edfa8082c302a300506032b65"
    "6e0321000faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f204630"
)
WIRE_10 = bytes.fromhex(
    "0013209abd9a86ef280e0e61be68c2f82ea9fd873862c142f89262e480d9394edfa8084630"
)
WIRE_11 = bytes.fromhex("5218a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7")
WIRE_12 = bytes.fromhex("4548414e445348414b45204241445f41555448")
CORPUS = CORPORA / "smp_handshake"

CHAIN = (LEAF_CERTIFICATE, CA_CERTIFICATE)
KEY_HASH = fingerprint(CHAIN)
KEY = dh_spki(CLIENT_SESSION)
HELLO = ServerHello(VERSIONS, SESSION_ID, CHAIN, sign_key(LEAF, dh_spki(ROUTER_SESSION)))
SERVICE_HELLO = ServiceHello(
    Role.MESSAGING, (SERVICE_CERTIFICATE,), sign_key(SERVICE, public_key(SERVICE_SESSION))
)

short = st.binary(max_size=255)
larges = st.binary(max_size=300)
chains = st.lists(larges, min_size=1, max_size=4).map(tuple)
versions = st.integers(7, 19)
keys = st.binary(min_size=32, max_size=32).map(lambda raw: KEY[:12] + raw)
services = st.builds(ServiceHello, st.sampled_from(Role), chains, larges)


@st.composite
def server_hellos(draw: st.DrawFn) -> ServerHello:
    lowest, highest = sorted((draw(versions), draw(versions)))
    return ServerHello(Versions(lowest, highest), draw(short), draw(chains), draw(larges))


@st.composite
def client_hellos(draw: st.DrawFn) -> ClientHello:
    """With no more than their version can carry."""
    version = draw(versions)
    return ClientHello(
        version,
        draw(short),
        draw(st.none() | keys),
        draw(st.booleans()) if version >= 14 else False,
        draw(st.none() | services) if version >= 16 else None,
    )


def test_a_server_hello_is_that_of_the_examples() -> None:
    encoded = HELLO.encode()
    assert len(encoded) == 642
    assert sha256(encoded).hexdigest() == (
        "8a1e4dc0129a399f28ad520e6b8a6988679218eb22f1fce223069c6bc0bdc86f"
    )
    assert ServerHello.parse(encoded) == HELLO


def test_a_client_finds_the_routers_key_in_the_server_hello() -> None:
    hello = ServerHello.parse(HELLO.encode())
    check_chain(hello.chain, NOW)
    assert fingerprint(hello.chain) == KEY_HASH
    assert open_signed_key(hello.signed_key, leaf_key(hello.chain)) == dh_spki(ROUTER_SESSION)


@pytest.mark.parametrize(
    ("hello", "expected"),
    [
        (ClientHello(8, KEY_HASH, KEY), WIRE_8),
        (ClientHello(19, KEY_HASH, KEY), WIRE_9),
        (ClientHello(19, KEY_HASH), WIRE_10),
    ],
    ids=["WIRE-8", "WIRE-9", "WIRE-10"],
)
def test_client_hellos_are_those_of_the_examples(hello: ClientHello, expected: bytes) -> None:
    """WIRE-8..WIRE-10"""
    assert hello.encode() == expected
    assert ClientHello.parse(expected) == hello


def test_a_client_hello_with_a_service_is_that_of_the_examples() -> None:
    """S001-12"""
    hello = ClientHello(19, KEY_HASH, KEY, service=SERVICE_HELLO)
    encoded = hello.encode()
    assert len(encoded) == 419
    assert sha256(encoded).hexdigest() == (
        "8f3db7723462deb473f7c645df6ef4b11122de9a5a4d9692d8c01629443216be"
    )
    parsed = ClientHello.parse(encoded)
    assert parsed == hello
    assert parsed.service is not None
    signed_key = open_signed_key(parsed.service.signed_key, leaf_key(parsed.service.chain))
    assert signed_key == public_key(SERVICE_SESSION)


def test_the_third_message_is_that_of_the_examples() -> None:
    """WIRE-11, WIRE-12, S001-11"""
    granted = ServiceAccepted(SERVICE_ID)
    refused = ServiceRefused(TransportError.BAD_AUTH)
    assert granted.encode() == WIRE_11
    assert refused.encode() == WIRE_12
    assert parse_service_reply(WIRE_11) == granted
    assert parse_service_reply(WIRE_12) == refused


@given(server_hellos(), st.binary(max_size=20))
def test_a_server_hello_comes_back_whatever_follows_it(hello: ServerHello, more: bytes) -> None:
    assert ServerHello.parse(hello.encode()) == hello
    assert ServerHello.parse(hello.encode() + more) == hello


@given(client_hellos())
def test_a_client_hello_comes_back(hello: ClientHello) -> None:
    assert ClientHello.parse(hello.encode()) == hello


@given(client_hellos(), st.binary(max_size=20))
def test_what_follows_a_client_hello_is_ignored(hello: ClientHello, more: bytes) -> None:
    if hello.key is None and hello.version < 14:
        more = b""  # it could be the key
    assert ClientHello.parse(hello.encode() + more) == hello


@given(st.sampled_from(TransportError), st.binary(max_size=20))
def test_every_refusal_of_a_service_comes_back(error: TransportError, more: bytes) -> None:
    reply = ServiceRefused(error)
    assert parse_service_reply(reply.encode() + more) == reply


@given(short, st.binary(max_size=20))
def test_every_service_id_comes_back(service_id: bytes, more: bytes) -> None:
    reply = ServiceAccepted(service_id)
    assert parse_service_reply(reply.encode() + more) == reply


@pytest.mark.parametrize("data", [b"", b"R", b"R\x05abc", b"E", b"EWHATEVER", b"X" + WIRE_11[1:]])
def test_other_third_messages_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_service_reply(data)


def test_without_alpn_the_hello_has_neither_certificates_nor_key() -> None:
    hello = ServerHello(LEGACY, SESSION_ID)
    assert hello.encode() == b"\0\x06\0\x06\x20" + SESSION_ID
    assert ServerHello.parse(hello.encode()) == hello


@pytest.mark.parametrize("version", range(7, 20))
def test_fields_that_a_version_does_not_have_are_not_sent(version: int) -> None:
    """S001-4"""
    hello = ClientHello(version, KEY_HASH, KEY, is_proxy=True, service=SERVICE_HELLO)
    parsed = ClientHello.parse(hello.encode())
    assert parsed.key == KEY
    assert parsed.is_proxy == (version >= 14)
    assert parsed.service == (SERVICE_HELLO if version >= 16 else None)


def test_below_version_7_a_client_has_no_key() -> None:
    hello = ClientHello(6, KEY_HASH, KEY)
    assert hello.encode() == b"\0\x06\x20" + KEY_HASH
    assert ClientHello.parse(hello.encode()) == ClientHello(6, KEY_HASH)


@pytest.mark.parametrize("key", [public_key(RECIPIENT), KEY[:-1], b""])
def test_what_is_no_session_key_is_read_as_the_next_field(key: bytes) -> None:
    data = b"\0\x13\x20" + KEY_HASH + bytes([len(key)]) + key + b"F0"
    with pytest.raises(Malformed, match="neither true nor false"):
        ClientHello.parse(data)


def test_an_absent_key_before_a_long_service_part_is_absent() -> None:
    """F and T would be lengths of 70 and 84, and so many bytes do follow."""
    for is_proxy in (False, True):
        hello = ClientHello(19, KEY_HASH, None, is_proxy, SERVICE_HELLO)
        assert ClientHello.parse(hello.encode()) == hello


def test_a_service_of_an_unknown_role_is_refused() -> None:
    data = ClientHello(19, KEY_HASH, KEY, service=SERVICE_HELLO).encode()
    place = len(WIRE_9)
    assert data[place : place + 1] == b"M"
    with pytest.raises(Malformed, match="unknown role"):
        ClientHello.parse(data[:place] + b"X" + data[place + 1 :])


def test_a_service_without_certificates_is_refused() -> None:
    with pytest.raises(Malformed, match="an empty list"):
        ClientHello.parse(WIRE_9[:-1] + b"1M\0\0\0")


@pytest.mark.parametrize(
    ("hello", "is_encrypted"),
    [
        (ClientHello(19, KEY_HASH, KEY), True),
        (ClientHello(11, KEY_HASH, KEY), True),
        (ClientHello(10, KEY_HASH, KEY), False),
        (ClientHello(19, KEY_HASH), False),
        (ClientHello(19, KEY_HASH, KEY, is_proxy=True), False),
    ],
)
def test_blocks_are_encrypted_with_keys_from_version_11_but_for_proxies(
    hello: ClientHello, is_encrypted: bool
) -> None:
    assert hello.is_encrypted is is_encrypted


@pytest.mark.parametrize(
    ("theirs", "version"),
    [((7, 19), 19), ((1, 7), 7), ((6, 20), 19), ((19, 30), 19), ((1, 6), None), ((20, 20), None)],
)
def test_the_highest_version_of_both_is_chosen(
    theirs: tuple[int, int], version: int | None
) -> None:
    assert VERSIONS.common(Versions(*theirs)) == version
    assert Versions(*theirs).common(VERSIONS) == version


def test_every_message_fits_a_plain_block() -> None:
    blocks = PlainCipher()
    for data in (HELLO.encode(), WIRE_9, WIRE_11):
        assert blocks.open(blocks.seal(data)) == data


@given(client_hellos(), st.data())
def test_a_client_hello_that_was_cut_is_malformed_or_has_lost_its_key(
    hello: ClientHello, data: st.DataObject
) -> None:
    encoded = hello.encode()
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    try:
        parsed = ClientHello.parse(cut)
    except Malformed:
        return
    assert hello.version < 14
    assert parsed == ClientHello(hello.version, hello.key_hash)


@given(server_hellos(), st.data())
def test_a_server_hello_that_was_cut_is_malformed(hello: ServerHello, data: st.DataObject) -> None:
    encoded = hello.encode()
    with pytest.raises(Malformed):
        ServerHello.parse(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(st.binary(max_size=200))
@example(WIRE_8)
@example(WIRE_9)
@example(WIRE_10)
@example(WIRE_11)
@example(WIRE_12)
@example(HELLO.encode())
def test_garbage_raises_nothing_but_malformed(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
