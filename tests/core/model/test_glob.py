"""Redis patterns: what they mean, and that none is dear."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.core.model.glob import ANY, Glob, Literals, Segment, cut
from headgate.core.model.glob import LONG as FAR
from tests.core.model import glob_reference as reference

LONG = 65_536


def literals(pattern: bytes) -> Literals:
    return Glob(pattern).literals()


@pytest.mark.parametrize(
    ("pattern", "subject", "match"),
    [
        # Stars and question marks.
        (b"", b"", True),
        (b"", b"a", False),
        (b"*", b"", False),
        (b"**", b"", False),
        (b"?", b"", False),
        (b"*", b"a", True),
        (b"*", b"\0\n\xff", True),
        (b"?", b"\n", True),
        (b"?", b"\0", True),
        (b"a**b", b"ab", True),
        (b"*?", b"a", True),
        (b"?*?", b"a", False),
        (b"?*?", b"ab", True),
        (b"aba*aba", b"aba", False),
        (b"aba*aba", b"abaaba", True),
        (b"*ab*ab", b"ab", False),
        (b"*a?c*", b"abaac", True),
        (b"*a?c*", b"abab", False),
        (b"?a*", b"ab", False),
        (b"*?a", b"ba", True),
        (b"*[ab]*[ab]?", b"xaxx", False),
        # Case and plain punctuation.
        (b"A", b"a", False),
        (b"[A-C]", b"b", False),
        (b"{a,b}", b"a", False),
        (b"]", b"]", True),
        # Escapes.
        (b"\\*", b"*", True),
        (b"\\*", b"a", False),
        (b"\\a", b"a", True),
        (b"a\\", b"a\\", True),
        (b"a\\", b"a", False),
        (b"\\[a]", b"[a]", True),
        (b"\\\\", b"\\", True),
        # Classes.
        (b"[]", b"a", False),
        (b"[^]", b"a", True),
        (b"h[^]llo", b"hello", True),
        (b"[^a-c]x", b"dx", True),
        (b"[^a-c]x", b"bx", False),
        (b"[!a]", b"b", False),
        (b"[!a]", b"!", True),
        (b"[a^]", b"^", True),
        (b"[[]", b"[", True),
        (b"[*]", b"*", True),
        (b"[*]", b"a", False),
        # Escapes in classes.
        (b"[\\]]", b"]", True),
        (b"[a\\-z]", b"-", True),
        (b"[a\\-z]", b"m", False),
        # Ranges, backwards and with odd ends.
        (b"[z-a]", b"m", True),
        (b"[-a]", b"-", True),
        (b"[a-]", b"a", True),
        (b"[a-]", b"]", True),
        (b"[a-]", b"-", False),
        (b"[a-]", b"b", False),
        (b"[+-]]", b",", True),
        (b"[+-]]", b",]", False),
        (b"[+-\\]]", b"]", False),
        (b"[+-\\]]", b",]", True),
        (b"[+--]", b",", True),
        # Classes that the pattern's end closes.
        (b"[", b"a", False),
        (b"[", b"[", False),
        (b"[^", b"a", True),
        (b"[abc", b"b", True),
        (b"[a-", b"-", True),
        (b"[\\", b"\\", True),
        # Bytes compare without a sign, whatever the machine; Redis asks its compiler.
        (b"[\x80-\xff]", b"\x90", True),
        (b"[a-\xff]", b"\x90", True),
        (b"[a-\xff]", b"\x01", False),
    ],
)
def test_a_pattern_means_what_it_means_in_redis(
    pattern: bytes, subject: bytes, match: bool
) -> None:
    assert reference.matches(pattern, subject) is match
    assert Glob(pattern).matches(subject) is match


def test_twenty_thousand_drawn_pairs_agree_with_the_reference() -> None:
    outcomes = reference.compare(20_000, seed=4)
    assert outcomes[True] > 1_000


ODD = st.lists(st.sampled_from(b"abc*?[]^-\\\0\n\xff"), max_size=14).map(bytes)
SUBJECT = st.lists(st.sampled_from(b"abc[]^-\\\0\n\xff"), max_size=10).map(bytes)


@given(ODD, SUBJECT)
@example(b"*ab*[^a]?", b"ab")
def test_any_pattern_agrees_with_the_reference(pattern: bytes, subject: bytes) -> None:
    assert Glob(pattern).matches(subject) is reference.matches(pattern, subject)


@given(
    st.lists(st.sampled_from([b"*", b"?", b"a", b"b", b"[ab]", b"[^b]", b"[b-d]"]), max_size=9),
    st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=FAR, max_size=10 * FAR),
)
def test_a_long_subject_is_searched_as_a_short_one_is(
    pieces: list[bytes], letters: list[bytes]
) -> None:
    """All places at once."""
    pattern, subject = b"*".join((b"", b"".join(pieces), b"")), b"".join(letters)
    assert Glob(pattern).matches(subject) == reference.matches(pattern, subject)


def test_a_search_of_a_long_subject_takes_no_step_per_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row of bits for each class, and none for each byte."""
    segment = Segment([(1 << 97) | (1 << 98), (1 << 99) | (1 << 100)])
    assert segment.weight == 2
    monkeypatch.setattr(Segment, "_places", None)
    assert segment.find(b"x" * 8000 + b"bd", 0, 8002) == 8000
    assert segment.find(b"x" * 8000 + b"bd", 0, 8001) == -1
    assert segment.find(b"bd" + b"x" * 8000 + b"bd", 1, 8004) == 8002


