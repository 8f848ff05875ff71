"""Who may do what with a queue: each change of it, and why not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.parties import (
    Address,
    Change,
    ChangeKeys,
    DropLink,
    DropNotifier,
    Link,
    Notifier,
    Parties,
    Party,
    Purpose,
    ReadLink,
    Secure,
    SetLink,
    SetNotifier,
    Suspend,
)
from headgate.errors import Unauthorised

MESSAGING, CONTACT, OLD = Purpose.MESSAGING, Purpose.CONTACT, None
PURPOSES = [MESSAGING, CONTACT, OLD]

LINK = Link(b"link", b"fixed", b"user")
NOTIFIER = Notifier(b"notifier", b"ntf key", b"ntf secret")


def queue(
    purpose: Purpose | None,
    *,
    key: bytes | None = None,
    link: Link | None = None,
    notifier: Notifier | None = None,
) -> Parties:
    return Parties((b"rcv",), b"secret", b"sender", key, purpose, link, notifier)


def refuses(change: Change, parties: Parties) -> bool:
    """Every reason is the same to whoever asks."""
    try:
        change.apply(parties)
    except Unauthorised:
        return True
    return False


# Ids.


def test_a_queue_is_known_by_the_ids_of_the_parties_that_it_has() -> None:
    """ACC-82: its own id is not among them; a notifier may be there from the beginning."""
    plain = queue(CONTACT)
    assert plain.addresses() == [Address(Party.SENDER, b"sender")]
    assert set(replace(plain, link=LINK, notifier=NOTIFIER).addresses()) == {
        Address(Party.SENDER, b"sender"),
        Address(Party.NOTIFIER, b"notifier"),
        Address(Party.LINK, b"link"),
    }


# The sender's key.


@pytest.mark.parametrize("purpose", PURPOSES)
def test_the_recipient_secures_a_queue_once_whatever_it_is_for(purpose: Purpose | None) -> None:
    """ACC-9..ACC-11: the same key again is fine, another is refused."""
    secured = Secure(b"one").apply(queue(purpose))
    assert secured == queue(purpose, key=b"one")
    assert Secure(b"one").apply(secured) == secured
    assert refuses(Secure(b"two"), secured)


def test_the_sender_secures_a_queue_that_is_for_messaging() -> None:
    """ACC-19, ACC-20: under the same rule, whoever of the two comes first."""
    secured = Secure(b"one", by_sender=True).apply(queue(MESSAGING))
    assert secured == queue(MESSAGING, key=b"one")
    assert Secure(b"one", by_sender=True).apply(secured) == secured
    assert Secure(b"one").apply(secured) == secured
    assert refuses(Secure(b"two", by_sender=True), secured)
    assert refuses(Secure(b"two"), secured)


@pytest.mark.parametrize("key", [None, b"one"])
@pytest.mark.parametrize("purpose", [CONTACT, OLD])
def test_the_sender_cannot_secure_a_queue_for_anything_else(
    purpose: Purpose | None, key: bytes | None
) -> None:
    """ACC-21: not even with the key that it has."""
    assert refuses(Secure(b"one", by_sender=True), queue(purpose, key=key))


# The recipient's keys.


def test_the_keys_of_a_contact_queue_are_replaced_all_together() -> None:
    """ACC-22..ACC-24: added, removed, and also the one that asks."""
    both = ChangeKeys((b"rcv", b"new")).apply(queue(CONTACT))
    assert both.keys == (b"rcv", b"new")
    assert ChangeKeys((b"new",)).apply(both).keys == (b"new",)
    assert ChangeKeys((b"rcv",)).apply(both) == queue(CONTACT)


@pytest.mark.parametrize("purpose", [MESSAGING, OLD])
def test_the_keys_of_other_queues_stay(purpose: Purpose | None) -> None:
    """ACC-22: only a queue for contacts has owners that come and go."""
    assert refuses(ChangeKeys((b"new",)), queue(purpose))
    assert refuses(ChangeKeys((b"rcv",)), queue(purpose))


# Reading a link.


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("key", [None, b"one"])
def test_a_link_that_is_not_there_cannot_be_read(
    purpose: Purpose | None, key: bytes | None
) -> None:
    """ACC-84: whoever asks is not told that it is the link that is missing."""
    assert refuses(ReadLink(key), queue(purpose))


def test_a_link_for_messaging_is_read_by_securing_the_queue() -> None:
    """ACC-83: LGET is refused before and after; LKEY secures, repeats, and refuses another key."""
    fresh = queue(MESSAGING, link=LINK)
    assert refuses(ReadLink(), fresh)
    secured = ReadLink(b"one").apply(fresh)
    assert secured == queue(MESSAGING, key=b"one", link=LINK)
    assert ReadLink(b"one").apply(secured) == secured
    assert refuses(ReadLink(b"two"), secured)
    assert refuses(ReadLink(), secured)


@pytest.mark.parametrize("key", [None, b"one"])
def test_a_link_for_contacts_is_read_by_everybody_and_secured_by_nobody(key: bytes | None) -> None:
    """ACC-84: reading changes nothing."""
    contact = queue(CONTACT, key=key, link=LINK)
    assert ReadLink().apply(contact) == contact
    assert refuses(ReadLink(b"one"), contact)


def test_a_link_of_an_old_queue_is_read_until_the_queue_is_secured() -> None:
    """Its purpose is not known: public while anybody may send, and never a way to secure it."""
    old = queue(OLD, link=LINK)
    assert ReadLink().apply(old) == old
    assert refuses(ReadLink(b"one"), old)
    assert refuses(ReadLink(), replace(old, sender_key=b"one"))


# Changing a link.


@pytest.mark.parametrize(
    ("purpose", "key", "allowed"),
    [
        (MESSAGING, None, True),
        (MESSAGING, b"one", False),
        (CONTACT, None, True),
        (CONTACT, b"one", True),
        (OLD, None, True),
        (OLD, b"one", False),
    ],
)
@pytest.mark.parametrize("had", [None, LINK])
def test_a_link_is_set_until_the_queue_is_secured_and_for_contacts_at_any_time(
    purpose: Purpose | None, key: bytes | None, allowed: bool, had: Link | None
) -> None:
    """ACC-83, ACC-84: whether or not there is one already."""
    before = queue(purpose, key=key, link=had)
    changed = replace(LINK, user=b"other")
    if allowed:
        assert SetLink(changed).apply(before) == replace(before, link=changed)
    else:
        assert refuses(SetLink(changed), before)
        assert refuses(SetLink(LINK), before)


def test_only_the_user_data_of_a_link_changes() -> None:
    """ACC-84: another id or other fixed data is refused, until the link is dropped."""
    linked = queue(CONTACT, link=LINK)
    other_id, other_data = replace(LINK, id=b"other"), replace(LINK, fixed=b"other")
    assert SetLink(replace(LINK, user=b"other")).apply(linked).link == Link(
        b"link", b"fixed", b"other"
    )
    assert refuses(SetLink(other_id), linked)
    assert refuses(SetLink(other_data), linked)
    assert SetLink(other_id).apply(DropLink().apply(linked)).link == other_id


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("key", [None, b"one"])
def test_dropping_a_link_works_whether_or_not_there_is_one(
    purpose: Purpose | None, key: bytes | None
) -> None:
    """ACC-83, ACC-84: LDEL twice."""
    bare = queue(purpose, key=key)
    assert DropLink().apply(replace(bare, link=LINK)) == bare
    assert DropLink().apply(bare) == bare


# The notifier, and suspending.


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_notifier_takes_the_place_of_another(purpose: Purpose | None) -> None:
    """ACC-74, ACC-78, ACC-79: NKEY replaces, NDEL always works."""
    other = Notifier(b"other", b"key", b"secret")
    watched = SetNotifier(NOTIFIER).apply(queue(purpose))
    assert watched.notifier == NOTIFIER
    assert SetNotifier(other).apply(watched) == queue(purpose, notifier=other)
    assert DropNotifier().apply(watched) == queue(purpose)
    assert DropNotifier().apply(queue(purpose)) == queue(purpose)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_suspending_is_done_once_and_forbids_no_other_change(purpose: Purpose | None) -> None:
    """ACC-26: OFF is idempotent."""
    off = Suspend().apply(queue(purpose))
    assert off == replace(queue(purpose), is_off=True)
    assert Suspend().apply(off) == off
    assert Secure(b"one").apply(off).is_off
    assert SetNotifier(NOTIFIER).apply(off).is_off


# Any history.

words = st.sampled_from([b"one", b"two"])
links = st.builds(Link, words, words, words)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(Secure, words, st.booleans()),
    st.builds(ReadLink, st.none() | words),
    st.builds(ChangeKeys, st.lists(words, min_size=1).map(tuple)),
    st.builds(SetLink, links),
    st.just(DropLink()),
    st.builds(SetNotifier, st.builds(Notifier, words, words, words)),
    st.just(DropNotifier()),
    st.just(Suspend()),
)


@given(st.sampled_from(PURPOSES), st.lists(changes, max_size=12))
def test_no_history_of_changes_breaks_what_is_fixed(
    purpose: Purpose | None, history: list[Change]
) -> None:
    """ACC-11, ACC-20, ACC-24, ACC-84: a sender's key stays once it is set; what a link is made of
    stays while it is there; ids, secret and purpose stay; the recipient always has a key; what is
    off stays off. A change that is applied can be applied again at once, and is then no change."""
    parties = queue(purpose)
    for change in history:
        try:
            after = change.apply(parties)
        except Unauthorised:
            continue
        assert change.apply(after) == after
        assert (after.sender, after.secret, after.purpose) == (b"sender", b"secret", purpose)
        assert parties.sender_key in (None, after.sender_key)
        if isinstance(change, ReadLink) and purpose is not Purpose.MESSAGING:
            assert after == parties
        if parties.link is not None and after.link is not None:
            assert (parties.link.id, parties.link.fixed) == (after.link.id, after.link.fixed)
        if purpose is not CONTACT:
            assert after.keys == (b"rcv",)
        assert after.keys
        assert after.is_off >= parties.is_off
        parties = after
