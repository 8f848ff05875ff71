"""The ids and keys that the byte examples are made of, and strategies for others."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.crypto.keys import ED448, ED25519, KEY_BYTES, PREFIX, X25519

VERSIONS = range(7, 20)


def consecutive(first: int, count: int = 24) -> bytes:
    return bytes(range(first, first + count))


SESSION = consecutive(0, 32)
CORRELATION = consecutive(0x20)
RECIPIENT = consecutive(0x40)
SENDER = consecutive(0x60)
MESSAGE = consecutive(0x80)
SERVICE = consecutive(0xA0)
NOTIFIER = consecutive(0xC0)
LINK = consecutive(0xE0)
SECONDS = 1_700_000_000

TALLY = Tally.parse(2, bytes.fromhex("6d91253224465d5e85d6ce0ff1795879"))

RECIPIENT_KEY = bytes.fromhex(
    "302a300506032b65700321008a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
)
RECIPIENT_DH = bytes.fromhex(
    "302a300506032b656e0321007b0d47d93427f8311160781c7c733fd89f88970aef490d8aa0ee19a4cb8a1b14"
)
SENDER_KEY = bytes.fromhex(
    "302a300506032b656e03210038ab664bd86f77d7e66bdd9ae0792913a94fd8b33a1260027e4b46c1f4884c67"
)
NOTIFIER_KEY = bytes.fromhex(
    "302a300506032b65700321008a875fff1eb38451577acd5afee405456568dd7c89e090863a0557bc7af49f17"
)
NOTIFIER_DH = bytes.fromhex(
    "302a300506032b656e032100219e4d800da968d2a5fcb009c784f4746c7138edb9ee4844b739e830b05cf424"
)
ROUTER_DH = bytes.fromhex(
    "302a300506032b656e032100ff2ee45601ec1b67310c7790404585ae697331eee1c1f8cf2419731c1fff3e6b"
)
LONG_KEY = ED448 + bytes(57)
X448_KEY = bytes.fromhex("3042300506032b656f033900") + bytes(56)


def keys_of(prefix: bytes) -> st.SearchStrategy[bytes]:
    length = KEY_BYTES[prefix] - PREFIX
    return st.binary(min_size=length, max_size=length).map(lambda key: prefix + key)


dh_keys = keys_of(X25519)
queue_keys = st.one_of(keys_of(ED25519), dh_keys, keys_of(ED448))
strings = st.binary(max_size=255)
larges = st.binary(max_size=300)
int64s = st.integers(-(2**63), 2**63 - 1)
purposes = st.sampled_from(Purpose)
tallies = st.builds(Tally.parse, int64s, st.binary(min_size=16, max_size=16))
versions = st.sampled_from(VERSIONS)
