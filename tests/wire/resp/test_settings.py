"""Values of settings as texts, and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.wire.resp.settings import (
    UNLIMITED,
    OutputLimit,
    Settings,
    events,
    limit,
    limit_text,
    memory,
    output_limits,
    output_limits_text,
    seconds,
    seconds_text,
    slow_policy,
    whole,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("100", 100),
        ("100b", 100),
        ("2k", 2000),
        ("2kb", 2048),
        ("3M", 3_000_000),
        ("3MB", 3 * 1024**2),
        ("1g", 10**9),
        ("1Gb", 1024**3),
    ],
)
def test_memory_has_units_as_in_redis(text: str, size: int) -> None:
    assert memory(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5mb", "1 mb", "1zb", "mb", "9" * 30, "1kk"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="argument must be a memory value"):
        memory(text)


def test_a_limit_of_nothing_is_no_limit() -> None:
    assert limit("0") == UNLIMITED
    assert limit_text(UNLIMITED) == "0"
    assert limit_text(limit("8mb")) == "8388608"


def test_numbers_are_whole_and_in_their_range() -> None:
    assert whole("7", 0, 10) == 7
    with pytest.raises(ValueError, match="couldn't be parsed into an integer"):
        whole("7.0", 0, 10)
    with pytest.raises(ValueError, match="must be between 0 and 10 inclusive"):
        whole("-1", 0, 10)


@pytest.mark.parametrize(
    ("text", "again"), [("0", "0"), ("1.5", "1.5"), ("60", "60"), ("100", "100")]
)
def test_seconds_may_have_a_fraction(text: str, again: str) -> None:
    assert seconds_text(seconds(text)) == again


@pytest.mark.parametrize("text", ["", "nan", "inf", "-1", "1e9", "1_0"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="seconds"):
        seconds(text)


def test_policies_are_known_by_name() -> None:
    assert slow_policy("Drop-Oldest") == "drop-oldest"
    with pytest.raises(ValueError, match="one of the following: wait, close, drop-oldest"):
        slow_policy("never")


@pytest.mark.parametrize("text", ["Ex", "xE", "ex", "EX", "Xe"])
def test_expired_keys_are_the_only_events(text: str) -> None:
    """RESP-70, S002-77."""
    assert events(text) == "xE"
    assert Settings(notify_keyspace_events=events(text)).notifies_expired


@pytest.mark.parametrize("text", ["E", "x", "KEA", "Kx", "nonsense", "Exg", " "])
def test_other_events_are_refused(text: str) -> None:
    """RESP-70, S002-77."""
    with pytest.raises(ValueError, match="Ex"):
        events(text)


def test_no_events_is_a_value_too() -> None:
    """S002-77."""
    assert events("") == ""
    assert not Settings(notify_keyspace_events="").notifies_expired


def test_output_limits_are_by_class() -> None:
    assert output_limits("pubsub 32mb 8mb 60 Replica 1 2 3") == {
        "pubsub": OutputLimit(32 * 1024**2, 8 * 1024**2, 60),
        "slave": OutputLimit(1, 2, 3),
    }
    assert output_limits("") == {}
    assert output_limits("pubsub 1 1 1 pubsub 2 2 2") == {"pubsub": OutputLimit(2, 2, 2)}


def test_output_limits_are_written_back() -> None:
    limits = {"normal": OutputLimit(0, 0, 0), "pubsub": OutputLimit(2048, 1024, 60)}
    text = output_limits_text(limits)
    assert text == "normal 0 0 0 pubsub 2048 1024 60"
    assert output_limits(text) == limits


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pubsub 1 2", "Wrong number of arguments"),
        ("master 1 2 3", "Invalid client class"),
        ("pubsub x 2 3", "Error in hard, soft or soft_seconds"),
        ("pubsub 1 2 -3", "Error in hard, soft or soft_seconds"),
    ],
)
def test_wrong_output_limits_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        output_limits(text)


@pytest.mark.parametrize("parse", [memory, seconds, slow_policy])
def test_bytes_that_are_no_text_are_refused_and_not_more(parse: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match="argument"):
        parse(b"\xff\x00".decode(errors="surrogateescape"))
