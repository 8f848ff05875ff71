"""The index of patterns: the answer of asking each, for less."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.channels import pattern_index as patterns_module
from headgate.core.channels.pattern_index import CROWD, SCAN_MAX, PatternIndex
from tests.core.model import glob_reference as reference


def index_of(patterns: Iterable[bytes], *, scan_max: int = 0) -> PatternIndex:
    index = PatternIndex(scan_max=scan_max)
    for pattern in patterns:
        index.add(pattern)
    return index


def by_hand(patterns: Iterable[bytes], channel: bytes) -> tuple[bytes, ...]:
    return tuple(pattern for pattern in patterns if reference.matches(pattern, channel))


@pytest.fixture(params=[0, SCAN_MAX, 10_000], ids=["keys", "both", "scan"])
def scan_max(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


def test_patterns_are_found_in_the_order_in_which_they_were_added(scan_max: int) -> None:
    patterns = [b"*s", b"news", b"n*", b"\\news", b"*", b"?[de]*", b"*ew*", b"n*s", b"x*"]
    index = index_of(patterns, scan_max=scan_max)
    assert index.matching(b"news") == tuple(patterns[:-1])
    index.remove(b"news")
    index.add(b"news")
    assert index.matching(b"news") == (*patterns[:1], *patterns[2:-1], b"news")
    assert tuple(index) == (*patterns[:1], *patterns[2:], b"news")


def test_a_pattern_is_there_once(scan_max: int) -> None:
    """RESP-51: and is counted once."""
    index = index_of([], scan_max=scan_max)
    assert index.add(b"a*")
    assert not index.add(b"a*")
    assert index.matching(b"ab") == (b"a*",)
    assert len(index) == 1
    assert index.remove(b"a*")
    assert not index.remove(b"a*")
    assert index.matching(b"ab") == ()
    assert b"a*" not in index


def test_a_key_longer_than_the_channel_is_not_looked_up(scan_max: int) -> None:
    """A slice beyond the end is the channel itself, and would find a shorter key once more."""
    patterns = [b"ab*", b"abc*", b"abcd*", b"*ab", b"*xab", b"*ab*", b"a*b"]
    assert index_of(patterns, scan_max=scan_max).matching(b"ab") == (
        b"ab*",
        b"*ab",
        b"*ab*",
        b"a*b",
    )


def test_a_gram_that_comes_twice_finds_its_pattern_once() -> None:
    index = index_of([b"*abcde*", b"*abc*", b"*a*"])
    assert index.matching(b"abcde-abcde-abcde") == (b"*abcde*", b"*abc*", b"*a*")


def test_an_empty_channel_is_matched_by_the_empty_pattern_only(scan_max: int) -> None:
    index = index_of([b"*", b"", b"?", b"[", b"**"], scan_max=scan_max)
    assert index.matching(b"") == (b"",)


def test_every_change_is_another_generation_and_nothing_else_is() -> None:
    index = PatternIndex()
    seen = {index.generation}
    for change in (index.add, index.remove):
        assert change(b"a*")
        assert index.generation not in seen
        seen.add(index.generation)
        assert not change(b"a*")
        index.matching(b"ab")
        assert index.generation in seen


def test_a_remembered_result_is_forgotten_with_the_next_change(scan_max: int) -> None:
    index = index_of([b"a%d*" % n for n in range(9)], scan_max=scan_max)
    assert index.matching(b"ab") == ()
    index.add(b"*b")
    assert index.matching(b"ab") == (b"*b",)
    index.remove(b"*b")
    assert index.matching(b"ab") == ()


def test_what_is_remembered_is_returned_as_it_is() -> None:
    index = index_of([b"a*", b"*b", b"*a*b*", b"c"])
    assert index.matching(b"ab") is index.matching(b"ab")


def test_remembered_results_are_bounded_in_entries_and_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns_module, "CACHE_ENTRIES", 100)
    monkeypatch.setattr(patterns_module, "CACHE_BYTES", 1000)
    index = index_of([b"a*", b"*z", b"b*", b"c*"])
    for n in range(1000):
        index.matching(b"%d" % n)
        assert len(index._found) <= 100
    for n in range(100):
        assert index.matching(b"a" * 90 + b"%d" % n) == (b"a*",)
        held = sum(len(channel) + 8 * len(found) for channel, found in index._found.items())
        assert held == index._found_bytes <= 1000
    assert index.matching(b"a" * 1001 + b"z") == (b"a*", b"*z")
    assert index._found_bytes <= 1000


def test_a_small_set_remembers_so_many_short_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns_module, "CACHE_ENTRIES", 100)
    index = PatternIndex()
    for pattern in (b"a*", b"*z", b"b*", b"c*"):
        index.add(pattern)
    for n in range(1000):
        index.matching(b"a%d" % n)
        assert len(index._found) <= 100
    long = b"a" * (patterns_module.NAME_BYTES + 1)
    assert index.matching(long) == (b"a*",)
    assert long not in index._found


@pytest.mark.parametrize("scan_max", [0, 30])
@pytest.mark.parametrize("seed", range(6))
def test_any_history_gives_the_answers_of_asking_each(seed: int, scan_max: int) -> None:
    random = Random(seed)
    index = PatternIndex(scan_max=scan_max)
    kept: dict[bytes, None] = {}
    for _ in range(600):
        if kept and random.random() < 0.45:
            pattern = random.choice(list(kept))
            assert index.remove(pattern)
            del kept[pattern]
        else:
            pattern = reference.draw_pattern(random)
            assert index.add(pattern) is (pattern not in kept)
            kept.setdefault(pattern)
        channel = reference.draw_subject(random, random.choice([pattern, *kept]))
        assert index.matching(channel) == by_hand(kept, channel)
        assert list(index) == list(kept)


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.sampled_from(b"ab*?[]^-\\"), max_size=12).map(bytes), max_size=40),
    st.lists(st.lists(st.sampled_from(b"ab]-\\"), max_size=8).map(bytes), max_size=10),
)
def test_keys_and_scan_give_the_same_answers(patterns: list[bytes], channels: list[bytes]) -> None:
    keys, scan = index_of(patterns), index_of(patterns, scan_max=len(patterns))
    for channel in channels:
        assert keys.matching(channel) == scan.matching(channel)
        assert scan.matching(channel) == by_hand(dict.fromkeys(patterns), channel)


def test_long_patterns_and_channels_are_filed_and_found() -> None:
    """Beyond the longest key, and with more grams than are compared."""
    long = bytes(range(97, 123)) * 10
    patterns = [long + b"*", b"*" + long, b"*" + long + b"*", long, b"?" + long, long[:129] + b"?*"]
    # Prefix and suffix are shared by more than a few.
    patterns += [b"%b*%d*%b" % (long, n, long) for n in range(20)]
    index = index_of(patterns)
    for channel in (long, long * 2, b"x" + long, long + b"x", long + b"7" + long):
        assert index.matching(channel) == by_hand(patterns, channel)


def mix(count: int) -> list[bytes]:
    forms = [b"a.%d.*", b"u:*:e%d", b"h[ae]llo%d?", b"*s%d", b"*m%d*", b"r:%d:*:m:?", b"w%d"]
    return [forms[n % len(forms)] % n for n in range(count)]


def test_few_patterns_are_asked() -> None:
    """S002-37: each channel has the key of a few patterns of thousands."""
    index = index_of(mix(7_000))
    asked = [
        len(index._candidates(channel))
        for n in range(0, 7_000, 70)
        for channel in (b"a.%d.x" % n, b"u:1:e%d" % n, b"hallo%d!" % n, b"x-m%d-" % n, b"w%d" % n)
    ]
    assert max(asked) <= 30
    assert sum(asked) / len(asked) <= 5


def held() -> int:
    """Bytes that the module has allocated, its globs among them; what those hold goes with them.
    Other threads of a test run allocate too, and so do the caches of the interpreter."""
    gc.collect()
    ours = [tracemalloc.Filter(True, str(patterns_module.__file__))]
    traces = tracemalloc.take_snapshot().filter_traces(ours).traces
    return sum(trace.size for trace in traces)


def test_removal_leaves_nothing_behind() -> None:
    """RESP-55: what was added for patterns is given back when they are gone."""
    patterns = [*mix(2_000), b"*", b"[", b"?"]
    Random(1).shuffle(patterns)
    tracemalloc.start()
    try:
        index = PatternIndex()
        new = held()
        for pattern in patterns:
            index.add(pattern)
        assert held() < len(patterns) * 400
        for pattern in patterns[:-20]:
            index.remove(pattern)
        index.matching(b"a.5.x")
        assert held() < 20_000
        for pattern in patterns[-20:]:
            index.remove(pattern)
        assert held() <= new + 200
    finally:
        tracemalloc.stop()
    for drawers in (index._wholes, index._prefixes, index._suffixes, index._grams):
        assert not drawers


def test_a_pattern_weighs_what_it_adds_to_every_lookup() -> None:
    index = PatternIndex()
    light = (b"", b"news", b"news.*", b"*.news", b"*news*", b"a?c", b"[ab]c*d", b"a*b*c", b"[a]")
    assert [index.weigh(pattern) for pattern in light] == [0] * len(light)
    assert index.weigh(b"*") == index.weigh(b"?*?") == index.weigh(b"[ab]*") == 1
    assert index.weigh(b"*[ab][cd]*") == 3
    assert index.weigh(b"news*[ab][ab][cd]*") == 2
    assert index.weigh(b"*x?y*") == 2


def test_patterns_that_share_all_their_bytes_weigh_from_some_number_on() -> None:
    index = PatternIndex()
    # Under their prefix, and under a byte in them.
    patterns = [b"a" + b"?" * number + b"[bc]" for number in range(2 * CROWD + 10)]
    for pattern in patterns:
        index.add(pattern)
    assert index.weight == 10
    assert index.weigh(patterns[0]) == 0
    assert index.weigh(patterns[-1]) == 1
    for pattern in patterns:
        index.remove(pattern)
    assert index.weight == 0
    assert index.weigh(patterns[-1]) == 0
