"""Replies in every version: their bytes, and what older versions get instead."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.errors import Malformed
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.replies import (
    Deld,
    Ends,
    Err,
    Ids,
    Msg,
    Nid,
    NMsg,
    Ok,
    Reply,
    SmpEnd,
    Sok,
    Soks,
    encode_reply,
    has_right_entity,
    parse_reply_command,
)
from tests.support.smp_examples import (
    LINK,
    MESSAGE,
    NOTIFIER,
    NOTIFIER_DH,
    NOTIFIER_KEY,
    RECIPIENT,
    ROUTER_DH,
    SENDER,
    SERVICE,
    TALLY,
    VERSIONS,
    dh_keys,
    int64s,
    larges,
    purposes,
    strings,
    tallies,
)

IDS = (
    "4944532018404142434445464748494a4b4c4d4e4f505152535455565718606162636465666768696a6b6c6d6e6f"
    "70717273747576772c302a300506032b656e032100ff2ee45601ec1b67310c7790404585ae697331eee1c1f8cf24"
    "19731c1fff3e6b"
)

EXAMPLES: dict[str, tuple[Reply, int, str]] = {
    "IDS v8": (Ids(RECIPIENT, SENDER, ROUTER_DH), 8, IDS),
    "IDS v9": (Ids(RECIPIENT, SENDER, ROUTER_DH, Purpose.MESSAGING), 9, IDS + "54"),
    "IDS v14": (Ids(RECIPIENT, SENDER, ROUTER_DH, Purpose.MESSAGING), 14, IDS + "54"),
    "IDS v15": (Ids(RECIPIENT, SENDER, ROUTER_DH, Purpose.MESSAGING), 15, IDS + "314d30"),
    "IDS v16": (Ids(RECIPIENT, SENDER, ROUTER_DH, Purpose.MESSAGING), 16, IDS + "314d3030"),
    "IDS": (Ids(RECIPIENT, SENDER, ROUTER_DH, Purpose.MESSAGING), 19, IDS + "314d303030"),
    "IDS of a service": (
        Ids(
            *(RECIPIENT, SENDER, ROUTER_DH, Purpose.MESSAGING, None, SERVICE),
            Nid(NOTIFIER, NOTIFIER_DH),
        ),
        19,
        IDS + "314d303118a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b73118c0c1c2c3c4c5c6c7c8c9ca"
        "cbcccdcecfd0d1d2d3d4d5d6d72c302a300506032b656e032100219e4d800da968d2a5fcb009c784f4746c7138"
        "edb9ee4844b739e830b05cf424",
    ),
    "SOK": (Sok(), 19, "534f4b2030"),
    "SOK of a service": (
        Sok(SERVICE),
        19,
        "534f4b203118a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7",
    ),
    "SOKS": (Soks(TALLY), 19, "534f4b53200000000000000002106d91253224465d5e85d6ce0ff1795879"),
    "ENDS": (Ends(TALLY), 19, "454e4453200000000000000002106d91253224465d5e85d6ce0ff1795879"),
    "NID": (
        Nid(NOTIFIER, ROUTER_DH),
        19,
        "4e49442018c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d72c302a300506032b656e032100ff2ee4"
        "5601ec1b67310c7790404585ae697331eee1c1f8cf2419731c1fff3e6b",
    ),
    "ERR CMD SYNTAX": (Err("CMD SYNTAX"), 19, "45525220434d442053594e544158"),
    "ERR BLOCKED": (
        Err("BLOCKED reason=spam"),
        19,
        "45525220424c4f434b454420726561736f6e3d7370616d",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_replies_have_their_bytes(name: str) -> None:
    """WIRE-35, WIRE-36, WIRE-37, WIRE-38, WIRE-39, WIRE-48."""
    reply, version, data = EXAMPLES[name]
    assert encode_reply(reply, version).hex() == data
    assert parse_reply_command(bytes.fromhex(data), version) == reply


def test_a_message_is_its_id_and_what_is_sealed() -> None:
    data = encode_reply(Msg(MESSAGE, bytes(16122)), 19)
    assert len(data) == 16151
    assert data.startswith(
        bytes.fromhex("4d53472018808182838485868788898a8b8c8d8e8f9091929394959697")
    )


def test_the_nonce_of_a_notice_has_no_length_before_it() -> None:
    assert encode_reply(NMsg(bytes(24), b"sealed"), 19) == b"NMSG " + bytes(24) + b"\6sealed"


errors = st.sampled_from(
    [
        *("BLOCK", "SESSION", "CMD PROHIBITED", "AUTH", "SERVICE", "CRYPTO", "QUOTA", "NO_MSG"),
        *("LARGE_MSG", "EXPIRED", "INTERNAL", "PROXY NO_SESSION", "STORE the disk is full"),
    ]
) | st.text(max_size=40).filter(lambda text: not text.startswith(("BLOCKED", "CMD NO_QUEUE")))
nids = st.builds(Nid, strings, dh_keys)


@st.composite
def ids(draw: st.DrawFn, version: int) -> Ids:
    """IDS with as much as the version has words for."""
    purpose = link = service = notifier = None
    if version >= 9:
        purpose = draw(purposes if version < 15 else st.none() | purposes)
    if version >= 15:
        link = draw(st.none() | strings)
    if version >= 16:
        service = draw(st.none() | strings)
    if version >= 17:
        notifier = draw(st.none() | nids)
    return Ids(draw(strings), draw(strings), draw(dh_keys), purpose, link, service, notifier)


def replies(version: int) -> st.SearchStrategy[Reply]:
    """Those that the version has a word for."""
    known = tallies if version >= 19 else st.builds(Tally, int64s)
    every: list[st.SearchStrategy[Reply]] = [
        ids(version),
        nids,
        st.builds(Soks, known),
        st.builds(Ends, known),
        st.builds(Msg, strings, st.binary()),
        st.builds(NMsg, st.binary(min_size=24, max_size=24), strings),
        st.builds(r.Lnk, strings, larges, larges),
        st.builds(r.Info, st.binary()),
        st.builds(Err, errors),
        *(st.just(reply) for reply in r.BARE.values() if reply != Deld() or version >= 10),
    ]
    if version >= 16:
        every.append(st.builds(Sok, st.none() | strings))
    return st.one_of(every)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_reply_is_read_as_it_was_written(version: int, data: st.DataObject) -> None:
    reply = data.draw(replies(version))
    assert parse_reply_command(encode_reply(reply, version), version) == reply


def test_before_services_a_subscription_is_ok() -> None:
    assert encode_reply(Sok(SERVICE), 15) == b"OK"
    assert encode_reply(Sok(None), 16) == b"SOK 0"


def test_a_queue_that_is_gone_ended_before_version_10() -> None:
    assert encode_reply(Deld(), 9) == b"END"
    assert encode_reply(Deld(), 10) == b"DELD"


@pytest.mark.parametrize("kind", [Soks, Ends])
def test_the_hash_of_a_tally_comes_with_version_19(kind: type[Soks] | type[Ends]) -> None:
    """S001-5, S001-6, S004-10."""
    for version in (16, 17, 18):
        encoded = encode_reply(kind(TALLY), version)
        assert encoded == kind.tag + b" \0\0\0\0\0\0\0\2"
        assert parse_reply_command(encoded, version) == kind(Tally(2))
    assert encode_reply(kind(TALLY), 19) == encoded + b"\x10" + TALLY.hash


def test_a_queue_tells_more_of_itself_in_every_version() -> None:
    notifier = Nid(NOTIFIER, NOTIFIER_DH)
    full = Ids(RECIPIENT, SENDER, ROUTER_DH, Purpose.CONTACT, LINK, SERVICE, notifier)
    start = bytes.fromhex(IDS)
    link, service = b"1\x18" + LINK, b"1\x18" + SERVICE
    assert encode_reply(full, 8) == start
    assert encode_reply(full, 9) == encode_reply(full, 14) == start + b"F"
    assert encode_reply(full, 15) == start + b"1C" + link
    assert encode_reply(full, 16) == start + b"1C" + link + service
    more = b"1\x18" + NOTIFIER + b"," + NOTIFIER_DH
    assert encode_reply(full, 17) == encode_reply(full, 19) == encode_reply(full, 16) + more


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (11, b"ERR AUTH"),
        (12, b"ERR BLOCKED reason=content"),
        (17, b"ERR BLOCKED reason=content"),
        (18, b'ERR BLOCKED reason=content,notice={"ttl":86400}'),
    ],
)
def test_a_blocked_queue_is_told_as_far_as_the_version_can(version: int, text: bytes) -> None:
    assert encode_reply(Err('BLOCKED reason=content,notice={"ttl":86400}'), version) == text


def test_an_error_may_be_no_text() -> None:
    data = b"ERR PROXY BROKER RESPONSE \xff" + bytes(range(255))
    assert encode_reply(parse_reply_command(data, 19), 19) == data


def test_an_error_by_its_name_of_old_is_the_same() -> None:
    assert parse_reply_command(b"ERR CMD NO_QUEUE", 19) == Err("CMD NO_ENTITY")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"SUB",
        b"OK ",
        b"OKAY",
        b"SOK",
        b"SOK 2",
        b"SOK 0x",
        b"MSG ",
        b"NMSG " + bytes(20),
        b"SOKS \0\0\0\0\0\0\0\2",
        b"NID \0," + NOTIFIER_KEY,
        b"LNK \0\0\0",
        b"IDS \0\0," + ROUTER_DH + b"1X000",
        b"RNAME {}",
    ],
)
def test_what_is_no_reply_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_reply_command(data, 19)


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_garbage_is_malformed_and_nothing_worse(data: bytes, version: int) -> None:
    for tag in (b"", *(tag + b" " for tag in r.PARAMETERS)):
        try:
            reply = parse_reply_command(tag + data, version)
        except Malformed:
            continue
        assert reply.tag in {*r.PARAMETERS, *r.BARE}


@pytest.mark.parametrize(
    ("reply", "without", "with_one"),
    [
        (Ids(RECIPIENT, SENDER, ROUTER_DH), True, True),
        (Err("AUTH"), True, True),
        (r.Pong(), True, False),
        (r.Alls(), True, False),
        (Ok(), False, True),
        (SmpEnd(), False, True),
        (Soks(TALLY), False, True),
    ],
)
def test_a_reply_is_about_something_if_it_should_be(
    reply: Reply, without: bool, with_one: bool
) -> None:
    assert has_right_entity(reply, b"") is without
    assert has_right_entity(reply, RECIPIENT) is with_one
