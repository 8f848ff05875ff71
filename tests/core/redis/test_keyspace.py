"""Keys: what lives, what dies, and who is told."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.limits import Limits
from headgate.core.redis.keyspace import ALARMS_SLACK, SCAN_BYTES, SCAN_KEYS, Keyspace, milliseconds
from headgate.errors import LimitReached

NOW = 1_700_000_000.0


def at(seconds: float) -> int:
    """The deadline so many seconds after the start."""
    return milliseconds(NOW + seconds)


def test_a_value_is_what_was_written_last() -> None:
    keys = Keyspace(Limits())
    assert keys.get(0, b"k", NOW) is None
    keys.set(0, b"k", b"1", NOW)
    keys.set(0, b"k", b"2", NOW)
    assert keys.get(0, b"k", NOW) == b"2"
    assert keys.get(1, b"k", NOW) is None, "another database has other keys"


def test_a_key_dies_at_its_deadline_and_not_before() -> None:
    """RESP-67."""
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, at(10))
    assert keys.get(0, b"k", NOW + 9.999) == b"v"
    assert keys.get(0, b"k", NOW + 10) is None


def test_a_sweep_finds_the_dead_that_nobody_touched() -> None:
    """Those of one sweep are told together, each with its database."""
    keys = Keyspace(Limits())
    keys.set(0, b"late", b"v", NOW, at(10))
    keys.set(3, b"early", b"v", NOW, at(1))
    keys.set(0, b"for ever", b"v", NOW)
    assert keys.sweep(NOW) == 0
    assert keys.sweep(NOW + 11) == 2
    assert keys.take_expired() == [(3, b"early"), (0, b"late")]
    assert keys.take_expired() == []
    assert keys.size(0) == 1


def test_a_death_is_recorded_once_whoever_notices_it_first() -> None:
    """RESP-67."""
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, at(1))
    later = NOW + 2
    assert keys.get(0, b"k", later) is None
    assert not keys.has(0, b"k", later)
    assert keys.sweep(later) == 0
    assert keys.take_expired() == [(0, b"k")]


@pytest.mark.parametrize("way", ["delete", "overwrite", "persist", "expire", "flush", "rename"])
def test_only_time_makes_an_expired_key(way: str) -> None:
    """RESP-69: whatever else ends a key or its deadline is no such death."""
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, at(1))
    match way:
        case "delete":
            assert keys.delete(0, b"k", NOW)
        case "overwrite":
            keys.set(0, b"k", b"w", NOW)
        case "persist":
            assert keys.expire(0, b"k", None, NOW)
        case "expire":
            assert keys.expire(0, b"k", at(-1), NOW), "deleted at once"
        case "flush":
            keys.flush(0)
        case "rename":
            keys.expire(0, b"k", None, NOW)
            keys.rename(0, b"k", b"name", NOW)
    assert keys.sweep(NOW + 2) == 0
    assert keys.take_expired() == []


def test_a_key_written_with_a_deadline_that_is_over_dies_by_time() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, 1)
    assert keys.sweep(NOW) == 1
    assert keys.take_expired() == [(0, b"k")]


def test_a_dead_key_that_is_written_anew_died_before() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, at(1))
    keys.set(0, b"k", b"w", NOW + 2)
    assert keys.take_expired() == [(0, b"k")]
    assert keys.get(0, b"k", NOW + 2) == b"w"


def test_a_dead_key_cannot_be_deleted_changed_or_given_a_deadline() -> None:
    keys = Keyspace(Limits())
    for key in (b"a", b"b", b"c"):
        keys.set(0, key, b"v", NOW, at(1))
    later = NOW + 1
    assert not keys.delete(0, b"a", later)
    assert not keys.expire(0, b"b", at(10), later)
    keys.change(0, b"c", b"w", later)
    assert keys.deadline(0, b"c", later) is None
    assert keys.take_expired() == [(0, b"a"), (0, b"b"), (0, b"c")]


def test_changing_a_value_keeps_the_deadline_and_setting_it_does_not() -> None:
    """RESP-65."""
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, at(1))
    keys.change(0, b"k", b"w", NOW)
    assert (keys.get(0, b"k", NOW), keys.deadline(0, b"k", NOW)) == (b"w", at(1))
    keys.set(0, b"k", b"x", NOW)
    assert keys.deadline(0, b"k", NOW) is None


@pytest.mark.parametrize(("moves", "dies"), [([1, 5], 5), ([5, 1], 1), ([1, 5, 3], 3)])
def test_a_deadline_may_move_either_way(moves: list[int], dies: int) -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW)
    for seconds in moves:
        assert keys.expire(0, b"k", at(seconds), NOW)
    assert keys.sweep(NOW + dies - 0.001) == 0
    assert keys.sweep(NOW + dies) == 1


def test_a_deadline_that_moved_on_while_its_alarm_went_off_still_comes() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, at(1))
    keys.expire(0, b"k", at(5), NOW)
    assert keys.sweep(NOW + 2) == 0
    keys.expire(0, b"k", at(3), NOW)
    assert keys.sweep(NOW + 3) == 1
    assert keys.sweep(NOW + 9) == 0


def test_one_sweep_handles_no_more_than_its_share() -> None:
    keys = Keyspace(Limits(key_expiries=3))
    for number in range(4):
        keys.set(0, b"%d" % number, b"", NOW, at(1))
    assert [keys.sweep(NOW + 1) for _ in range(3)] == [3, 1, 0]
    assert len(keys.take_expired()) == 4


def test_it_is_known_whether_a_sweep_left_something() -> None:
    keys = Keyspace(Limits(key_expiries=3))
    for number in range(4):
        keys.set(0, b"%d" % number, b"", NOW, at(1))
    assert not keys.is_behind(NOW)
    assert keys.is_behind(NOW + 1)
    keys.sweep(NOW + 1)
    assert keys.is_behind(NOW + 1)
    keys.sweep(NOW + 1)
    assert not keys.is_behind(NOW + 1)


def test_what_is_flushed_is_gone_at_once_and_cleared_away_by_sweeps() -> None:
    """The limits keys and keys_bytes count it until then."""
    keys = Keyspace(Limits(keys=10, keys_bytes=100, key_expiries=4))
    for number in range(9):
        keys.set(0, b"%d" % number, b"123456789", NOW, at(1))
    keys.flush(0)
    assert (keys.count, keys.bytes, keys.size(0), keys.sizes()) == (0, 0, 0, [])
    assert keys.names(0, NOW) == []
    keys.set(0, b"0", b"12345", NOW, at(9))
    with pytest.raises(LimitReached, match="keys of 10"):
        keys.set(0, b"1", b"", NOW)
    with pytest.raises(LimitReached, match="keys_bytes of 100"):
        keys.change(0, b"0", b"12345678901", NOW)
    sweeps = 0
    while keys.is_behind(NOW + 1):
        keys.sweep(NOW + 1)
        sweeps += 1
    assert sweeps <= 5
    assert keys.take_expired() == []
    assert keys.get(0, b"0", NOW + 1) == b"12345"
    keys.set(0, b"1", b"x" * 90, NOW)
    assert keys.sweep(NOW + 9) == 1


def test_a_value_grows_at_its_end_without_being_copied() -> None:
    """The limit bulk_bytes, at and one above."""
    keys = Keyspace(Limits(bulk_bytes=10))
    assert keys.append(0, b"k", b"123", NOW) == 3
    assert keys.append(0, b"k", b"45", NOW) == 5
    value = keys._items[0][b"k"].value
    stamp = keys.stamp(0, b"k")
    assert keys.append(0, b"k", b"67890", NOW) == 10
    assert keys._items[0][b"k"].value is value
    assert keys.stamp(0, b"k") != stamp
    with pytest.raises(LimitReached, match="bulk_bytes of 10"):
        keys.append(0, b"k", b"1", NOW)
    got = keys.get(0, b"k", NOW)
    assert got == b"1234567890"
    assert type(got) is bytes
    assert (keys.bytes, keys.length(0, b"k"), keys.length(0, b"none")) == (11, 10, 0)
    keys.rename(0, b"k", b"name", NOW)
    assert keys.get(0, b"name", NOW) == b"1234567890"
    keys.set(0, b"name", b"", NOW)
    assert keys.bytes == 4


def test_a_step_of_a_scan_is_bounded_by_keys_and_by_bytes() -> None:
    keys = Keyspace(Limits())
    for number in range(SCAN_KEYS + 1):
        keys.set(0, b"%d" % number, b"", NOW)
        keys.set(1, b"%d" % number + b"x" * 8000, b"", NOW)
    cursor, names = keys.scan(0, 0, 10**9, NOW)
    assert (cursor, len(names)) == (1, SCAN_KEYS)
    cursor, names = keys.scan(1, 0, 10**9, NOW)
    assert len(names) == SCAN_BYTES // 8000 + 1
    assert cursor == SCAN_KEYS + 1 - len(names)


def test_a_sweep_with_as_many_as_its_share_leaves_none() -> None:
    keys = Keyspace(Limits(key_expiries=3))
    for number in range(3):
        keys.set(0, b"%d" % number, b"", NOW, at(1))
    assert [keys.sweep(NOW + 1) for _ in range(2)] == [3, 0]


def test_alarms_of_keys_that_are_gone_do_not_pile_up_and_hold_no_values() -> None:
    keys = Keyspace(Limits())
    value = bytes(1000)
    references = sys.getrefcount(value)
    for number in range(5 * ALARMS_SLACK):
        keys.set(0, b"k%d" % number, value, NOW, at(1000 + number))
        keys.delete(0, b"k%d" % number, NOW)
    assert len(keys._alarms) <= ALARMS_SLACK + 1
    assert sys.getrefcount(value) == references
    assert (keys.count, keys.bytes) == (0, 0)


def test_a_deadline_that_is_put_off_again_and_again_costs_one_alarm() -> None:
    keys = Keyspace(Limits())
    for number in range(1000):
        keys.set(0, b"k", b"v", NOW, at(60 + number))
    assert len(keys._alarms) == 1


def test_keys_up_to_the_limit_and_not_one_more() -> None:
    keys = Keyspace(Limits(keys=2))
    keys.set(0, b"a", b"", NOW)
    keys.set(1, b"a", b"", NOW)
    with pytest.raises(LimitReached, match="limit keys of 2 reached"):
        keys.set(2, b"a", b"", NOW)
    keys.set(0, b"a", b"another value", NOW)
    keys.rename(0, b"a", b"another name", NOW)
    keys.delete(1, b"a", NOW)
    keys.set(2, b"a", b"", NOW)
    assert keys.count == 2


def test_bytes_of_names_and_values_up_to_the_limit_and_not_one_more() -> None:
    keys = Keyspace(Limits(keys_bytes=10))
    keys.set(0, b"key", b"1234567", NOW)
    for refused in (b"12345678", b"123456789"):
        with pytest.raises(LimitReached, match="limit keys_bytes of 10 reached"):
            keys.change(0, b"key", refused, NOW)
    with pytest.raises(LimitReached):
        keys.set(0, b"", b"1", NOW)
    with pytest.raises(LimitReached):
        keys.rename(0, b"key", b"keys", NOW)
    assert keys.names(0, NOW) == [b"key"]
    keys.set(0, b"key", b"123", NOW)
    keys.set(0, b"key2", b"", NOW)
    keys.rename(0, b"key", b"key2", NOW)
    assert keys.bytes == 7


def test_several_values_are_written_or_none_of_them() -> None:
    keys = Keyspace(Limits(keys=3, keys_bytes=20))
    keys.set_all(0, {b"a": b"1", b"b": b"2"}, NOW)
    with pytest.raises(LimitReached):
        keys.set_all(0, {b"a": b"!", b"c": b"3", b"d": b"4"}, NOW)
    with pytest.raises(LimitReached):
        keys.set_all(0, {b"a": b"!", b"c": bytes(20)}, NOW)
    assert keys.get(0, b"a", NOW) == b"1"
    keys.set_all(0, {b"a": bytes(15), b"c": b"3"}, NOW)
    assert keys.bytes == 20


def test_several_values_fit_if_they_fit_in_the_end() -> None:
    keys = Keyspace(Limits(keys_bytes=10))
    keys.set_all(0, {b"a": b"", b"b": bytes(8)}, NOW)
    keys.set_all(0, {b"a": bytes(8), b"b": b""}, NOW)
    assert keys.bytes == 10


def test_a_renamed_key_takes_its_deadline_along_and_the_place_of_another() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"a", b"1", NOW, at(5))
    keys.set(0, b"b", b"2", NOW, at(1))
    keys.rename(0, b"a", b"b", NOW)
    assert keys.get(0, b"a", NOW) is None
    assert (keys.get(0, b"b", NOW), keys.deadline(0, b"b", NOW)) == (b"1", at(5))
    keys.rename(0, b"b", b"b", NOW)
    assert keys.sweep(NOW + 4) == 0
    assert keys.sweep(NOW + 5) == 1


def test_flushing_a_database_leaves_the_others() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW, at(1))
    keys.set(1, b"k", b"v", NOW)
    keys.flush(0)
    assert (keys.size(0), keys.size(1), keys.count, keys.bytes) == (0, 1, 1, 2)


def test_whoever_looks_around_sees_the_living_and_tells_of_the_dead() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"dead", b"", NOW, at(1))
    keys.set(0, b"alive", b"", NOW)
    assert sorted(keys.names(0, NOW)) == [b"alive", b"dead"]
    later = NOW + 1
    assert keys.names(0, later) == [b"alive"]
    keys.set(0, b"dead", b"", later, at(2))
    assert keys.scan(0, 0, 10, NOW + 2) == (0, [b"alive"])
    keys.set(0, b"dead", b"", later, at(3))
    assert {keys.pick(0, number, NOW + 3) for number in range(5)} == {b"alive"}
    assert keys.take_expired() == [(0, b"dead")] * 3
    keys.flush(0)
    assert keys.pick(0, 1, later) is None


def test_any_key_can_be_picked() -> None:
    keys = Keyspace(Limits())
    keys.set_all(0, {b"a": b"", b"b": b"", b"c": b""}, NOW)
    assert {keys.pick(0, number, NOW) for number in range(3)} == {b"a", b"b", b"c"}


@given(
    st.integers(1, 40),
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["add", "delete", "die", "go on"]))),
)
def test_a_scan_meets_every_key_that_is_there_all_the_time(
    size: int, count: int, steps: list[tuple[int, str]]
) -> None:
    keys, now = Keyspace(Limits()), NOW
    for number in range(size):
        keys.set(0, b"%d" % number, b"", now)
    stay, met = set(keys.names(0, now)), set[bytes]()
    cursor, names = keys.scan(0, 0, count, now)
    met.update(names)
    for number, step in [*steps, *[(0, "go on")] * 100]:
        name = b"%d" % number
        match step:
            case "add":
                keys.set(0, name, b"", now)
            case "delete":
                keys.delete(0, name, now)
                stay.discard(name)
            case "die":
                now += 1
                keys.expire(0, name, milliseconds(now + 0.5), now)
                now += 1
                stay.discard(name)
            case "go on" if cursor:
                cursor, names = keys.scan(0, cursor, count, now)
                assert len(names) <= count
                met.update(names)
    assert cursor == 0
    assert stay <= met


def test_a_stamp_changes_with_the_key_and_with_no_other() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"k", b"v", NOW)
    seen = [keys.stamp(0, b"k")]
    keys.set(0, b"other", b"v", NOW)
    keys.set(1, b"k", b"v", NOW)
    assert keys.stamp(0, b"k") == seen[0]
    for number in (1, 2):
        keys.set(0, b"k", b"v", NOW)
        seen.append(keys.stamp(0, b"k"))
        keys.expire(0, b"k", at(number), NOW)
        seen.append(keys.stamp(0, b"k"))
        keys.sweep(NOW + number)
        seen.append(keys.stamp(0, b"k"))
        keys.set(0, b"k", b"v", NOW)
        seen.append(keys.stamp(0, b"k"))
        keys.delete(0, b"k", NOW)
        seen.append(keys.stamp(0, b"k"))
        keys.set(0, b"k", b"v", NOW)
        keys.flush(0)
        seen.append(keys.stamp(0, b"k"))
    assert len(set(seen)) == len(seen)


def test_a_key_that_is_not_there_is_not_changed_by_a_flush_of_others() -> None:
    """But one that came and went has changed, however it went."""
    keys = Keyspace(Limits())
    seen = [keys.stamp(0, b"nothing")]
    keys.set(0, b"other", b"v", NOW)
    keys.flush(0)
    assert keys.stamp(0, b"nothing") == seen[0]
    for go in (
        lambda: keys.flush(0),
        lambda: keys.delete(0, b"nothing", NOW),
        lambda: keys.sweep(NOW + 2),
        lambda: keys.rename(0, b"nothing", b"something", NOW),
    ):
        keys.set(0, b"nothing", b"v", NOW, at(1))
        go()
        seen.append(keys.stamp(0, b"nothing"))
    assert len(set(seen)) == len(seen)


KEY = st.sampled_from([b"a", b"b", b"c", b"long name"])
VALUE = st.binary(max_size=3)
WAIT = st.integers(-1, 4)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), KEY, VALUE, WAIT),
            st.tuples(st.just("change"), KEY, VALUE, WAIT),
            st.tuples(st.just("expire"), KEY, VALUE, WAIT),
            st.tuples(
                st.sampled_from(["delete", "sweep", "pass", "flush", "get"]), KEY, VALUE, WAIT
            ),
        ),
        max_size=60,
    )
)
def test_keys_are_as_a_plain_dictionary_has_it(
    steps: list[tuple[str, bytes, bytes, int]],
) -> None:
    """The model looks at all its keys after each second; every death is told once, in the end."""
    keys, now = Keyspace(Limits()), NOW
    model: dict[bytes, tuple[bytes, int | None]] = {}
    died: list[bytes] = []

    def bury() -> None:
        for key, (_, deadline) in list(model.items()):
            if deadline is not None and deadline <= milliseconds(now):
                died.append(key)
                del model[key]

    for step, key, value, wait in steps:
        deadline = milliseconds(now + wait) if wait else None
        match step:
            case "set":
                keys.set(0, key, value, now, deadline)
                model[key] = (value, deadline)
            case "change":
                keys.change(0, key, value, now)
                model[key] = (value, model.get(key, (b"", None))[1])
            case "expire":
                assert keys.expire(0, key, deadline, now) == (key in model)
                if key in model:
                    model[key] = (model[key][0], deadline)
                    if wait < 0:
                        del model[key]
            case "delete":
                assert keys.delete(0, key, now) == (model.pop(key, None) is not None)
            case "sweep":
                keys.sweep(now)
            case "pass":
                now += 1
            case "flush":
                keys.sweep(now)  # so that the dead are told, as the model does
                keys.flush(0)
                model.clear()
        bury()
        assert keys.get(0, key, now) == model.get(key, (None,))[0]
    assert sorted(keys.names(0, now)) == sorted(model)
    assert sorted(key for _, key in keys.take_expired()) == sorted(died)
    assert keys.count == len(model)
    assert keys.bytes == sum(len(key) + len(value) for key, (value, _) in model.items())


def test_the_sizes_say_how_many_keys_of_each_database_have_a_deadline() -> None:
    keys = Keyspace(Limits())
    keys.set(0, b"a", b"1", 0.0)
    keys.set(0, b"b", b"1", 0.0, 1000)
    keys.set(9, b"c", b"1", 0.0, 2000)
    assert keys.sizes() == [(0, 2, 1), (9, 1, 1)]
    keys.expire(0, b"b", None, 0.0)
    keys.expire(0, b"a", 5000, 0.0)
    keys.sweep(3.0)
    assert keys.sizes() == [(0, 2, 1)]
    keys.set(0, b"a", b"2", 3.0)
    keys.delete(0, b"b", 3.0)
    assert keys.sizes() == [(0, 1, 0)]
    keys.flush(0)
    assert keys.sizes() == []
