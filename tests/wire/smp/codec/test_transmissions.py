"""Who says what about which queue: transmissions in both directions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.parties import Purpose
from headgate.errors import Malformed
from headgate.wire.smp.codec.commands import (
    Command,
    New,
    SmpSend,
    Sub,
    Subs,
    encode_command,
    parse_command,
)
from headgate.wire.smp.codec.encoding import string
from headgate.wire.smp.codec.transmissions import (
    BadAuthorization,
    Transmission,
    encode,
    encode_unsigned,
    parse,
    parse_reply,
    signed,
)
from tests.support.smp_examples import (
    CORRELATION,
    RECIPIENT,
    RECIPIENT_DH,
    RECIPIENT_KEY,
    SENDER,
    SERVICE,
    SESSION,
    TALLY,
    strings,
    versions,
)

NEW = New(RECIPIENT_KEY, RECIPIENT_DH, None, True, Purpose.MESSAGING)

SERVICE_SIGNATURE = bytes.fromhex(
    "184c33763650eec716cde057ba5732aca76ad06d96cb7cc52812db9d39a0aeb2"
    "5ff46921336041494549630906927f99f00a910f87812a9036ec908e3cb5700e"
)


class Example(NamedTuple):
    text: str
    size: int
    entity: bytes
    command: Command
    version: int = 19
    authorization: int = 64
    service_signature: bytes | None = None


EXAMPLES = {
    "NEW": Example(
        "40037bd16b32ef1cf95802cce1ec0a939e73008be25615d2b7bef77de266f5a1e64a349b163e655bbb1a47"
        "f8a183a216d6421cee087266e412bb405ea9c98a720c30182021222324252627"
        "28292a2b2c2d2e2f3031323334353637004e4557202c302a300506032b65700321008a88e3dd7409f195fd"
        "52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c2c302a300506032b65"
        "6e0321007b0d47d93427f8311160781c7c733fd89f88970aef490d8aa0ee19a4cb8a1b143053314d3030",
        192,
        b"",
        NEW,
    ),
    "SUB": Example(
        "40228c8a5968a7aef509159a2867f18384520f4db8795ca9007ab49b35afef477da33b81fe0df2bff56495"
        "76ce4f072a92830aa1c979aed4afe76f5b46835fb40530182021222324252627"
        "28292a2b2c2d2e2f303132333435363718404142434445464748494a4b4c4d4e4f5051525354555657535542",
        119,
        RECIPIENT,
        Sub(),
    ),
    "SUB v15": Example(
        "40228c8a5968a7aef509159a2867f18384520f4db8795ca9007ab49b35afef477da33b81fe0df2bff56495"
        "76ce4f072a92830aa1c979aed4afe76f5b46835fb40518202122232425262728"
        "292a2b2c2d2e2f303132333435363718404142434445464748494a4b4c4d4e4f5051525354555657535542",
        118,
        RECIPIENT,
        Sub(),
        version=15,
    ),
    "SUB of a service": Example(
        "40d752f20d5269879f3812dcc47b2dc4700019bf5248ab514e683cd5483e7f8acc7d315fd06aaa3dbef4d7"
        "f23454fd2744996a6e11aa3554a78906cfc142c0da003140184c33763650eec7"
        "16cde057ba5732aca76ad06d96cb7cc52812db9d39a0aeb25ff46921336041494549630906927f99f00a91"
        "0f87812a9036ec908e3cb5700e18202122232425262728292a2b2c2d2e2f3031"
        "32333435363718404142434445464748494a4b4c4d4e4f5051525354555657535542",
        184,
        RECIPIENT,
        Sub(),
        service_signature=SERVICE_SIGNATURE,
    ),
    "SUBS": Example(
        "407c4db8842609a6d745f52eefae504822a3b2d268ec5dd2cb207de8d347fe7a15bc32d4cb38b9c5f0c04a"
        "d48997721b50f22dc676912c3ea8e333c7a38a19df0f30182021222324252627"
        "28292a2b2c2d2e2f303132333435363718a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b75355"
        "4253200000000000000002106d91253224465d5e85d6ce0ff1795879",
        146,
        SERVICE,
        Subs(TALLY),
    ),
    "SEND": Example(
        "50a9735fab92b69e6d3de104f429d3a191769176a73228e859b42a3674c3163f396c6b013534c608c086af"
        "9e278777eebbcf94495ab26cd8c10392cb531eaf63b4fcb6f01553cdc3eedc44"
        "0a9928bb8ece3018202122232425262728292a2b2c2d2e2f30313233343536371860616263646566676869"
        "6a6b6c6d6e6f707172737475767753454e4420462068656c6c6f",
        144,
        SENDER,
        SmpSend(False, b"hello"),
        authorization=80,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_transmissions_have_their_bytes(name: str) -> None:
    """WIRE-18, WIRE-19, WIRE-20, WIRE-21, WIRE-24, WIRE-27."""
    example = EXAMPLES[name]
    data = bytes.fromhex(example.text)
    assert len(data) == example.size
    transmission = parse(data, example.version)
    assert transmission == Transmission(
        data[1 : 1 + example.authorization],
        example.service_signature,
        CORRELATION,
        example.entity,
        encode_command(example.command, example.version),
    )
    assert parse_command(transmission.command, example.version) == example.command
    assert encode(transmission, example.version) == data


def test_the_session_is_signed_though_it_is_not_sent() -> None:
    """WIRE-17."""
    transmission = Transmission(b"", None, CORRELATION, b"", encode_command(NEW, 19))
    assert signed(SESSION, transmission) == bytes.fromhex(
        "20000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f18202122232425262728"
        "292a2b2c2d2e2f3031323334353637004e4557202c302a300506032b65700321"
        "008a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c2c302a300506032b656e"
        "0321007b0d47d93427f8311160781c7c733fd89f88970aef490d8aa0ee19a4cb"
        "8a1b143053314d3030"
    )


def of_length(length: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=length, max_size=length)


authorizations = st.sampled_from([0, 64, 80, 114]).flatmap(of_length)


@given(authorizations, st.none() | of_length(64), strings, strings, st.binary(), versions)
def test_a_transmission_is_read_as_it_was_written(
    authorization: bytes,
    service: bytes | None,
    correlation: bytes,
    entity: bytes,
    command: bytes,
    version: int,
) -> None:
    slot = service if authorization and version >= 16 else None
    transmission = Transmission(authorization, slot, correlation, entity, command)
    assert parse(encode(transmission, version), version) == transmission
    bare = Transmission(b"", None, correlation, entity, command)
    assert encode_unsigned(correlation, entity, command) == encode(bare, version)
    assert parse_reply(encode(bare, version)) == bare


@given(authorizations, strings, strings, st.binary(), versions)
def test_what_is_signed_is_what_follows_the_authorization(
    authorization: bytes, correlation: bytes, entity: bytes, command: bytes, version: int
) -> None:
    transmission = Transmission(authorization, None, correlation, entity, command)
    sent = encode(transmission, version)
    assert sent.endswith(signed(b"session", transmission).removeprefix(string(b"session")))


@pytest.mark.parametrize("version", [15, 19])
@pytest.mark.parametrize("length", [1, 63, 65, 79, 113, 255])
def test_an_authorization_of_another_length_is_answered_by_its_correlation(
    length: int, version: int
) -> None:
    transmission = Transmission(bytes(length), None, CORRELATION, RECIPIENT, b"SUB")
    with pytest.raises(BadAuthorization) as caught:
        parse(encode(transmission, version), version)
    assert caught.value.correlation == CORRELATION


def test_a_slot_for_a_service_comes_with_an_authorization_only() -> None:
    data = encode_unsigned(CORRELATION, b"", b"PING")
    assert parse(data, 19) == Transmission(b"", None, CORRELATION, b"", b"PING")


@pytest.mark.parametrize("length", [0, 63, 65, 114])
def test_a_service_signs_by_ed25519_only(length: int) -> None:
    transmission = Transmission(bytes(64), bytes(length), CORRELATION, RECIPIENT, b"SUB")
    with pytest.raises(Malformed):
        parse(encode(transmission, 19), 19)


def test_a_transmission_that_is_cut_is_malformed_wherever_it_is_cut() -> None:
    data = encode(Transmission(bytes(64), bytes(64), CORRELATION, RECIPIENT, b""), 19)
    for end in range(len(data)):
        with pytest.raises(Malformed):
            parse(data[:end], 19)
        with pytest.raises(Malformed):
            parse_reply(data[:end])


def test_a_router_authorizes_nothing() -> None:
    with pytest.raises(Malformed):
        parse_reply(encode(Transmission(bytes(64), None, CORRELATION, b"", b"OK"), 15))


@pytest.mark.parametrize(("version", "is_there"), [(15, False), (16, True), (17, True)])
def test_the_signature_of_a_service_has_its_place_from_version_16_on(
    version: int, is_there: bool
) -> None:
    """S001-4, WIRE-18, WIRE-19, WIRE-20, WIRE-21, WIRE-24, WIRE-27: behind the authorization, and
    absent without one."""
    plain = Transmission(b"a" * 64, None, CORRELATION, RECIPIENT, b"SUB")
    signed = replace(plain, service_signature=SERVICE_SIGNATURE)
    assert parse(encode(signed, version), version) == (signed if is_there else plain)
    assert len(encode(plain, version)) == len(encode(plain, 15)) + is_there
    unsigned = replace(plain, authorization=b"")
    assert encode(unsigned, version) == encode(unsigned, 15)
    assert parse(encode(unsigned, version), version) == unsigned
