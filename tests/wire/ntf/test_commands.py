"""Commands of apps: their bytes, what is wrong with others, and what each must name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.ntf_commands import check
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.commands import NtfCommand, check_shape, encode_command, parse_command
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.smp.codec.commands import BadCommand, Ping
from tests.support.ntf_examples import (
    CODE,
    NOTIFIER_PRIVATE,
    ROUTER,
    SNEW,
    TNEW,
    TOKEN,
    WEB_DEVICE,
    commands,
)
from tests.support.repository import CORPORA
from tests.support.smp_examples import LONG_KEY, NOTIFIER, RECIPIENT_DH, RECIPIENT_KEY, X448_KEY

CORPUS = CORPORA / "ntf_commands"

EXAMPLES: dict[str, tuple[NtfCommand, str]] = {
    "TNEW": (
        TNEW,
        "544e45572054415404616263642c302a300506032b65700321008a88e3dd7409f195fd52db2d3cba5d72ca6709bf"
        "1d94121bf3748801b40f6f5c2c302a300506032b656e0321007b0d47d93427f8311160781c7c733fd89f88970aef"
        "490d8aa0ee19a4cb8a1b14",
    ),
    "TVFY": (c.TVfy(CODE), "5456465920" + "20" + CODE.hex()),
    "TCRN": (c.TCrn(20), "5443524e200014"),
    "TRPL": (c.TRpl(ApnsDevice(Provider.APNS, b"ef01")), "5452504c2041500465663031"),
    "SNEW": (
        SNEW,
        "534e4557205318"
        + TOKEN.hex()
        + "010d72656c61792e6578616d706c650435323233209abd9a86ef280e0e61"
        "be68c2f82ea9fd873862c142f89262e480d9394edfa80818" + NOTIFIER.hex() + "30"
        "302e020100300506032b657004220420" + "06" * 32,
    ),
    "TCHK": (c.TChk(), "5443484b"),
    "TDEL": (c.TDel(), "5444454c"),
    "SCHK": (c.SChk(), "5343484b"),
    "SDEL": (c.SDel(), "5344454c"),
    "PING": (Ping(), "50494e47"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_commands_have_their_bytes(name: str) -> None:
    command, data = EXAMPLES[name]
    assert encode_command(command).hex() == data
    assert parse_command(bytes.fromhex(data)) == command


def test_the_examples_are_as_long_as_they_should_be() -> None:
    assert (len(encode_command(TNEW)), len(encode_command(SNEW)), len(NOTIFIER_PRIVATE)) == (
        103,
        158,
        48,
    )


@given(commands)
def test_a_command_is_read_as_it_was_written(command: NtfCommand) -> None:
    assert parse_command(encode_command(command)) == command


def kind_of_error(data: bytes) -> str:
    with pytest.raises(BadCommand) as caught:
        parse_command(data)
    return caught.value.kind


@pytest.mark.parametrize(
    "tag", ["IDTKN", "IDSUB", "OK", "TKN", "SUB", "PONG", "ERR", "NMSG", "SEND", "NEW"]
)
def test_what_a_server_answers_or_a_router_is_asked_is_no_command(tag: str) -> None:
    assert kind_of_error(tag.encode()) == "UNKNOWN"
    assert kind_of_error(tag.encode() + b" \0") == "UNKNOWN"


@pytest.mark.parametrize(
    "data", [b"", b" ", b" TCHK", b"tchk", b"TCHKS", b"TNEWT x", b"\xff" * 400]
)
def test_another_word_is_no_command(data: bytes) -> None:
    assert kind_of_error(data) == "UNKNOWN"


@pytest.mark.parametrize("tag", sorted(c.BARE), ids=bytes.decode)
def test_a_command_of_one_word_has_nothing_behind_it(tag: bytes) -> None:
    assert kind_of_error(tag + b" ") == "SYNTAX"
    assert kind_of_error(tag + b" x") == "SYNTAX"


@pytest.mark.parametrize("tag", sorted(c.PARAMETERS), ids=bytes.decode)
def test_parameters_must_be_there_and_nothing_else(tag: bytes) -> None:
    assert kind_of_error(tag) == "SYNTAX"
    assert kind_of_error(tag + b" ") == "SYNTAX"
    [data] = [bytes.fromhex(data) for _, data in EXAMPLES.values() if data.startswith(tag.hex())]
    assert kind_of_error(data + b"x") == "SYNTAX"
    assert kind_of_error(data[:-1]) == "SYNTAX"


def test_a_token_is_no_subscription() -> None:
    assert kind_of_error(encode_command(TNEW).replace(b"TNEW T", b"TNEW S")) == "SYNTAX"
    assert kind_of_error(encode_command(SNEW).replace(b"SNEW S", b"SNEW T")) == "SYNTAX"


@pytest.mark.parametrize("verify_key", [RECIPIENT_KEY, RECIPIENT_DH, LONG_KEY])
def test_a_token_is_signed_for_with_three_kinds_of_keys(verify_key: bytes) -> None:
    command = c.TNew(WEB_DEVICE, verify_key, RECIPIENT_DH)
    assert parse_command(encode_command(command)) == command


@pytest.mark.parametrize(("verify_key", "dh"), [(X448_KEY, RECIPIENT_DH), (RECIPIENT_KEY,) * 2])
def test_another_kind_of_key_is_wrong(verify_key: bytes, dh: bytes) -> None:
    assert kind_of_error(encode_command(c.TNew(WEB_DEVICE, verify_key, dh))) == "SYNTAX"


@pytest.mark.parametrize(
    ("kind", "size", "length"),
    [(KeyKind.ED25519, 32, 48), (KeyKind.X25519, 32, 48), (KeyKind.ED448, 57, 73)],
)
def test_a_notifier_has_a_private_key_of_three_kinds(kind: KeyKind, size: int, length: int) -> None:
    key = encode_private(kind, bytes(size))
    command = c.SNew(TOKEN, ROUTER, NOTIFIER, key)
    assert len(key) == length
    assert parse_command(encode_command(command)) == command


@pytest.mark.parametrize("key", [b"", NOTIFIER_PRIVATE[:-1], NOTIFIER_PRIVATE + b"x", bytes(48)])
def test_another_private_key_is_wrong(key: bytes) -> None:
    assert kind_of_error(encode_command(c.SNew(TOKEN, ROUTER, NOTIFIER, key))) == "SYNTAX"


def test_secrets_are_not_shown() -> None:
    for command in (TNEW, SNEW, c.TVfy(CODE), c.TRpl(WEB_DEVICE)):
        shown = repr(command)
        for secret in (CODE, NOTIFIER_PRIVATE, NOTIFIER_PRIVATE[16:], b"abcd", b"/secret"):
            assert repr(secret)[2:-1] not in shown


CREDENTIALS: dict[str, tuple[str | None, str | None, str | None, str | None]] = {
    # with both, the entity only, the authorization only, neither
    "TNEW": ("HAS_AUTH", "NO_AUTH", None, "NO_AUTH"),
    "SNEW": ("HAS_AUTH", "NO_AUTH", None, "NO_AUTH"),
    **dict.fromkeys(
        ["TVFY", "TCHK", "TRPL", "TDEL", "TCRN", "SCHK", "SDEL"],
        (None, "NO_AUTH", "NO_AUTH", "NO_AUTH"),
    ),
    "PING": ("HAS_AUTH", "HAS_AUTH", "HAS_AUTH", None),
}


@pytest.mark.parametrize("tag", CREDENTIALS)
def test_a_command_names_and_proves_what_it_needs(tag: str) -> None:
    command = EXAMPLES[tag][0]
    shapes = [(True, True), (True, False), (False, True), (False, False)]
    assert tuple(check_shape(command, *shape) for shape in shapes) == CREDENTIALS[tag]


def test_the_credentials_of_every_command_are_known() -> None:
    assert {tag.encode() for tag in CREDENTIALS} == {*c.BARE, *c.PARAMETERS}


tagged = st.builds(
    lambda tag, rest: tag + b" " + rest,
    st.sampled_from(sorted({*c.BARE, *c.PARAMETERS})),
    st.binary(max_size=200),
)


@given(st.binary(max_size=600) | tagged)
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    check(data)


@given(commands, st.data())
def test_a_spoilt_command_is_refused_and_nothing_worse(
    command: NtfCommand, data: st.DataObject
) -> None:
    spoilt = bytearray(encode_command(command))
    spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(spoilt))


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
