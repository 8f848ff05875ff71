"""Every row of the table of subscriptions, and what holds whatever happens to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.ids import QueueId
from headgate.core.model.tally import NOTHING, Tally
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.errors import LimitReached, Unauthorised
from headgate.notify import subscriptions as s
from headgate.notify.subscriptions import (
    ERROR_BYTES_MAX,
    SUBSCRIPTIONS_MAX,
    NotifierSubscription,
    accept,
    delete,
    dissociate,
    end,
    lose,
    mark_sent,
    refuse,
    retry_service,
    router_key,
    subscribe,
    tally_after,
)
from headgate.wire.ntf.replies import SubscriptionState, encode_reply
from headgate.wire.ntf.statuses import SubscriptionStatus
from headgate.wire.ntf.transmissions import NtfAnswer, encode_answer, pack_blocks, read_answers
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.ntf_examples import KEY_HASH, ROUTER, SNEW, SUBSCRIPTION, TOKEN
from tests.support.smp_examples import CORRELATION, NOTIFIER, SERVICE

NEW, PENDING, ACTIVE, INACTIVE, SERVICE_REFUSED = (
    SubscriptionStatus.NEW,
    SubscriptionStatus.PENDING,
    SubscriptionStatus.ACTIVE,
    SubscriptionStatus.INACTIVE,
    SubscriptionStatus.SERVICE,
)
WANTED = [NEW, PENDING, ACTIVE, INACTIVE]
NOT_WANTED = [status for status in SubscriptionStatus if status not in WANTED]


def in_status(status: SubscriptionStatus, is_associated: bool = False) -> NotifierSubscription:
    error = "SMP error QUOTA" if status is SubscriptionStatus.ERR else ""
    made = subscribe(None, SNEW, SUBSCRIPTION, 0)
    return replace(made, status=status, error=error, is_associated=is_associated)


def test_a_subscription_is_made() -> None:
    made = subscribe(None, SNEW, SUBSCRIPTION, SUBSCRIPTIONS_MAX - 1)
    assert (made.id, made.token, made.router) == (SUBSCRIPTION, TOKEN, ROUTER)
    assert (made.notifier, made.notifier_key) == (NOTIFIER, SNEW.notifier_key)
    assert (made.status, made.is_associated, made.is_wanted) == (NEW, False, True)


def test_a_token_has_so_many_subscriptions_and_no_more() -> None:
    with pytest.raises(LimitReached):
        subscribe(None, SNEW, SUBSCRIPTION, SUBSCRIPTIONS_MAX)
    made = in_status(ACTIVE)
    assert subscribe(made, SNEW, bytes(24), SUBSCRIPTIONS_MAX) is made


@pytest.mark.parametrize("status", WANTED)
def test_the_same_subscription_again_has_the_same_id(status: SubscriptionStatus) -> None:
    made = in_status(status)
    assert subscribe(made, SNEW, bytes(24), 1) is made


@pytest.mark.parametrize("status", NOT_WANTED)
def test_a_subscription_that_had_ended_is_tried_again_if_it_is_asked_for(
    status: SubscriptionStatus,
) -> None:
    again = subscribe(in_status(status), SNEW, bytes(24), 1)
    assert again == in_status(NEW)


@pytest.mark.parametrize("status", SubscriptionStatus)
def test_the_notifier_of_another_token_or_key_is_refused(status: SubscriptionStatus) -> None:
    other_key = encode_private(KeyKind.ED25519, bytes([7]) * 32)
    for request in (replace(SNEW, token=bytes(24)), replace(SNEW, notifier_key=other_key)):
        with pytest.raises(Unauthorised):
            subscribe(in_status(status), request, bytes(24), 1)


def test_the_address_is_kept_as_the_app_wrote_it_last() -> None:
    longer = RouterAddress(("relay.example", "relay.onion"), 5223, KEY_HASH)
    again = subscribe(in_status(ACTIVE), replace(SNEW, router=longer), bytes(24), 1)
    assert again == replace(in_status(ACTIVE), router=longer)


def test_a_router_is_one_however_its_other_hosts_are_written() -> None:
    key = router_key(ROUTER)
    assert key == ("relay.example", 5223, KEY_HASH)
    assert key == router_key(RouterAddress(("Relay.Example", "relay.onion"), None, KEY_HASH))
    assert key != router_key(RouterAddress(("relay.onion", "relay.example"), 5223, KEY_HASH))
    assert key != router_key(RouterAddress(("relay.example",), 443, KEY_HASH))
    assert key != router_key(RouterAddress(("relay.example",), 5223, bytes(32)))


@pytest.mark.parametrize("status", SubscriptionStatus)
def test_what_is_new_or_inactive_is_pending_when_it_is_sent(status: SubscriptionStatus) -> None:
    before = in_status(status)
    after = mark_sent(before)
    if status in (NEW, INACTIVE):
        assert after == in_status(PENDING)
    else:
        assert after is before


@pytest.mark.parametrize("status", WANTED)
@pytest.mark.parametrize("was_associated", [False, True])
@pytest.mark.parametrize(
    ("service", "ours", "is_associated"),
    [
        (None, None, False),
        (None, SERVICE, False),
        (SERVICE, SERVICE, True),
        (SERVICE, bytes(24), False),
        (SERVICE, None, False),
    ],
)
def test_an_accepted_subscription_is_active_and_associated_if_it_is_of_our_service(
    status: SubscriptionStatus,
    was_associated: bool,
    service: bytes | None,
    ours: bytes | None,
    is_associated: bool,
) -> None:
    after = accept(in_status(status, was_associated), service, ours)
    assert after == in_status(ACTIVE, is_associated)


@pytest.mark.parametrize("status", WANTED)
@pytest.mark.parametrize(
    ("error", "becomes", "text"),
    [
        ("AUTH", SubscriptionStatus.AUTH, ""),
        ("SERVICE", SubscriptionStatus.SERVICE, ""),
        ("PROXY BROKER NO_SERVICE", SubscriptionStatus.SERVICE, ""),
        ("QUOTA", SubscriptionStatus.ERR, "SMP error QUOTA"),
        ("CMD SYNTAX", SubscriptionStatus.ERR, "SMP error CMD SYNTAX"),
        ("BLOCKED reason=spam", SubscriptionStatus.ERR, "SMP error BLOCKED reason=spam"),
    ],
)
def test_a_subscription_that_is_refused_for_good_says_why(
    status: SubscriptionStatus, error: str, becomes: SubscriptionStatus, text: str
) -> None:
    after = refuse(in_status(status, True), error)
    assert (after.status, after.error, after.is_associated) == (becomes, text, False)
    assert after.state(False) == SubscriptionState(becomes, text)


@pytest.mark.parametrize("status", WANTED)
@pytest.mark.parametrize("error", ["STORE unavailable", "STORE", "INTERNAL"])
def test_a_temporary_error_changes_nothing(status: SubscriptionStatus, error: str) -> None:
    before = in_status(status)
    assert refuse(before, error) is before


@pytest.mark.parametrize("error", ["x" * 16_000, "ä" * 8_000, "\udcff" * 16_000])
def test_the_text_of_an_error_always_fits_into_a_block(error: str) -> None:
    after = refuse(in_status(PENDING), error)
    answer = NtfAnswer(CORRELATION, SUBSCRIPTION, after.state(False))
    [block] = pack_blocks([encode_answer(answer, 3)])
    assert read_answers(block) == [answer]
    assert len(encode_reply(answer.reply, 3)) == len("SUB ERR ") + ERROR_BYTES_MAX


@pytest.mark.parametrize("status", SubscriptionStatus)
def test_a_single_subscription_that_was_active_is_inactive_when_the_session_is_lost(
    status: SubscriptionStatus,
) -> None:
    before = in_status(status)
    after = lose(before)
    if status is ACTIVE:
        assert after == in_status(INACTIVE)
    else:
        assert after is before


def test_an_associated_subscription_is_as_active_as_its_service() -> None:
    before = in_status(ACTIVE, True)
    assert lose(before) is before
    assert before.state(True) == SubscriptionState(ACTIVE)
    assert before.state(False) == SubscriptionState(INACTIVE)
    assert in_status(ACTIVE).state(False) == SubscriptionState(ACTIVE)
    assert in_status(PENDING, True).state(True) == SubscriptionState(PENDING)


@pytest.mark.parametrize(
    ("event", "becomes"), [(end, SubscriptionStatus.END), (delete, SubscriptionStatus.DELETED)]
)
@pytest.mark.parametrize("status", WANTED)
def test_a_subscription_ends_with_its_queue_or_by_another_session(
    status: SubscriptionStatus,
    event: Callable[[NotifierSubscription], NotifierSubscription],
    becomes: SubscriptionStatus,
) -> None:
    assert event(in_status(status, True)) == in_status(becomes)


EVENTS: dict[str, Callable[[NotifierSubscription], NotifierSubscription]] = {
    "sent": mark_sent,
    "accepted": lambda each: accept(each, None, SERVICE),
    "associated": lambda each: accept(each, SERVICE, SERVICE),
    "AUTH": lambda each: refuse(each, "AUTH"),
    "SERVICE": lambda each: refuse(each, "SERVICE"),
    "QUOTA": lambda each: refuse(each, "QUOTA"),
    "STORE": lambda each: refuse(each, "STORE unavailable"),
    "lost": lose,
    "end": end,
    "deleted": delete,
    "service again": retry_service,
    "dissociated": dissociate,
    "asked again": lambda each: subscribe(each, SNEW, bytes(24), 1),
}


@pytest.mark.parametrize("status", NOT_WANTED)
@pytest.mark.parametrize("event", EVENTS)
def test_what_has_ended_is_changed_by_nothing_but_being_asked_for(
    status: SubscriptionStatus, event: str
) -> None:
    before = in_status(status)
    after = EVENTS[event](before)
    if event == "asked again":
        assert after.status is NEW
    elif event == "service again" and status is SERVICE_REFUSED:
        assert after == in_status(PENDING)
    else:
        assert after is before


def test_a_subscription_whose_service_is_gone_is_single() -> None:
    assert dissociate(in_status(ACTIVE, True)) == in_status(ACTIVE)
    before = in_status(ACTIVE)
    assert dissociate(before) is before


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=20))
def test_the_tally_of_a_router_equals_a_recount_after_every_change(events: list[str]) -> None:
    """And only wanted subscriptions are associated, so that none that ended is counted."""
    before = subscribe(None, SNEW, SUBSCRIPTION, 0)
    tally = tally_after(NOTHING, None, before)
    for event in events:
        after = EVENTS[event](before)
        tally = tally_after(tally, before, after)
        counted = [QueueId(after.notifier)] if after.is_associated and after.is_wanted else []
        assert tally == Tally.of(counted)
        assert after.is_wanted or not after.is_associated
        assert bool(after.error) == (after.status is SubscriptionStatus.ERR)
        assert (after.id, after.token, after.notifier) == (SUBSCRIPTION, TOKEN, NOTIFIER)
        before = after
    assert tally_after(tally, before, None) == NOTHING


def test_the_key_of_a_notifier_is_not_shown() -> None:
    assert "\\x06\\x06" not in repr(in_status(ACTIVE))


def test_wanted_are_four() -> None:
    assert sorted(status.name for status in s.WANTED) == sorted(status.name for status in WANTED)
