"""What a router keeps for a short link: derived, sealed, signed, and proved in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.keys import ED25519
from headgate.errors import Malformed, TooLong
from headgate.wire.smp.agent.link_data import (
    OWNERS_MAX,
    ContactData,
    FixedLinkData,
    InvitationData,
    LinkOwner,
    SealedLink,
    UserLinkData,
    contact_link_keys,
    invitation_data_key,
    link_key,
    open_link,
    parse_user_data,
    seal_fixed,
    seal_user,
)
from headgate.wire.smp.handshake import Versions
from tests.support.agent_examples import (
    NONCE,
    QUEUE_BYTES,
    digest,
    ed25519,
    ed25519_public,
    versions,
)
from tests.support.link_examples import CONTACT, FIXED, INVITATION, ROOT_KEY, links
from tests.support.smp_examples import keys_of, strings

ROOT = ed25519(0x0A)
KEY = bytes.fromhex("bab65d08844c0782964522aef32be3a5e930821ea39c3f2ad012a3756cd04c23")
LINK_ID = bytes.fromhex("b64295266bbd10efc2a148034da24299afb1011fb58e94fb")
DATA_KEY = bytes.fromhex("0477aad35aec3ba09f54335ac30635edec43e29d1f58f84e04a6786fd1d1781f")
V = Versions(2, 7)
USER = ContactData(V, True, (), b"profile")


def sealed(user: UserLinkData, by: int = 0x0A, fixed: FixedLinkData = FIXED) -> SealedLink:
    return SealedLink(
        seal_fixed(DATA_KEY, NONCE, fixed.encode(), ROOT),
        seal_user(DATA_KEY, NONCE, user.encode(), ed25519(by)),
    )


def test_the_fixed_part() -> None:
    encoded = b"".join(
        (
            bytes.fromhex("000200072c"),
            ROOT_KEY,
            bytes.fromhex("430002000701"),
            QUEUE_BYTES[:-1],
            b"0",
        )
    )
    assert ROOT_KEY.hex().endswith(
        "43a72e714401762df66b68c26dfbdf2682aaec9f2474eca4613e424a0fbafd3c"
    )
    assert FIXED.encode() == encoded
    assert len(encoded) == 183
    assert FixedLinkData.parse(encoded) == FIXED


def test_keys_follow_from_the_fixed_part() -> None:
    assert link_key(FIXED.encode()) == KEY
    assert contact_link_keys(KEY) == (LINK_ID, DATA_KEY)
    assert invitation_data_key(KEY).hex() == (
        "0ac13d5e8808d6cbcf14413b663d9626f43a3019aa9f3f65640ac936cbd5c154"
    )


def test_the_part_of_the_user() -> None:
    assert USER.encode().hex() == "43000200075400000770726f66696c65"
    assert parse_user_data(USER.encode()) == USER
    short = InvitationData(V, b"profile")
    assert short.encode().hex() == "49000200070770726f66696c65"
    assert parse_user_data(short.encode()) == short


def test_both_sealed() -> None:
    fixed, user = sealed(USER)
    assert (len(fixed), len(user)) == (2048, 13824)
    assert digest(fixed) == "0b1223f3feed95ed36aa05d50859d081593f1b9356976a30da6b617bf06d6aad"
    assert digest(user) == "847a99afd9fbc19ec33c5861827a51d0fbfece7faf10eeb562b2527f87a31392"
    opened = open_link(KEY, DATA_KEY, SealedLink(fixed, user))
    assert (opened.fixed, opened.user) == (FIXED, USER)


def test_an_invitation_behind_a_short_link() -> None:
    fixed = FixedLinkData(V, ROOT_KEY, INVITATION, b"entity")
    user = InvitationData(V, b"hello")
    key = link_key(fixed.encode())
    both = sealed(user, fixed=fixed)
    opened = open_link(key, DATA_KEY, both)
    assert (opened.fixed, opened.user) == (fixed, user)


@pytest.mark.parametrize("size", [0, 254, 255, 256, 13_000])
def test_data_of_any_length(size: int) -> None:
    user = ContactData(V, False, (), b"x" * size)
    assert parse_user_data(user.encode()) == user
    assert open_link(KEY, DATA_KEY, sealed(user)).user == user


def test_data_fits_exactly_or_is_too_long() -> None:
    room = 13784 - 2 - 65
    seal_user(DATA_KEY, NONCE, bytes(room), ROOT)
    with pytest.raises(TooLong) as raised:
        seal_user(DATA_KEY, NONCE, bytes(room + 1), ROOT)
    assert (raised.value.size, raised.value.limit) == (room + 1, room)


def test_owners_sign_one_another_and_what_is_shown() -> None:
    first = LinkOwner.sign(b"one", ed25519_public(1), ROOT)
    second = LinkOwner.sign(b"two", ed25519_public(2), ed25519(1))
    user = ContactData(V, True, (first, second), b"profile")
    assert parse_user_data(user.encode()) == user
    for signer in (0x0A, 1, 2):
        assert open_link(KEY, DATA_KEY, sealed(user, by=signer)).user == user
    with pytest.raises(Malformed, match="not signed by an owner"):
        open_link(KEY, DATA_KEY, sealed(user, by=3))
    turned = ContactData(V, True, (second, first), b"profile")
    with pytest.raises(Malformed, match="nobody before"):
        open_link(KEY, DATA_KEY, sealed(turned))


def test_an_owner_that_nobody_signed_is_refused() -> None:
    stranger = LinkOwner.sign(b"one", ed25519_public(1), ed25519(1))
    other_id = LinkOwner(
        b"two", ed25519_public(1), LinkOwner.sign(b"one", ed25519_public(1), ROOT).signature
    )
    for owner in (stranger, other_id):
        user = ContactData(V, True, (owner,), b"profile")
        for signer in (0x0A, 1):
            with pytest.raises(Malformed, match="nobody before"):
                open_link(KEY, DATA_KEY, sealed(user, by=signer))


def test_owners_are_bounded() -> None:
    """Each is checked against all before it, so what many cost grows with their square."""
    chain = [LinkOwner.sign(b"0", ed25519_public(0x10), ROOT)]
    for number in range(1, OWNERS_MAX + 1):
        by = ed25519(0x10 + number - 1)
        chain.append(LinkOwner.sign(b"%d" % number, ed25519_public(0x10 + number), by))
    most = ContactData(V, True, tuple(chain[:-1]), b"profile")
    assert open_link(KEY, DATA_KEY, sealed(most)).user == most
    with pytest.raises(Malformed, match="more than 32"):
        open_link(KEY, DATA_KEY, sealed(ContactData(V, True, tuple(chain), b"profile")))


def test_data_of_another_link_is_refused_before_anything_is_read() -> None:
    other = FixedLinkData(Versions(2, 6), ROOT_KEY, CONTACT)
    with pytest.raises(Malformed, match="made of"):
        open_link(KEY, DATA_KEY, sealed(USER, fixed=other))


def test_the_fixed_part_is_signed_by_its_root_key() -> None:
    fixed = seal_fixed(DATA_KEY, NONCE, FIXED.encode(), ed25519(1))
    with pytest.raises(Malformed, match="root key"):
        open_link(KEY, DATA_KEY, SealedLink(fixed, sealed(USER).user))


def test_another_key_opens_nothing() -> None:
    with pytest.raises(Malformed, match="decrypt"):
        open_link(KEY, bytes(32), sealed(USER))


def test_what_later_versions_add_is_left_alone() -> None:
    fixed = FixedLinkData(V, ROOT_KEY, CONTACT, b"entity")
    assert FixedLinkData.parse(fixed.encode() + b"later") == fixed
    assert parse_user_data(USER.encode() + b"later") == USER


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"X\0\2\0\7\0",
        b"C\0\2\0\7X",
        b"C\0\2\0\7T\0\1more",
        b"C\0\2\0\7T\1\1\0\0",
        b"I\0\2\0\7\xff\0\1",
        b"I\0\2\0\7\5abcd",
    ],
)
def test_what_is_no_data_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_user_data(data)


owners = st.builds(
    LinkOwner,
    st.binary(max_size=32),
    keys_of(ED25519),
    st.binary(min_size=64, max_size=64),
)
users = st.builds(InvitationData, versions, strings) | st.builds(
    ContactData, versions, st.booleans(), st.lists(owners, max_size=3).map(tuple), strings
)


@given(users)
def test_the_part_of_a_user_is_read_as_it_was_written(user: UserLinkData) -> None:
    assert parse_user_data(user.encode()) == user


@given(st.builds(FixedLinkData, versions, st.just(ROOT_KEY), links, st.none() | strings))
def test_the_fixed_part_is_read_as_it_was_written(fixed: FixedLinkData) -> None:
    assert FixedLinkData.parse(fixed.encode()).encode() == fixed.encode()


@given(st.binary(max_size=100), st.integers(0, 183))
def test_any_bytes_are_data_or_malformed(data: bytes, cut: int) -> None:
    for whole in (data, b"C\0\2\0\7T" + data, FIXED.encode()[:cut] + data):
        for parse in (parse_user_data, FixedLinkData.parse):
            try:
                parse(whole)
            except Malformed:
                continue
    with pytest.raises(Malformed):
        open_link(KEY, DATA_KEY, SealedLink(data, data))
