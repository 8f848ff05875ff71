"""Replies of notification servers: their bytes in both versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Malformed
from headgate.wire.ntf.replies import (
    IdSub,
    IdTkn,
    NtfReply,
    SubscriptionState,
    TokenState,
    encode_reply,
    has_right_entity,
    parse_reply,
)
from headgate.wire.ntf.statuses import InvalidReason, SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.replies import Err, Ok, Pong
from tests.support.ntf_examples import SUBSCRIPTION, TOKEN
from tests.support.smp_examples import ROUTER_DH, dh_keys, strings

WORDS = [status for status in SubscriptionStatus if status is not SubscriptionStatus.ERR]

EXAMPLES: dict[str, tuple[NtfReply, str]] = {
    "IDTKN": (
        IdTkn(TOKEN, ROUTER_DH),
        "4944544b4e2018"
        + TOKEN.hex()
        + "2c302a300506032b656e032100ff2ee45601ec1b67310c7790404585ae69"
        "7331eee1c1f8cf2419731c1fff3e6b",
    ),
    "IDSUB": (IdSub(SUBSCRIPTION), "49445355422018" + SUBSCRIPTION.hex()),
    "TKN": (
        TokenState(TokenStatus.INVALID, InvalidReason.UNREGISTERED),
        "544b4e20494e56414c49442c554e52454749535445524544",
    ),
    "SUB": (
        SubscriptionState(SubscriptionStatus.ERR, "SMP error QUOTA"),
        "5355422045525220534d50206572726f722051554f5441",
    ),
    "OK": (Ok(), "4f4b"),
    "PONG": (Pong(), "504f4e47"),
    "ERR": (Err("CMD SYNTAX"), b"ERR CMD SYNTAX".hex()),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_replies_have_their_bytes(name: str) -> None:
    reply, data = EXAMPLES[name]
    assert encode_reply(reply, 3).hex() == data
    assert parse_reply(bytes.fromhex(data)) == reply


def test_the_id_of_a_token_is_as_long_as_it_should_be() -> None:
    assert len(encode_reply(EXAMPLES["IDTKN"][0], 3)) == 76


@pytest.mark.parametrize("reason", InvalidReason)
def test_version_2_does_not_say_why_a_token_is_invalid(reason: InvalidReason) -> None:
    state = TokenState(TokenStatus.INVALID, reason)
    assert encode_reply(state, 2) == b"TKN INVALID"
    assert encode_reply(state, 3) == b"TKN INVALID," + reason.value.encode()
    assert parse_reply(b"TKN INVALID") == TokenState(TokenStatus.INVALID)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("status", TokenStatus)
def test_every_status_of_a_token_is_a_word(status: TokenStatus, version: int) -> None:
    data = encode_reply(TokenState(status), version)
    assert data == b"TKN " + status.name.encode()
    assert parse_reply(data) == TokenState(status)


@pytest.mark.parametrize("status", WORDS)
def test_every_status_of_a_subscription_is_a_word(status: SubscriptionStatus) -> None:
    data = encode_reply(SubscriptionState(status), 2)
    assert data == b"SUB " + status.name.encode()
    assert parse_reply(data) == SubscriptionState(status)


replies: st.SearchStrategy[NtfReply] = st.one_of(
    st.builds(IdTkn, strings, dh_keys),
    st.builds(IdSub, strings),
    st.builds(TokenState, st.sampled_from(TokenStatus)),
    st.builds(TokenState, st.just(TokenStatus.INVALID), st.sampled_from(InvalidReason)),
    st.builds(SubscriptionState, st.sampled_from(WORDS)),
    st.builds(
        SubscriptionState, st.just(SubscriptionStatus.ERR), st.text(st.characters(codec="utf-8"))
    ),
    st.builds(Err, st.text(st.characters(codec="utf-8"))),
    st.sampled_from([Ok(), Pong()]),
)


@given(replies)
def test_a_reply_is_read_as_it_was_written(reply: NtfReply) -> None:
    assert parse_reply(encode_reply(reply, 3)) == reply


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"OK ",
        b"ok",
        b"TNEW",
        b"TKN",
        b"TKN ",
        b"TKN WHAT",
        b"TKN ACTIVE,BAD",
        b"TKN INVALID,",
        b"TKN INVALID,WHY",
        b"SUB WHAT",
        b"SUB ERR",
        b"SUB ACTIVE ",
        b"IDTKN \0",
        b"IDSUB \1",
        b"IDSUB \1xy",
    ],
)
def test_what_is_no_reply_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_reply(data)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_reply_is_about_something_just_if_it_should_be(name: str) -> None:
    reply = EXAMPLES[name][0]
    fits = has_right_entity(reply, TOKEN), has_right_entity(reply, b"")
    new = {"IDTKN", "IDSUB", "PONG"}
    assert fits == ((True, True) if name == "ERR" else (name not in new, name in new))
