"""What the byte examples of agents are made of, and strategies for others. Private keys are one
byte, repeated."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st

from headgate.core.model.parties import Purpose
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key
from headgate.wire.smp.agent.queue_address import QueueAddress, QueueInfo
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import Versions
from tests.support.smp_examples import SENDER, consecutive, dh_keys


def x25519(byte: int) -> bytes:
    return bytes((byte,)) * 32


def x25519_public(byte: int) -> bytes:
    return encode_key(KeyKind.X25519, public_of(x25519(byte)))


def ed25519(byte: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes((byte,)) * 32)


def ed25519_public(byte: int) -> bytes:
    return encode_key(KeyKind.ED25519, ed25519(byte).public_key().public_bytes_raw())


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()


NONCE = consecutive(0xD0)
KEY_HASH = bytes.fromhex("9abd9a86ef280e0e61be68c2f82ea9fd873862c142f89262e480d9394edfa808")
ROUTER = RouterAddress(("relay.example",), 5223, KEY_HASH)
ROUTER_BYTES = b"\x01\x0drelay.example\x045223\x20" + KEY_HASH

QUEUE = QueueAddress(Versions(2, 4), ROUTER, SENDER, x25519_public(0x33), Purpose.MESSAGING)
QUEUE_TEXT = (
    "smp://mr2ahu8oDg5hvmjC-C6p_Yc4YsFC-JJi5IDZOU7fqAg=@relay.example:5223/"
    "YGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3#/?v=2-4&dh="
    "MCowBQYDK2VuAyEAew1H2TQn-DERYHgcfHM_2J-IlwrvSQ2KoO4ZpMuKGxQ%3D&q=m&k=s"
)
QUEUE_BYTES = bytes.fromhex(
    "00020004010d72656c61792e6578616d706c650435323233209abd9a86ef280e0e61be68c2f82ea9fd873862c142f8"
    "9262e480d9394edfa80818606162636465666768696a6b6c6d6e6f70717273747576772c302a300506032b656e0321"
    "007b0d47d93427f8311160781c7c733fd89f88970aef490d8aa0ee19a4cb8a1b1454"
)
QUEUE_INFO = QueueInfo(4, ROUTER, SENDER, x25519_public(0x33), Purpose.MESSAGING)
QUEUE_INFO_BYTES = bytes.fromhex("0004") + QUEUE_BYTES[4:-1] + b"M"

QUEUE_KEY = shared_key(x25519(0x55), public_of(x25519(0x33)))
"""Of a sender with the key 55."""

versions = st.lists(st.integers(1, 65535), min_size=2, max_size=2).map(
    lambda ends: Versions(min(ends), max(ends))
)
small_versions = st.lists(st.integers(1, 6), min_size=2, max_size=2).map(
    lambda ends: Versions(min(ends), max(ends))
)
hosts = st.from_regex(r"[a-zA-Z0-9][a-z0-9.-]{0,30}|\[[0-9a-f:]{2,20}\]", fullmatch=True)
routers = st.builds(
    RouterAddress,
    st.lists(hosts, min_size=1, max_size=3).map(tuple),
    st.none() | st.integers(1, 65535),
    st.binary(min_size=32, max_size=32),
)
ids = st.binary(min_size=1, max_size=255)
queue_addresses = st.builds(
    QueueAddress, small_versions, routers, ids, dh_keys, st.none() | st.sampled_from(Purpose)
)
queue_infos = st.builds(
    QueueInfo, st.integers(3, 65535), routers, ids, dh_keys, st.sampled_from(Purpose)
)
