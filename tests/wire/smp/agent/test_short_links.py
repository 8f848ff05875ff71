"""Short links as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Malformed
from headgate.wire.smp.agent.short_links import (
    ContactKind,
    ContactShortLink,
    InvitationShortLink,
    ShortLink,
    parse_short_link,
)
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.agent_examples import KEY_HASH, ROUTER, base64, ids, routers
from tests.support.smp_examples import LINK

KEY = bytes.fromhex("bab65d08844c0782964522aef32be3a5e930821ea39c3f2ad012a3756cd04c23")
KEY_TEXT = "urZdCIRMB4KWRSKu8yvjpekwgh6jnD8q0BKjdWzQTCM"
HASH_TEXT = "mr2ahu8oDg5hvmjC-C6p_Yc4YsFC-JJi5IDZOU7fqAg"
QUERY = f"?h=relay.example&p=5223&c={HASH_TEXT}"
CONTACT_TEXT = f"simplex:/a#{KEY_TEXT}{QUERY}"
INVITATION_TEXT = f"simplex:/i#4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3/{KEY_TEXT}{QUERY}"
CONTACT = ContactShortLink(ContactKind.CONTACT, ROUTER, KEY)
INVITATION = InvitationShortLink(ROUTER, LINK, KEY)


def test_of_a_contact() -> None:
    assert CONTACT.text == str(CONTACT) == CONTACT_TEXT
    assert parse_short_link(CONTACT_TEXT) == CONTACT


def test_of_an_invitation() -> None:
    assert INVITATION.text == str(INVITATION) == INVITATION_TEXT
    assert parse_short_link(INVITATION_TEXT) == INVITATION


def test_of_a_router_with_several_hosts() -> None:
    """The comma between them is escaped, as other clients write it; both ways are read."""
    router = RouterAddress(("relay.example", "x.onion"), 5223, KEY_HASH)
    link = ContactShortLink(ContactKind.CONTACT, router, KEY)
    text = f"simplex:/a#{KEY_TEXT}?h=relay.example%2Cx.onion&p=5223&c={HASH_TEXT}"
    assert link.text == text
    assert parse_short_link(text) == parse_short_link(text.replace("%2C", ",")) == link


def test_the_longest_id() -> None:
    link = InvitationShortLink(ROUTER, bytes(255), KEY)
    assert parse_short_link(link.text) == link


@pytest.mark.parametrize("kind", ContactKind)
def test_of_every_kind_of_contact(kind: ContactKind) -> None:
    link = ContactShortLink(kind, ROUTER, KEY)
    assert link.text == CONTACT_TEXT.replace("/a#", f"/{kind.value}#")
    assert parse_short_link(link.text) == link


@pytest.mark.parametrize(
    "text",
    [
        f"simplex:/a#{KEY_TEXT}=?c={HASH_TEXT}%3D&p=5223&h=relay.example",
        f"simplex:/a#/{KEY_TEXT}/{QUERY}&new=1&new",
        f"https://relay.example/a#{KEY_TEXT}?p=5223&c={HASH_TEXT}",
    ],
)
def test_other_ways_to_write_it(text: str) -> None:
    assert parse_short_link(text) == CONTACT


def test_the_page_of_a_router_may_have_more_hosts() -> None:
    link = parse_short_link(f"https://relay.example/a#{KEY_TEXT}?h=x.onion&c={HASH_TEXT}")
    assert link.router == RouterAddress(("relay.example", "x.onion"), None, KEY_HASH)


def test_a_known_router_needs_no_fingerprint() -> None:
    text = f"https://relay.example/i#4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3/{KEY_TEXT}"
    other = RouterAddress(("other.example",), None, bytes(32))
    named = RouterAddress(ROUTER.hosts, 5223, KEY_HASH, "sesame")
    assert parse_short_link(text, [other, named]) == INVITATION
    with pytest.raises(Malformed, match="not known"):
        parse_short_link(text, [other])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "simplex:/a#",
        CONTACT_TEXT.replace("/a#", "/b#"),
        CONTACT_TEXT.replace("/a#", "/i#"),
        CONTACT_TEXT.replace("#", "#abcd/"),
        CONTACT_TEXT.replace("#urZ", "#"),
        CONTACT_TEXT.replace("#urZ", "#!!!"),
        CONTACT_TEXT.replace("h=relay.example&", ""),
        CONTACT_TEXT.replace("h=relay.example", "h=relay example"),
        CONTACT_TEXT.replace("p=5223", "p=0"),
        CONTACT_TEXT.replace("&c=", "&d="),
        CONTACT_TEXT.replace("&c=", "&c=abcd"),
        CONTACT_TEXT.replace("simplex:", "https://"),
        CONTACT_TEXT.replace("simplex:", "http://relay.example"),
        CONTACT_TEXT.replace("?", "/more/?"),
        INVITATION_TEXT.replace("4OHi", "!!!!"),
        INVITATION_TEXT.replace("4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3", base64(bytes(256))),
    ],
)
def test_what_is_no_short_link_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        parse_short_link(text)


@given(
    st.builds(
        ContactShortLink, st.sampled_from(ContactKind), routers, st.binary(min_size=32, max_size=32)
    )
    | st.builds(InvitationShortLink, routers, ids, st.binary(min_size=32, max_size=32))
)
def test_a_short_link_is_read_as_it_was_written(link: ShortLink) -> None:
    assert parse_short_link(link.text) == link


@given(st.text(max_size=40), st.integers(0, len(INVITATION_TEXT)))
def test_any_text_is_a_short_link_or_malformed(text: str, cut: int) -> None:
    for example in (CONTACT_TEXT, INVITATION_TEXT):
        for whole in (text, example[:cut] + text, example[:cut] + text + example[cut:]):
            try:
                link = parse_short_link(whole)
            except Malformed:
                continue
            assert parse_short_link(link.text) == link


def test_the_key_is_not_shown() -> None:
    assert repr(KEY)[2:-1] not in repr((CONTACT, INVITATION))
