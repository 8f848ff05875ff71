"""The ids and keys that the byte examples of notification servers are made of, and strategies for
others."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.crypto.keys import KeyKind
from headgate.crypto.p256 import point_of, private_key
from headgate.crypto.private_keys import PRIVATE_BYTES, PRIVATE_PREFIX, encode_private
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import ApnsDevice, Device, Provider, WebPushDevice
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.smp_examples import (
    NOTIFIER,
    RECIPIENT_DH,
    RECIPIENT_KEY,
    consecutive,
    dh_keys,
    queue_keys,
    strings,
)

TOKEN = consecutive(0xA0)
SUBSCRIPTION = consecutive(0xE0)
NONCE = consecutive(0xD0)
CODE = consecutive(0x80, 32)
KEY_HASH = bytes.fromhex("9abd9a86ef280e0e61be68c2f82ea9fd873862c142f89262e480d9394edfa808")
ROUTER = RouterAddress(("relay.example",), 5223, KEY_HASH)
NOTIFIER_PRIVATE = encode_private(KeyKind.ED25519, bytes([6]) * 32)
METADATA = bytes.fromhex(
    "9ff88586d932e5b33b6a06b2647ae3eb70fd4ee05c706248b77d4a5e4af637ae0d28351f5eed8411a6fdc086d183"
    "539a085e0fb038a9468adb0addaf0da3515a1296ce3c4c1e58ac75eebd3105895838dcd07fce7ba7c0f22d433410"
    "1f8ee990260b8a9b5acb8dcd9cb546ceb8a8f96c4f3fb0eb93c5df74b2daaa84051789792e3738bc6a31b65927c9"
    "ea5a9bf29b91"
)
"""A sealed notice, as routers send it."""

TEST_DEVICE = ApnsDevice(Provider.APNS_TEST, b"abcd")
WEB_DEVICE = WebPushDevice.of(
    "https://push.example/secret",
    bytes.fromhex("010dd57d15f7fc5dfc27796d72631546"),
    bytes.fromhex(
        "04abb0e16c6ea679eb647aa4eaf0b0a26b38b4ea62b5932f15d47d7809f9e3238f638abd8e95cea65f948bf1706c"
        "8cbc65b1429ee692ed19ced366a1b8be17c483"
    ),
)
TNEW = c.TNew(TEST_DEVICE, RECIPIENT_KEY, RECIPIENT_DH)
SNEW = c.SNew(TOKEN, ROUTER, NOTIFIER, NOTIFIER_PRIVATE)

POINTS = [point_of(private_key(bytes(31) + bytes([n]))) for n in range(1, 6)]

apns_devices = st.builds(
    ApnsDevice,
    st.sampled_from([each for each in Provider if each is not Provider.WEB_PUSH]),
    strings,
)
hosts = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,30}[a-z0-9])?", fullmatch=True)
web_push_devices = st.builds(
    lambda host, port, path, auth, key: WebPushDevice(host, port, path, auth, key),
    hosts,
    st.none() | st.integers(1, 65535),
    st.from_regex(r"/[A-Za-z0-9._~/?=&%-]{0,60}", fullmatch=True),
    st.binary(min_size=16, max_size=16),
    st.sampled_from(POINTS),
)
devices: st.SearchStrategy[Device] = st.one_of(apns_devices, web_push_devices)
router_addresses = st.builds(
    RouterAddress,
    st.lists(hosts, min_size=1, max_size=3).map(tuple),
    st.none() | st.integers(1, 65535),
    st.binary(min_size=32, max_size=32),
)


@st.composite
def private_keys(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(sorted(PRIVATE_BYTES, key=lambda kind: kind.name)))
    size = PRIVATE_BYTES[kind] - PRIVATE_PREFIX
    return encode_private(kind, draw(st.binary(min_size=size, max_size=size)))


commands: st.SearchStrategy[c.NtfCommand] = st.one_of(
    st.sampled_from(list(c.BARE.values())),
    st.builds(c.TNew, devices, queue_keys, dh_keys),
    st.builds(c.TVfy, strings),
    st.builds(c.TRpl, devices),
    st.builds(c.TCrn, st.integers(0, 65535)),
    st.builds(c.SNew, strings, router_addresses, strings, private_keys()),
)
