"""Links to connections, as text and as bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.smp_links import check
from headgate.errors import Malformed
from headgate.wire.smp.agent.links import (
    ConnectionLink,
    ContactLink,
    InvitationLink,
    parse_link,
    read_link,
)
from headgate.wire.smp.agent.query import escape
from headgate.wire.smp.agent.ratchet_parameters import (
    KemAcceptance,
    KemProposal,
    RatchetOffer,
    RatchetParameters,
)
from headgate.wire.smp.codec.encoding import FieldReader
from headgate.wire.smp.handshake import Versions
from tests.support.agent_examples import QUEUE, QUEUE_BYTES, QUEUE_TEXT, base64
from tests.support.link_examples import CONTACT, INVITATION, links
from tests.support.ratchet_examples import INITIATOR, JOINER, OFFER, offers, parameters
from tests.support.repository import CORPORA

E2E = (
    "e2e=v%3D2-3%26x3dh%3DMEIwBQYDK2VvAzkAgXwbA7M6hwGfyqgNYoRfHa23JEL-vqxnQo5tnBB6v-FgnukdWMuDYdSm3e2"
    "w7AtC_rFjTkVDLUQ%3D%2CMEIwBQYDK2VvAzkAjSdrruyudbpbjg0wooag1KOLpX2kh0QhTrnux3qJTZ87NfRC0DjQJ9MPOXj"
    "0kD3p5d73UFaui3Q%3D"
)
SMP = f"smp={escape(QUEUE_TEXT)}"
TEXT = f"simplex:/invitation#/?v=2-7&{SMP}&{E2E}"
SPKI = bytes.fromhex("3042300506032b656f033900")
OFFER_BYTES = b"".join(
    (
        bytes.fromhex("00020003"),
        *(b"\x44" + SPKI + key for key in (INITIATOR.public.first, INITIATOR.public.second)),
        b"0",
    )
)
KEM = KemProposal(b"p" * 1158)


def test_an_invitation_as_text() -> None:
    assert INVITATION.text == str(INVITATION) == TEXT
    assert len(TEXT) == 465
    assert parse_link(TEXT) == INVITATION


def test_an_invitation_as_bytes() -> None:
    encoded = bytes.fromhex("490002000701") + QUEUE_BYTES + b"0" + OFFER_BYTES
    assert INVITATION.encode() == encoded
    assert len(encoded) == 278
    assert read_link(FieldReader(encoded)) == INVITATION


def test_an_offer_and_its_answer_as_bytes() -> None:
    assert OFFER.encode() == OFFER_BYTES
    assert len(OFFER_BYTES) == 143
    answer = RatchetParameters(3, JOINER.public)
    joiner = b"".join(b"\x44" + SPKI + key for key in (JOINER.public.first, JOINER.public.second))
    assert answer.encode() == b"\0\3" + joiner + b"0"
    assert len(answer.encode()) == 141
    assert RatchetParameters.read(FieldReader(answer.encode())) == answer
    assert RatchetParameters(2, JOINER.public).encode() == b"\0\2" + joiner


def test_a_contact() -> None:
    text = CONTACT.text
    assert text == str(CONTACT) == f"simplex:/contact#/?v=2-7&smp={escape(CONTACT.queues[0].text)}"
    assert parse_link(text) == CONTACT
    assert CONTACT.encode() == bytes.fromhex("430002000701") + QUEUE_BYTES[:-1] + b"0"
    assert read_link(FieldReader(CONTACT.encode())) == CONTACT


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("simplex:", "https://simplex.chat"),
        TEXT.replace("simplex:", "https://example.org:8080"),
        TEXT.replace("invitation#", "invitation/#"),
        TEXT.replace("#/?", "#?"),
        f"simplex:/invitation#/?{E2E}&{SMP}&v=2-7",
        f"simplex:/invitation#/?new=1&{E2E}&new&{SMP}&&v=2-7&x=%20&v=1",
        TEXT.replace("x3dh%3D", "more%3D1%26x3dh%3D"),
    ],
)
def test_other_ways_to_write_it(text: str) -> None:
    assert parse_link(text) == INVITATION


def test_data_of_the_application_and_several_queues() -> None:
    link = InvitationLink(Versions(7, 7), (QUEUE, CONTACT.queues[0]), OFFER, b"a b&c=\xff")
    assert link.text.startswith("simplex:/invitation#/?v=7&smp=")
    assert link.text.endswith("&data=a%20b%26c%3D%FF")
    assert parse_link(link.text) == link
    assert read_link(FieldReader(link.encode())) == link


def test_an_offer_with_a_kem() -> None:
    offer = RatchetOffer(Versions(2, 3), INITIATOR.public, KEM)
    assert offer.encode() == OFFER_BYTES[:-1] + b"1P" + (1158).to_bytes(2, "big") + b"p" * 1158
    assert offer.text.endswith(f"&kem_key={base64(b'p' * 1158)}")
    assert RatchetOffer.parse(offer.text) == offer
    assert RatchetOffer.read(FieldReader(offer.encode())) == offer
    answer = RatchetParameters(3, JOINER.public, KemAcceptance(b"c" * 1039, b"p" * 1158))
    assert answer.encode()[140:144] == b"1A" + (1039).to_bytes(2, "big")
    assert RatchetParameters.read(FieldReader(answer.encode())) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "simplex:/",
        QUEUE_TEXT,
        TEXT.replace("invitation", "message"),
        TEXT.replace("simplex:", "http://simplex.chat"),
        TEXT.replace("simplex:", "https://"),
        TEXT.replace("v=2-7", "v=7-2"),
        TEXT.replace("&smp=", "&smpp="),
        TEXT.replace("&e2e=", "&e3e="),
        TEXT.replace("x3dh%3D", "x4dh%3D"),
        TEXT.replace("%2CMEIw", "%3BMEIw"),
        TEXT.replace("%2CMEIw", "%2CMEIx"),
        TEXT.replace(SMP, "smp="),
        TEXT.replace(SMP, SMP + "%3B"),
        TEXT.replace(SMP, "smp=" + escape(";".join([QUEUE_TEXT] * 256))),
        TEXT + "%26kem_key%3Dabcd",
        TEXT + "&data=" + "a" * 65536,
    ],
)
def test_what_is_no_link_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        parse_link(text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"X" + INVITATION.encode()[1:],
        INVITATION.encode()[:5] + b"\0" + b"0" + OFFER_BYTES,
        INVITATION.encode()[:-1] + b"1X",
        INVITATION.encode()[:-1] + b"1A" + b"\x04\x0f" + bytes(1039) + b"\x04\x86" + bytes(1158),
        INVITATION.encode()[:-1] + b"1P\0\1p",
    ],
)
def test_bytes_that_are_no_link_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_link(FieldReader(data))


@settings(deadline=None)
@given(links)
def test_a_link_is_read_as_it_was_written(link: ConnectionLink) -> None:
    assert parse_link(link.text) == link
    again = read_link(FieldReader(link.encode()))
    assert type(again) is type(link)
    assert again.encode() == link.encode()


@given(offers)
def test_an_offer_is_read_as_it_was_written(offer: RatchetOffer) -> None:
    assert RatchetOffer.parse(offer.text) == offer
    assert RatchetOffer.read(FieldReader(offer.encode())) == offer


@given(parameters)
def test_an_answer_is_read_as_it_was_written(answer: RatchetParameters) -> None:
    assert RatchetParameters.read(FieldReader(answer.encode())) == answer


@given(st.text(max_size=60), st.integers(0, len(TEXT)))
def test_any_text_is_a_link_or_malformed(text: str, cut: int) -> None:
    for whole in (text, TEXT[:cut] + text, TEXT[:cut] + text + TEXT[cut:]):
        try:
            link = parse_link(whole)
        except Malformed:
            continue
        assert parse_link(link.text) == link
        link.encode()


@given(st.binary(max_size=60), st.integers(0, 278))
def test_any_bytes_are_a_link_or_malformed(data: bytes, cut: int) -> None:
    for whole in (data, INVITATION.encode()[:cut] + data):
        try:
            link = read_link(FieldReader(whole))
        except Malformed:
            continue
        assert isinstance(link, (InvitationLink, ContactLink))
        parse_link(link.text)


CORPUS = CORPORA / "smp_links"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
