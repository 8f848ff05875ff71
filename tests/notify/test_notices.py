"""Notices: to whom they go, which are kept, and when a push of them is due."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.notify.notices import (
    PAUSE_SECONDS,
    KeptNotice,
    NoticeFate,
    WaitingPushes,
    fate_of,
    keep,
)
from headgate.notify.subscriptions import subscribe
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus
from tests.support.ntf_examples import METADATA, NONCE, SNEW, SUBSCRIPTION
from tests.support.ntf_tokens import token_in
from tests.support.smp_examples import SECONDS

MADE = subscribe(None, SNEW, SUBSCRIPTION, 0)


@pytest.mark.parametrize("status", TokenStatus)
def test_a_notice_is_pushed_to_an_active_token_only(status: TokenStatus) -> None:
    fate = NoticeFate.PUSHED if status is TokenStatus.ACTIVE else NoticeFate.INACTIVE
    assert fate_of(MADE, token_in(status)) is fate


@pytest.mark.parametrize("status", SubscriptionStatus)
def test_a_notice_that_came_is_pushed_whatever_the_subscription(
    status: SubscriptionStatus,
) -> None:
    subscription = replace(MADE, status=status)
    assert fate_of(subscription, token_in(TokenStatus.ACTIVE)) is NoticeFate.PUSHED


def test_a_notice_that_nobody_wants_is_dropped() -> None:
    assert fate_of(None, None) is fate_of(MADE, None) is NoticeFate.NO_TOKEN


def notice(subscription: int, seconds: int = 0) -> KeptNotice:
    return KeptNotice(bytes([subscription]) * 24, SECONDS + seconds, NONCE, METADATA)


def test_the_last_notice_of_each_subscription_is_kept_in_order() -> None:
    kept: list[KeptNotice] = []
    for seconds, subscription in enumerate([1, 2, 1, 3, 2]):
        kept = keep(kept, notice(subscription, seconds))
    assert kept == [notice(1, 2), notice(3, 3), notice(2, 4)]


def test_the_six_newest_are_kept() -> None:
    kept: list[KeptNotice] = []
    for subscription in range(8):
        kept = keep(kept, notice(subscription))
    assert kept == [notice(subscription) for subscription in range(2, 8)]


@given(st.lists(st.integers(0, 9), max_size=40))
def test_whatever_comes_the_newest_is_kept_and_is_the_last(subscriptions: list[int]) -> None:
    kept: list[KeptNotice] = []
    for seconds, subscription in enumerate(subscriptions):
        kept = keep(kept, notice(subscription, seconds))
        assert kept[-1] == notice(subscription, seconds)
        assert len({each.subscription for each in kept}) == len(kept) <= 6
    newest = {subscription: seconds for seconds, subscription in enumerate(subscriptions)}
    expected = sorted(newest.items(), key=lambda item: item[1])[-6:]
    assert kept == [notice(*each) for each in expected]


A, B, C = b"a", b"b", b"c"


def test_a_token_that_waits_waits_once_and_pushes_leave_in_order() -> None:
    waiting = WaitingPushes(10)
    assert [waiting.add(token, 0.0) for token in (A, B, A, A, C)] == [True] * 5
    assert (len(waiting), waiting.next_at) == (3, 0.0)
    assert [waiting.take(0.0) for _ in range(4)] == [A, B, C, None]
    assert (len(waiting), waiting.next_at) == (0, None)


def test_a_token_is_pushed_to_once_a_second_and_holds_nobody_up() -> None:
    waiting = WaitingPushes(10)
    waiting.add(A, 0.0)
    assert waiting.take(0.25) == A
    assert waiting.add(A, 0.5)
    waiting.add(B, 0.75)
    assert waiting.take(0.75) == B
    assert waiting.next_at == 1.25
    assert waiting.take(1.0) is None
    assert waiting.take(1.25) == A


def test_after_a_pause_a_push_leaves_at_once() -> None:
    waiting = WaitingPushes(10)
    waiting.add(A, 0.0)
    assert waiting.take(0.0) == A
    waiting.add(A, PAUSE_SECONDS)
    assert waiting.take(PAUSE_SECONDS) == A


def test_so_many_wait_and_no_more() -> None:
    waiting = WaitingPushes(2)
    assert [waiting.add(token, 0.0) for token in (A, B, C)] == [True, True, False]
    assert waiting.add(A, 0.0)
    assert waiting.take(0.0) == A
    assert waiting.add(C, 0.0)
    assert [waiting.take(0.0) for _ in range(3)] == [B, C, None]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "take"]), st.integers(0, 4), st.sampled_from([0, 0.25, 0.5, 1])
    ),
    max_size=60,
)


@given(STEPS)
def test_every_token_that_waits_is_pushed_to_and_none_too_often(
    steps: list[tuple[str, int, float]],
) -> None:
    waiting, now = WaitingPushes(4), 0.0
    expected: set[bytes] = set()
    sent: dict[bytes, float] = {}

    def take() -> bytes | None:
        token = waiting.take(now)
        if token is not None:
            assert token in expected
            assert now - sent.get(token, -PAUSE_SECONDS) >= PAUSE_SECONDS
            expected.remove(token)
            sent[token] = now
        return token

    for verb, number, passed in steps:
        now += passed
        if verb == "add":
            if waiting.add(bytes([number]), now):
                expected.add(bytes([number]))
            else:
                assert len(expected) == 4
        else:
            take()
        assert len(waiting) == len(expected)
    while waiting.next_at is not None:
        now = max(now, waiting.next_at)
        assert take() is not None
    assert not expected
