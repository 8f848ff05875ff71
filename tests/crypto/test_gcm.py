from __future__ import annotations

import pytest

from headgate.crypto.gcm import Tagged, decrypt, encrypt

KEY, IV = b"k" * 32, b"i" * 16


def test_what_was_encrypted_is_decrypted() -> None:
    tagged = encrypt(KEY, IV, b"hello", b"ad")
    assert (tagged.body + tagged.tag).hex() == "3981102bb1fe16b73f82dbcccd2bc67c94993ed093"
    assert decrypt(KEY, IV, tagged, b"ad") == b"hello"


@pytest.mark.parametrize("what", ["key", "iv", "tag", "body", "beside"])
def test_nothing_may_have_changed(what: str) -> None:
    tagged = encrypt(KEY, IV, b"hello", b"ad")
    given = {"key": KEY, "iv": IV, "tag": tagged.tag, "body": tagged.body, "beside": b"ad"}
    given[what] = bytes((given[what][0] ^ 1,)) + given[what][1:]
    changed = Tagged(given["tag"], given["body"])
    assert decrypt(given["key"], given["iv"], changed, given["beside"]) is None