@given(st.binary(max_size=20))
def test_an_escaped_pattern_matches_its_own_bytes_and_is_a_literal(text: bytes) -> None:
    pattern = b"".join(b"\\%c" % byte for byte in text)
    assert Glob(pattern).matches(text)
    assert literals(pattern).whole == text


@given(ODD, SUBJECT)
def test_what_matches_has_the_literals(pattern: bytes, subject: bytes) -> None:
    glob = Glob(pattern)
    found = glob.literals()
    if glob.matches(subject):
        assert found.whole in (None, subject)
        assert subject.startswith(found.prefix)
        assert subject.endswith(found.suffix)
        start = 0
        for run in found.runs:
            start = subject.index(run, start) + len(run)


@pytest.mark.parametrize(
    ("pattern", "prefix", "suffix", "runs"),
    [
        (b"a.12.*", b"a.12.", b"", [b"a.12."]),
        (b"u:*:e12", b"u:", b":e12", [b"u:", b":e12"]),
        (b"h[ae]llo?", b"h", b"", [b"h", b"llo"]),
        (b"*s12", b"", b"s12", [b"s12"]),
        (b"[*]a\\?[^b]", b"*a?", b"", [b"*a?"]),
        (b"**", b"", b"", []),
    ],
)
def test_the_literals_of_a_pattern(
    pattern: bytes, prefix: bytes, suffix: bytes, runs: list[bytes]
) -> None:
    found = literals(pattern)
    assert (found.prefix, found.suffix, found.runs) == (prefix, suffix, runs)
    assert found.whole is None


def test_a_pattern_is_cut_at_its_stars() -> None:
    assert cut(b"a\\*b**?[c]d*") == [[b"a*b"], [ANY, b"cd"], []]


class Counted(bytes):
    """A subject that counts how often it is looked at."""

    looks: int

    def __getitem__(self, place: object) -> int:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(place)  # type: ignore[call-overload, no-any-return]

    def startswith(self, *arguments: object) -> bool:
        self.looks += 1
        return super().startswith(*arguments)  # type: ignore[arg-type]

    def find(self, *arguments: object) -> int:
        self.looks += 1
        return super().find(*arguments)  # type: ignore[arg-type]


HOSTILE: dict[str, Callable[[int], tuple[bytes, bytes]]] = {
    "stars that all might move": lambda n: (b"a*" * (n // 2) + b"b", b"a" * n),
    "the same with a class": lambda n: (b"[ab]*" * (n // 5) + b"c*c", b"a" * (n - 1) + b"c"),
    "a few stars, a long subject": lambda n: (b"*a*a*a*a*a*a*a*a*b", b"a" * n),
    "a few stars and a class": lambda n: (b"*a?*[ab]a*?a*a[ab]*aa[bc]*", b"a" * n),
    "nothing but stars": lambda n: (b"*" * n, b"a" * n),
    "question marks between stars": lambda n: (b"?*" * (n // 2), b"a" * n),
    "one long run": lambda n: (b"*" + b"a" * (n // 2) + b"b*", b"a" * n),
    "a long run with a hole": lambda n: (b"*" + b"a" * (n // 2) + b"?b*", b"a" * n),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pattern_looks_at_a_subject_as_often_as_it_is_long(name: str) -> None:
    for length in (1_000, 8_000):
        pattern, text = HOSTILE[name](length)
        subject = Counted(text)
        subject.looks = 0
        Glob(pattern).matches(subject)
        assert subject.looks <= 3 * length


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pattern_of_64_kib_ends_soon(name: str) -> None:
    """Seconds would be much; what backtracks does not end at all."""
    pattern, subject = HOSTILE[name](LONG)
    started = time.process_time()
    Glob(pattern).matches(subject)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("form", [b"*", b"?", b"\\a", b"[a]", b"[ab]", b"[^a]", b"[", b"[a-"])
def test_reading_takes_time_in_proportion(form: bytes) -> None:
    started = time.process_time()
    glob = Glob(form * (LONG // len(form)))
    glob.literals()
    glob.matches(b"abc")
    assert time.process_time() - started < 5


def test_a_glob_that_is_not_asked_is_not_worked_out() -> None:
    glob = Glob(b"a[bc]*d")
    glob.literals()
    assert glob._test is None
    assert glob.matches(b"abd")
    assert glob._test is not None


@pytest.mark.parametrize("pattern", [b"*k" * 100, b"a*[bc]*d", b"a*", b"*a*", b"abc", b"a?"])
def test_a_pattern_that_was_weighed_is_not_read_again(
    pattern: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [Glob(pattern).matches(subject) for subject in (b"abd", b"abc", b"kk" * 100)]
    glob = Glob(pattern)
    assert glob.weigh() == literals(pattern).weight
    monkeypatch.delattr("headgate.core.model.glob.cut")
    assert [glob.matches(subject) for subject in (b"abd", b"abc", b"kk" * 100)] == expected
