"""Every row of the table of tokens, and what holds whatever happens to one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.box import shared_key
from headgate.crypto.hsalsa20 import hsalsa20
from headgate.crypto.keys import X25519
from headgate.errors import Prohibited, TooFrequent, Unauthorised
from headgate.notify.tokens import (
    Token,
    check_may_subscribe,
    check_provider,
    confirm,
    invalidate,
    is_check_due,
    mark_checked,
    register,
    replace_device,
    set_interval,
    superseded,
    use,
    verify,
)
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus
from tests.support.ntf_examples import CODE, TEST_DEVICE, TNEW, TOKEN, WEB_DEVICE
from tests.support.ntf_tokens import DAY, FRESH, OTHER, token_in
from tests.support.smp_examples import NOTIFIER_DH, NOTIFIER_KEY, RECIPIENT_DH, ROUTER_DH

NEW, REGISTERED, CONFIRMED, ACTIVE, INVALID, EXPIRED = (
    TokenStatus.NEW,
    TokenStatus.REGISTERED,
    TokenStatus.CONFIRMED,
    TokenStatus.ACTIVE,
    TokenStatus.INVALID,
    TokenStatus.EXPIRED,
)
ALIVE = [REGISTERED, CONFIRMED, ACTIVE]
LOW_ORDER = X25519 + bytes(32)


def test_a_device_is_registered() -> None:
    token = register(None, TNEW, FRESH, DAY)
    assert (token.id, token.device, token.verify_key) == (TOKEN, TEST_DEVICE, TNEW.verify_key)
    assert (token.code, token.status, token.reason, token.used_day) == (CODE, REGISTERED, None, DAY)
    assert token.public_key == ROUTER_DH
    assert not token.takes_messages


def test_the_secret_of_a_token_is_that_of_the_examples() -> None:
    secret = "3c528e9fd39731b15d10de8feb5f71d3f65b73c993581dedb03315a9ed177730"
    token = register(None, TNEW, FRESH, DAY)
    assert token.key == hsalsa20(bytes.fromhex(secret))
    # The app gets the same of its own key and the one that it was answered with.
    assert token.key == shared_key(bytes([0x33]) * 32, token.public_key[12:])


@pytest.mark.parametrize("status", ALIVE)
def test_a_repeated_registration_changes_nothing(status: TokenStatus) -> None:
    token = token_in(status)
    assert register(token, TNEW, OTHER, DAY) is token


@pytest.mark.parametrize("status", [NEW, INVALID, EXPIRED])
def test_a_repeated_registration_revives(status: TokenStatus) -> None:
    token = token_in(status)
    again = register(token, TNEW, OTHER, DAY)
    assert again == replace(token, status=REGISTERED, reason=None)
    assert (again.id, again.public_key, again.code) == (TOKEN, ROUTER_DH, CODE)


@pytest.mark.parametrize("status", TokenStatus)
@pytest.mark.parametrize("dh", [NOTIFIER_DH, LOW_ORDER])
def test_a_registration_with_another_key_to_seal_with_is_refused(
    status: TokenStatus, dh: bytes
) -> None:
    with pytest.raises(Unauthorised):
        register(token_in(status), replace(TNEW, dh=dh), OTHER, DAY)


def test_a_key_that_gives_everybody_the_same_secret_is_refused() -> None:
    with pytest.raises(Unauthorised):
        register(None, replace(TNEW, dh=LOW_ORDER), FRESH, DAY)


def test_another_key_for_one_device_is_a_second_token_until_one_is_verified() -> None:
    first = register(None, TNEW, FRESH, DAY)
    second = register(None, replace(TNEW, verify_key=NOTIFIER_KEY), OTHER, DAY)
    elsewhere = replace(first, id=bytes([1] * 24), device=WEB_DEVICE)
    assert first.id != second.id
    assert superseded(verify(second, OTHER.code), [first, second, elsewhere]) == [first]
    assert superseded(verify(first, CODE), [first, elsewhere]) == []


@pytest.mark.parametrize("status", TokenStatus)
def test_only_a_registered_token_is_confirmed_by_its_provider(status: TokenStatus) -> None:
    token = token_in(status)
    confirmed = confirm(token, CODE)
    if status is REGISTERED:
        assert confirmed == replace(token, status=CONFIRMED)
    else:
        assert confirmed is token


def test_a_code_of_before_the_device_was_replaced_confirms_nothing() -> None:
    token = replace_device(token_in(ACTIVE), WEB_DEVICE, False, bytes(32))
    assert confirm(token, CODE) is token


@pytest.mark.parametrize("status", ALIVE)
def test_the_right_code_verifies_and_may_be_shown_again(status: TokenStatus) -> None:
    token = verify(token_in(status), CODE)
    assert token == replace(token_in(status), status=ACTIVE)
    assert token.takes_messages
    assert verify(token, CODE) is token


@pytest.mark.parametrize("status", TokenStatus)
@pytest.mark.parametrize("code", [b"", bytes(32), CODE[:-1], CODE + b"x"])
def test_a_wrong_code_is_refused(status: TokenStatus, code: bytes) -> None:
    with pytest.raises(Unauthorised):
        verify(token_in(status), code)


@pytest.mark.parametrize("status", [NEW, INVALID, EXPIRED])
def test_the_right_code_of_a_dead_token_is_refused(status: TokenStatus) -> None:
    with pytest.raises(Unauthorised):
        verify(token_in(status), CODE)


@pytest.mark.parametrize("status", TokenStatus)
def test_another_device_needs_another_code(status: TokenStatus) -> None:
    token = token_in(status)
    replaced = replace_device(token, WEB_DEVICE, False, bytes(32))
    assert replaced == replace(
        token, device=WEB_DEVICE, code=bytes(32), status=REGISTERED, reason=None
    )
    assert (replaced.id, replaced.key) == (token.id, token.key)
    with pytest.raises(Unauthorised):
        verify(replaced, CODE)


@pytest.mark.parametrize("status", [REGISTERED, CONFIRMED])
def test_a_repeated_replacement_keeps_the_code(status: TokenStatus) -> None:
    once = replace(replace_device(token_in(ACTIVE), WEB_DEVICE, False, CODE), status=status)
    again = replace_device(once, WEB_DEVICE, False, bytes(32))
    assert (again.code, again.status) == (CODE, REGISTERED)


def test_a_device_of_another_token_of_the_same_app_is_refused() -> None:
    with pytest.raises(Unauthorised):
        replace_device(token_in(ACTIVE), WEB_DEVICE, True, bytes(32))


@pytest.mark.parametrize("status", TokenStatus)
@pytest.mark.parametrize("reason", InvalidReason)
def test_a_dead_device_invalidates_with_its_reason(
    status: TokenStatus, reason: InvalidReason
) -> None:
    token = invalidate(token_in(status), TEST_DEVICE, reason)
    assert (token.status, token.reason, token.takes_messages) == (INVALID, reason, False)
    assert invalidate(token, TEST_DEVICE, reason) is token


def test_the_death_of_a_device_that_was_replaced_is_of_no_matter() -> None:
    token = replace_device(token_in(ACTIVE), WEB_DEVICE, False, bytes(32))
    assert invalidate(token, TEST_DEVICE, InvalidReason.BAD) is token


@pytest.mark.parametrize("status", TokenStatus)
def test_subscriptions_need_a_token_that_is_or_was_verified(status: TokenStatus) -> None:
    if status in (ACTIVE, INVALID, EXPIRED):
        check_may_subscribe(token_in(status))
    else:
        with pytest.raises(Unauthorised):
            check_may_subscribe(token_in(status))


@pytest.mark.parametrize("minutes", [1, 19])
def test_periodic_pushes_are_not_more_frequent_than_every_20_minutes(minutes: int) -> None:
    with pytest.raises(TooFrequent):
        set_interval(token_in(ACTIVE), minutes)


@pytest.mark.parametrize("minutes", [20, 65535])
def test_periodic_pushes_are_switched_on_and_off(minutes: int) -> None:
    token = set_interval(token_in(ACTIVE), minutes)
    assert token.interval_minutes == minutes
    assert set_interval(token, minutes) is token
    assert set_interval(token, 0) == token_in(ACTIVE)


def test_the_first_periodic_push_is_due_at_once_and_the_next_after_the_interval() -> None:
    token = set_interval(token_in(ACTIVE), 20)
    assert is_check_due(token, 1_000_000)
    token = mark_checked(token, 1_000_000)
    assert not is_check_due(token, 1_000_000 + 1199)
    assert is_check_due(token, 1_000_000 + 1200)


@pytest.mark.parametrize("status", TokenStatus)
def test_only_an_active_token_with_an_interval_gets_periodic_pushes(status: TokenStatus) -> None:
    token = token_in(status)
    assert not is_check_due(token, 10**9)
    assert is_check_due(set_interval(token, 20), 10**9) is (status is ACTIVE)


def test_the_day_of_use_is_written_when_it_changes() -> None:
    token = token_in(ACTIVE)
    assert use(token, DAY) is token
    assert use(token, DAY + 1) == replace(token, used_day=DAY + 1)
    assert register(token, TNEW, OTHER, DAY + 1).used_day == DAY + 1


def test_a_provider_has_to_be_enabled() -> None:
    check_provider(TEST_DEVICE, {Provider.APNS_TEST})
    with pytest.raises(Prohibited):
        check_provider(TEST_DEVICE, {Provider.APNS, Provider.NULL, Provider.WEB_PUSH})


def test_secrets_are_not_shown() -> None:
    token = token_in(ACTIVE)
    for shown in (repr(token), str(token), repr(FRESH)):
        for secret in (token.private, token.key, token.code, b"abcd"):
            assert repr(secret)[2:-1] not in shown


RANK = {NEW: 0, EXPIRED: 0, INVALID: 0, REGISTERED: 1, CONFIRMED: 2, ACTIVE: 3}
EVENTS = ["register", "confirm", "verify", "wrong code", "dead", "interval", "other key"]


def happen(token: Token, event: str) -> Token:
    try:
        match event:
            case "register":
                return register(token, TNEW, OTHER, DAY)
            case "other key":
                return register(token, replace(TNEW, dh=NOTIFIER_DH), OTHER, DAY)
            case "confirm":
                return confirm(token, CODE)
            case "verify":
                return verify(token, CODE)
            case "wrong code":
                return verify(token, bytes(32))
            case "dead":
                return invalidate(token, TEST_DEVICE, InvalidReason.EXPIRED)
            case _:
                return set_interval(token, 20)
    except Unauthorised:
        return token


@given(st.sampled_from(TokenStatus), st.lists(st.sampled_from(EVENTS), max_size=12))
def test_whatever_happens_to_a_token_it_stays_the_same_one(
    status: TokenStatus, events: list[str]
) -> None:
    """Id, keys and code of a device never change; only its death lowers a token, and only a right
    code makes it active."""
    before = first = token_in(status)
    for event in events:
        after = happen(before, event)
        assert (after.id, after.private, after.key, after.code) == (
            first.id,
            first.private,
            first.key,
            first.code,
        )
        assert (after.reason is None) or after.status is INVALID
        if event != "dead":
            assert RANK[after.status] >= RANK[before.status]
        if after.status is ACTIVE and before.status is not ACTIVE:
            assert event == "verify"
        before = after


@given(st.sampled_from(TokenStatus), st.integers(1, 4))
def test_a_repeated_registration_gives_the_same_answer_each_time(
    status: TokenStatus, times: int
) -> None:
    token = register(token_in(status), TNEW, OTHER, DAY)
    for _ in range(times):
        assert register(token, TNEW, OTHER, DAY) is token
    assert (token.id, token.public_key, token.code) == (TOKEN, ROUTER_DH, CODE)
    assert TNEW.dh == RECIPIENT_DH
