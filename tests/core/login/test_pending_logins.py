"""Who is at the door, and who makes room for whom."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.login.pending_logins import MOMENT_SECONDS, PendingLogins, network_of
from headgate.errors import LimitReached

LATER = MOMENT_SECONDS


def at_door(most: int, per_address: int, *addresses: str) -> PendingLogins[int]:
    """These came at once, numbered from 0."""
    strangers: PendingLogins[int] = PendingLogins(most, per_address)
    for number, address in enumerate(addresses):
        assert strangers.add(address, number, 0.0) is None
    return strangers


def test_an_address_with_its_share_makes_room_by_its_own_oldest_and_only_after_a_moment() -> None:
    strangers = at_door(10, 2, "a", "a", "b")
    with pytest.raises(LimitReached, match="handshakes_per_address of 2"):
        strangers.add("a", 9, LATER - 0.1)
    assert strangers.add("b", 8, LATER - 0.1) is None
    going = strangers.add("a", 9, LATER)
    assert going is not None
    assert going[0] == 0
    assert 0 not in strangers


def test_the_address_that_has_most_makes_room_for_one_that_has_less_at_once() -> None:
    strangers = at_door(4, 4, "a", "b", "b", "b")
    going = strangers.add("c", 9, 0.0)
    assert going is not None
    assert (going[0], going[1].name) == (1, "handshakes")
    assert len(strangers) == 4


def test_among_equals_who_came_last_goes_until_who_came_first_had_its_moment() -> None:
    strangers = at_door(2, 2, "a", "b")
    with pytest.raises(LimitReached, match="handshakes of 2"):
        strangers.add("c", 9, 0.0)
    going = strangers.add("c", 9, LATER)
    assert going is not None
    assert going[0] == 0


def test_who_is_known_or_gone_makes_room_and_may_go_twice() -> None:
    strangers = at_door(1, 1, "a")
    strangers.remove(0)
    strangers.remove(0)
    assert strangers.add("a", 1, 0.0) is None


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 3), st.booleans()), max_size=60),
)
def test_there_are_never_more_than_the_bounds_and_the_ranks_are_true(
    steps: list[tuple[str, float, bool]],
) -> None:
    strangers: PendingLogins[int] = PendingLogins(6, 3)
    now, here = 0.0, dict[int, str]()
    for number, (address, seconds, leaves) in enumerate(steps):
        now += seconds
        try:
            going = strangers.add(address, number, now)
        except LimitReached:
            continue
        here[number] = address
        if going is not None:
            del here[going[0]]
        if leaves and here:
            strangers.remove(first := next(iter(here)))
            del here[first]
        counts = {each: list(here.values()).count(each) for each in here.values()}
        assert len(strangers) == len(here) <= 6
        assert max(counts.values(), default=0) == strangers._top <= 3
        assert {a: n for n, group in strangers._ranks.items() for a in group} == counts


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2"),
        ("2001:db8::6", "2001:db8:0:0"),
        ("fe80::1%eth0", "fe80:0:0:0"),
        ("::1", "0:0:0:0"),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7"),
    ],
)
def test_what_counts_as_one_is_an_address_or_a_network_of_ipv6(host: str, network: str) -> None:
    assert network_of(host) == network
