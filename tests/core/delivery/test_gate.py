"""A window of one, of many, of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.delivery.gate import Gate
from headgate.core.model.window import Window


def gate(messages: int, bytes: int | None = None) -> Gate[str]:
    return Gate(Window(messages, bytes))


def fill(some: Gate[str], count: int, size: int = 1) -> None:
    for n in range(count):
        some.admit(f"m{n}", size, now=0.0)


def test_a_gate_of_one_is_shut_until_its_message_is_confirmed() -> None:
    """S000-28."""
    one: Gate[str] = Gate(Window(1))
    one.admit("m1", 10, now=0.0)
    assert not one.is_open
    assert not one.confirm("m2")
    assert not one.is_open
    assert one.confirm("m1")
    assert one.is_open
    assert not one.confirm("m1")


def test_the_gate_remembers_what_is_in_flight_and_since_when() -> None:
    """S000-29."""
    some = gate(3)
    some.admit("m1", 10, now=5.0)
    some.admit("m2", 10, now=7.0)
    assert some.outstanding == {"m1": (10, 5.0), "m2": (10, 7.0)}
    some.confirm("m1")
    assert some.outstanding == {"m2": (10, 7.0)}
    some.confirm("m2")
    assert some.outstanding == {}


def test_a_window_of_ten_resumes_at_eight() -> None:
    """BMQ-44."""
    some = gate(10)
    fill(some, 10)
    assert not some.is_open
    some.confirm("m0")
    assert not some.is_open
    some.confirm("m1")
    assert some.is_open


def test_windows_of_up_to_three_resume_after_one_confirm() -> None:
    for messages in (1, 2, 3):
        some = gate(messages)
        fill(some, messages)
        assert not some.is_open
        some.confirm("m0")
        assert some.is_open


def test_a_message_larger_than_the_window_passes_an_idle_gate() -> None:
    """BMQ-45."""
    some = gate(10, bytes=100)
    some.admit("huge", 1000, now=0.0)
    assert not some.is_open
    some.confirm("huge")
    assert some.is_open


def test_bytes_shut_the_gate_until_four_fifths_are_left() -> None:
    """BMQ-45."""
    some = gate(1000, bytes=100)
    fill(some, 10, size=10)
    assert not some.is_open
    some.confirm("m0")
    assert not some.is_open
    some.confirm("m1")
    assert some.is_open


def test_a_window_of_nothing_is_paused_and_stays_so() -> None:
    """BMQ-46."""
    for window in (Window(0), Window(10, 0)):
        some: Gate[str] = Gate(Window(2))
        some.admit("m1", 1, now=0.0)
        some.resize(window)
        assert not some.is_open
        some.confirm("m1")
        assert not some.is_open
        some.resize(Window(1))
        assert some.is_open


def test_a_resized_window_counts_what_is_outstanding_at_once() -> None:
    """BMQ-47."""
    some = gate(2)
    fill(some, 2)
    some.resize(Window(3))
    assert some.is_open
    some.resize(Window(1))
    assert not some.is_open


@given(
    st.integers(1, 6),
    st.one_of(st.none(), st.integers(1, 40)),
    st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 20)), max_size=60),
)
def test_the_window_is_exceeded_by_no_message_and_the_bytes_by_at_most_one(
    messages: int, size_max: int | None, steps: list[tuple[bool, int, int]]
) -> None:
    some = gate(messages, size_max)
    inside: dict[str, int] = {}
    for admits, number, size in steps:
        name = f"m{number}"
        if admits and some.is_open and name not in inside:
            assert size_max is None or sum(inside.values()) < size_max
            some.admit(name, size, now=0.0)
            inside[name] = size
        elif not admits:
            assert some.confirm(name) == (name in inside)
            inside.pop(name, None)
        assert len(inside) <= messages
        assert some.size == sum(inside.values())
    for name in list(inside):
        some.confirm(name)
    assert some.is_open


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_admitting_and_confirming_can_be_taken_back(steps: list[tuple[bool, int]]) -> None:
    some = gate(3, 25)
    history = []
    for admits, number in steps:
        state = (dict(some.outstanding), some.size, some.full)
        name = f"m{number}"
        was_full = some.full
        if admits and some.is_open and name not in some.outstanding:
            some.admit(name, 10, now=1.0)
            some.unadmit(name, was_full)
            assert (dict(some.outstanding), some.size, some.full) == state
            some.admit(name, 10, now=1.0)
        elif not admits and name in some.outstanding:
            delivery = some.outstanding[name]
            some.confirm(name)
            some.unconfirm(name, delivery, was_full)
            assert (dict(some.outstanding), some.size, some.full) == state
            some.confirm(name)
        history.append(state)
