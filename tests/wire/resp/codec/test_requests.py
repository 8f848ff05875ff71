"""What a client sends becomes requests, however it is cut and whatever it is."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz.compiled_ways import check_read, compiled, read
from fuzz.resp_requests import LEADS, check, outcome
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.wire.resp.codec.requests import HTTP, LINE_BYTES, PIPELINE_BYTES, RequestParser
from tests.support.repository import CORPORA

CORPUS = CORPORA / "resp_requests"

PING = b"*1\r\n$4\r\nPING\r\n"
PUBLISH = b"*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$5\r\nhello\r\n"


def encoded(*arguments: bytes) -> bytes:
    bulks = [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"*%d\r\n" % len(arguments) + b"".join(bulks)


def trusted(limits: Limits | None = None) -> RequestParser:
    requests = RequestParser(limits or Limits())
    requests.is_trusted = True
    return requests


def requests_in(data: bytes) -> list[list[bytes]]:
    """Of a client that makes no mistake and leaves nothing over."""
    requests = trusted()
    whole = requests.feed(data)
    assert (requests.error, requests.held) == (None, 0)
    return whole


def error_of(data: bytes, limits: Limits | None = None) -> str | None:
    requests = trusted(limits)
    assert requests.feed(PING + data) == [[b"PING"]]
    assert requests.feed(PING) == ([] if requests.error is not None else [[b"PING"]])
    return requests.error


@pytest.mark.parametrize(
    ("sent", "request_"),
    [
        (b"PING\r\n", [b"PING"]),
        (b"PING\n", [b"PING"]),
        (b"  PING  x  \r\n", [b"PING", b"x"]),
        (b"\tPING\tx\r\r\n", [b"PING", b"x"]),
        (PING, [b"PING"]),
        (b"*2\r\n$4\r\nPING\r\n$1\r\nx\r\n", [b"PING", b"x"]),
    ],
)
def test_a_request_is_a_line_or_a_list(sent: bytes, request_: list[bytes]) -> None:
    """RESP-1."""
    assert requests_in(sent) == [request_]


@pytest.mark.parametrize("nothing", [b"\r\n", b"\n", b"  \r\n", b"*0\r\n", b"*-1\r\n", b"*-10\r\n"])
def test_an_empty_request_is_left_out(nothing: bytes) -> None:
    """RESP-2."""
    assert requests_in(nothing) == []
    assert requests_in(nothing + PING + nothing * 2 + b"PING\r\n") == [[b"PING"]] * 2
    assert requests_in((PING + nothing) * 1000) == [[b"PING"]] * 1000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (rb'"a\x41\n"', [b"aA\n"]),
        (rb'"\r\t\b\a\"\\\q\xfF\x4"', [b'\r\t\b\a"\\q\xffx4']),
        (rb'"a  b" "" c', [b"a  b", b"", b"c"]),
        (rb"'it\'s' '\n\\ \x41' '\\'' ''", [b"it's", rb"\n\\ \x41", rb"\'", b""]),
        (rb"\n a\b", [rb"\n", rb"a\b"]),
        (rb"""say"a b" say'c d'""", [b"saya b", b"sayc d"]),
        (rb"""'"' "'" """, [b'"', b"'"]),
        (b'"\x00\xff"', [b"\x00\xff"]),
    ],
)
def test_quotes_keep_words_together(line: bytes, words: list[bytes]) -> None:
    """RESP-3."""
    assert requests_in(b"ECHO " + line + b"\r\n") == [[b"ECHO", *words]]


@pytest.mark.parametrize(
    "line", [b'"', b'"a', b"'a", b'"a"b', b"'a'b", b'"a""b"', rb'"a\"', rb"'a\'", b'a"', b"it's"]
)
def test_quotes_that_do_not_match_break_the_protocol(line: bytes) -> None:
    """RESP-3."""
    assert error_of(b"ECHO " + line + b"\r\n") == "unbalanced quotes in request"


@pytest.mark.parametrize(
    "count", [b"x", b"", b"-", b"+1", b"01", b"-0", b" 1", b"1 ", b"1\r", b"\x00", b"1_0"]
)
@pytest.mark.parametrize("lead", [b"", *LEADS])
def test_a_list_has_a_number_of_arguments(lead: bytes, count: bytes) -> None:
    """RESP-4."""
    assert error_of(b"*" + count + b"\r\n$4\r\nPING\r\n") == "invalid multibulk length"
    requests = trusted()
    assert len(requests.feed(lead + b"*" + count + b"\r\n$4\r\nPING\r\n")) == lead.count(b"*")
    assert requests.error == "invalid multibulk length"


@pytest.mark.parametrize("count", [2**31, 2**63, -(2**63) - 1, 10**30])
def test_a_number_of_arguments_has_a_size_too(count: int) -> None:
    """RESP-4."""
    assert error_of(b"*%d\r\n" % count) == "invalid multibulk length"


@pytest.mark.parametrize("lead", [b"", *LEADS])
@pytest.mark.parametrize(
    "other", [b"f", b"+", b"=", b"(", b":", b"*", b"~", b"%", b">", b"_", b"#"]
)
def test_every_argument_is_a_bulk_string(lead: bytes, other: bytes) -> None:
    """RESP-5; what is not, hiredis may take for one."""
    for argument in (other, other + b"1\r\n", other + b"5\r\ntxt:a\r\n"):
        for before in (b"*1\r\n", b"*2\r\n$4\r\nECHO\r\n", b"*2\r\n$4\r\nECHO||"):
            requests = trusted()
            assert len(requests.feed(lead + before + argument)) == lead.count(b"*")
            assert requests.error == f"expected '$', got '{other.decode()}'"


@pytest.mark.parametrize(
    ("mark", "shown"), [(b"\r\n", "\\r"), (b"\n", "\\n"), (b"\x00", "\\x00"), (b"\xff", "\\xff")]
)
def test_an_error_is_one_line_that_can_be_printed(mark: bytes, shown: str) -> None:
    """RESP-12."""
    assert error_of(b"*1\r\n" + mark) == f"expected '$', got '{shown}'"


def test_a_name_with_line_ends_is_a_name() -> None:
    """RESP-12."""
    assert requests_in(encoded(b"a\r\nb", b"\n") + PING) == [[b"a\r\nb", b"\n"], [b"PING"]]


@pytest.mark.parametrize(
    "size", [b"-10", b"-1", b"blabla", b"2000000000", b"", b"+1", b"01", b"9" * 30, b"1\r"]
)
def test_an_argument_has_a_length(size: bytes) -> None:
    """RESP-6."""
    assert error_of(b"*1\r\n$" + size + b"\r\nx\r\n") == "invalid bulk length"


@pytest.mark.parametrize(
    ("start", "filling", "error"),
    [
        (b"", b"x", "too big inline request"),
        (b"", b"\x00", "too big inline request"),
        (b"$", b"\x00", "too big inline request"),
        (b'"', b" ", "too big inline request"),
        (b"*", b"1", "too big mbulk count string"),
        (b"*", b"\x00", "too big mbulk count string"),
        (b"*", b"\n", "too big mbulk count string"),
        (b"*", b"\r", "too big mbulk count string"),
        (b"*1\r\n$", b"1", "too big bulk count string"),
        (b"*1\r\n$", b"\x00", "too big bulk count string"),
        (b"*2\r\n$1\r\na\r\n$", b"\r", "too big bulk count string"),
    ],
)
def test_a_line_ends_in_time(start: bytes, filling: bytes, error: str) -> None:
    """RESP-7; the beginnings with a NUL are what Redis's own tests send to break a server."""
    line = (start[start.rfind(b"\n") + 1 :] + filling * LINE_BYTES)[:LINE_BYTES]
    before = start[: start.rfind(b"\n") + 1]
    requests = trusted()
    requests.feed(before + line)
    assert (requests.error, requests.held) == (None, len(before) + LINE_BYTES)
    requests.feed(filling)
    assert (requests.error, requests.held) == (error, 0)
    # It makes no difference that the end of the line is there already, or how it was cut.
    assert error_of(before + line + filling + b"\r\n") == error
    assert outcome([before + line[:-1] + b"\r\n"], Limits(), is_trusted=True).error != error


@pytest.mark.parametrize("start", [b"\x00", b"*\x00", b"$\x00", b"*1\r\n$\x00", b"*1\r\n\x00"])
@pytest.mark.parametrize(
    "piece", [b"x" * KiB, b"\x00" * 999, b"*" * KiB, b"$\r" * 500, b"\n\n\r" * 300]
)
def test_endless_garbage_is_not_kept(start: bytes, piece: bytes) -> None:
    """RESP-7."""
    requests = trusted()
    requests.feed(start)
    for _ in range(200):
        requests.feed(piece)
        assert requests.held <= LINE_BYTES + KiB
        if requests.error is not None:
            break
    else:
        # Lines of nothing, or of one word, are requests.
        assert b"\n" in piece
        assert not start.startswith(b"*")
    assert requests.held <= len(piece)


@pytest.mark.parametrize(
    "data",
    [
        PUBLISH + PING,
        b"PING\r\n" + PUBLISH + b"\r\n*0\r\nPING\n" + PING,
        encoded(b"PUBLISH", b"\r\n*1\r\n", b"$4\r\n\r\n") * 2,
        b"ECHO \"a b\" 'c'\r\n" + PING,
        PING + b"*1\r\n$4\r\nPING??" + PUBLISH,
        PING + b"*2\r\n$4\r\nECHO\r\n:1\r\n",
        PING + b"*x\r\n",
        PING + b"POST / HTTP/1.1\r\n" + PING,
    ],
)
def test_it_does_not_matter_where_the_bytes_are_cut(data: bytes) -> None:
    """RESP-8."""
    expected = outcome([data], Limits(), is_trusted=True)
    for cut in range(len(data) + 1):
        assert outcome([data[:cut], data[cut:]], Limits(), is_trusted=True) == expected
        for lead, before in LEADS.items():
            found = outcome([lead + data[:cut], data[cut:]], Limits(), is_trusted=True)
            assert found == expected._replace(requests=before + expected.requests)
    check(data)


def test_a_request_of_the_largest_size_may_be_cut_anywhere() -> None:
    """RESP-8: it is taken, and one of a byte more is not, however it comes."""
    largest = encoded(b"SET", b"key", b"value")
    for limits, is_taken in (
        (Limits(request_bytes=len(largest)), True),
        (Limits(request_bytes=len(largest) - 1), False),
    ):
        expected = outcome([largest], limits, is_trusted=True)
        assert (expected.requests == [[b"SET", b"key", b"value"]]) is is_taken
        for cut in range(1, len(largest)):
            assert outcome([largest[:cut], largest[cut:]], limits, is_trusted=True) == expected


@pytest.mark.parametrize("payload", [b"%d", b"%d+", b"\r\n%d"])
def test_a_long_pipeline_keeps_its_order(payload: bytes) -> None:
    """RESP-9."""
    wanted = [[b"PUBLISH", b"news", payload % number] for number in range(10_000)]
    sent = b"".join([encoded(*request) for request in wanted])
    assert requests_in(sent) == wanted
    requests = trusted()
    pieces = [sent[at : at + 64 * KiB] for at in range(0, len(sent), 64 * KiB)]
    assert [request for piece in pieces for request in requests.feed(piece)] == wanted


def test_a_pipeline_may_have_large_arguments() -> None:
    for payload in (b"x" * 5000, b"+" * 5000, b"\r\n" * 5000):
        assert requests_in(encoded(b"ECHO", payload) * 20) == [[b"ECHO", payload]] * 20


def test_a_large_request_may_begin_anywhere_in_a_read() -> None:
    """RESP-8."""
    for size in (10, 8 * KiB, 20_000, 60_000):
        large = encoded(b"ECHO", b"x" * size)
        requests = trusted()
        assert requests.feed(PUBLISH * 100 + large[:-5]) == [[b"PUBLISH", b"news", b"hello"]] * 100
        assert requests.feed(large[-5:] + PING) == [[b"ECHO", b"x" * size], [b"PING"]]


def test_a_pipeline_may_mix_everything() -> None:
    """RESP-9."""
    mix = [[b"PING"], [b"SET", b"a", b"b"], [b"MSET", *[b"%d" % n for n in range(300)]], [b""]]
    assert requests_in(b"".join([encoded(*each) for each in mix]) * 100) == mix * 100
    assert requests_in((PUBLISH + b"PING\r\n") * 100)[-2:] == [
        [b"PUBLISH", b"news", b"hello"],
        [b"PING"],
    ]


@pytest.mark.parametrize("lead", [b"", *LEADS])
@pytest.mark.parametrize(
    "text", [b"", b"\x00", b"\r\n", b"\xff\xfe", b"\r\n*1\r\n$4\r\nPING\r\n", bytes(range(256))]
)
def test_arguments_are_any_bytes(lead: bytes, text: bytes) -> None:
    """RESP-10."""
    request = [b"PUBLISH", text, text]
    assert requests_in(lead + encoded(*request) * 2 + PING)[-3:] == [request, request, [b"PING"]]


class Counting(RequestParser):
    """Counts the bytes that the slow way is given."""

    __slots__ = ("looked_at",)

    def __init__(self) -> None:
        super().__init__(Limits())
        self.is_trusted = True
        self.looked_at = 0

    def _next(self, data: bytes, position: int, whole: list[list[bytes]]) -> int:
        self.looked_at += len(data) - position
        return super()._next(data, position, whole)


@pytest.mark.parametrize(
    ("request_", "piece_bytes"),
    [
        ([b"PUBLISH", b"news", bytes(4 * MiB)], 64 * KiB),
        ([b"PUBLISH", b"news", b"\r\n" * 2 * MiB], 1000),
        ([b"MSET", *[b"%d" % number for number in range(20_000)]], 100),
    ],
)
def test_what_comes_in_pieces_is_not_looked_at_again_and_again(
    request_: list[bytes], piece_bytes: int
) -> None:
    """RESP-11."""
    sent = encoded(*request_)
    requests = Counting()
    tracemalloc.start()
    try:
        for at in range(0, len(sent), piece_bytes):
            assert requests.held == at
            whole = requests.feed(sent[at : at + piece_bytes])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert whole == [request_]
    assert requests.looked_at < 2 * len(sent)
    assert peak < 5 * len(sent) + 2 * MiB


def test_tiny_pieces_take_no_more_room_than_their_bytes() -> None:
    requests = trusted()
    requests.feed(b"*1\r\n$1000000\r\n")
    tracemalloc.start()
    try:
        for _ in range(100_000):
            requests.feed(b"xy")
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert requests.held == 14 + 200_000
    assert size < 400_000


@pytest.mark.parametrize("lead", [b"", *LEADS])
@pytest.mark.parametrize("more", [b"", b"$4\r\nPING\r\n", b"*1000000\r\n", b"%1\r\n*1000000\r\n"])
def test_no_room_is_made_for_what_is_only_announced(lead: bytes, more: bytes) -> None:
    requests = trusted()
    tracemalloc.start()
    try:
        requests.feed(lead + b"*1000000\r\n" + more)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MiB


@pytest.mark.parametrize("verb", [b"POST", b"post", b"Host:", b"HOST:"])
def test_a_browser_is_not_answered(verb: bytes) -> None:
    requests = trusted()
    assert requests.feed(PING + verb + b" / HTTP/1.1\r\n" + PING) == [[b"PING"]]
    assert requests.error == ""
    assert requests.feed(PING) == []
    assert requests_in(b"GET / HTTP/1.1\r\n") == [[b"GET", b"/", b"HTTP/1.1"]]


def test_the_bytes_behind_an_argument_are_skipped() -> None:
    odd = b"*2\r\n$4\r\nECHO\r*$1\r\na\n\n"
    for data in (odd + PING, odd * 200 + PING, PING * 200 + odd + PING):
        assert requests_in(data)[-2:] == [[b"ECHO", b"a"], [b"PING"]]


def test_whoever_is_not_trusted_sends_little() -> None:
    def error(data: bytes, is_trusted: bool = False) -> str | None:
        requests = RequestParser(Limits())
        requests.is_trusted = is_trusted
        requests.feed(data)
        return requests.error

    assert error(b"*10\r\n") is None
    assert error(b"*11\r\n") == "unauthenticated multibulk length"
    assert error(b"*1\r\n$16384\r\n") is None
    assert error(b"*1\r\n$16385\r\n") == "unauthenticated bulk length"
    assert error(b"*1\r\n$999999999\r\n") == "invalid bulk length"
    assert error(PING * 1000 + b"*11\r\n") == "unauthenticated multibulk length"
    assert error(b"*11\r\n$16385\r\n", is_trusted=True) is None


def test_trust_counts_from_the_next_read_on() -> None:
    requests = RequestParser(Limits())
    large = encoded(*[b"x"] * 11)
    assert requests.feed(encoded(b"AUTH", b"secret")) == [[b"AUTH", b"secret"]]
    requests.is_trusted = True
    assert requests.feed(large) == [[b"x"] * 11]
    requests.is_trusted = False
    assert requests.feed(large) == []
    assert requests.error == "unauthenticated multibulk length"


def sized(count: int, size: int) -> bytes:
    return encoded(*[b"x" * size] * count)


@pytest.mark.parametrize("lead", [b"", *LEADS])
@pytest.mark.parametrize(
    ("limits", "at", "above", "error"),
    [
        (Limits(bulk_bytes=100), sized(2, 100), sized(2, 101), "invalid bulk length"),
        (Limits(bulk_bytes=5000), sized(2, 5000), sized(2, 5001), "invalid bulk length"),
        (Limits(arguments=20), sized(20, 1), sized(21, 1), "invalid multibulk length"),
        (Limits(arguments=200), sized(200, 1), sized(201, 1), "invalid multibulk length"),
        (Limits(request_bytes=4 + 4 * 57), sized(4, 50), sized(4, 51), "too big request"),
        (Limits(request_bytes=4 + 4 * 5009), sized(4, 5000), sized(4, 5001), "too big request"),
    ],
)
def test_requests_have_limits(
    lead: bytes, limits: Limits, at: bytes, above: bytes, error: str
) -> None:
    """The limits bulk_bytes, arguments and request_bytes, at and one above."""
    for pieces in (lambda data: [data], lambda data: [data[:-9], data[-9:]], by_bytes):
        requests, found, held = outcome(pieces(lead + at), limits, is_trusted=True)
        assert (len(requests), found, held) == (lead.count(b"*") + 1, None, 0)
        requests, found, held = outcome(pieces(lead + above), limits, is_trusted=True)
        assert (len(requests), found, held) == (lead.count(b"*"), error, 0)


def test_a_limit_is_seen_in_the_header() -> None:
    """The limits bulk_bytes, arguments and request_bytes."""
    limits = Limits(bulk_bytes=100, arguments=20, request_bytes=250)
    assert error_of(b"*21\r\n", limits) == "invalid multibulk length"
    assert error_of(b"*1\r\n$101\r\n", limits) == "invalid bulk length"
    before = b"*3\r\n" + b"$100\r\n%b\r\n" % (b"x" * 100) * 2
    assert error_of(before + b"$30\r\n", limits) == "too big request"
    assert trusted(limits).feed(before + b"$20\r\n" + b"x" * 20 + b"\r\n") != []


def by_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


# Laws.

SPECIAL = [b"\r\n", b"\r", b"\n", b"*", b"$", b"+", b"=", b"(", b"~", b"|", b">", b"%", b"*1\r\n"]
texts = st.one_of(
    st.binary(max_size=8),
    st.lists(st.sampled_from([*SPECIAL, b"a", b"1"]), max_size=5).map(b"".join),
)
arguments = st.lists(texts, min_size=1, max_size=4).filter(
    lambda words: words[0].lower() not in HTTP
)


def spelled_as_line(request: list[bytes]) -> bytes:
    """In quotes, with every byte escaped."""
    return (
        b" ".join([b'"%b"' % b"".join([b"\\x%02x" % c for c in word]) for word in request]) + b"\n"
    )


def spelled_carelessly(request: list[bytes]) -> bytes:
    """With other bytes than the right ones behind the arguments."""
    bulks = [b"$%d\r\n%b+*" % (len(argument), argument) for argument in request]
    return b"*%d\r\n" % len(request) + b"".join(bulks)


SPELLINGS: list[Callable[[list[bytes]], bytes]] = [
    lambda request: encoded(*request),
    lambda request: encoded(*request),
    spelled_as_line,
    spelled_carelessly,
    lambda request: b"*0\r\n" + encoded(*request) + b"\r\n",
]


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    places = draw(st.lists(st.integers(0, len(data)), max_size=6))
    return [data[start:end] for start, end in pairwise([0, *sorted(places), len(data)])]


@settings(deadline=None)
@given(st.data(), st.lists(arguments, max_size=6))
def test_requests_come_out_as_they_were_sent(
    data: st.DataObject, wanted: list[list[bytes]]
) -> None:
    """RESP-8."""
    sent = b"".join([data.draw(st.sampled_from(SPELLINGS))(request) for request in wanted])
    pieces = data.draw(cuts(sent))
    assert outcome(pieces, Limits(), is_trusted=True) == (wanted, None, 0)
    for lead, before in LEADS.items():
        expected = (before + wanted, None, 0)
        assert outcome([lead, *pieces], Limits(), is_trusted=True) == expected
        assert outcome([lead + sent], Limits(), is_trusted=True) == expected


@settings(deadline=None)
@given(st.data(), st.lists(arguments, min_size=1, max_size=4))
def test_all_ways_agree_on_what_is_wrong(data: st.DataObject, sent: list[list[bytes]]) -> None:
    """RESP-8."""
    stream = bytearray().join([data.draw(st.sampled_from(SPELLINGS))(each) for each in sent])
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(stream)))
        end = start + data.draw(st.integers(0, 3))
        stream[start:end] = data.draw(st.sampled_from([*SPECIAL, b"", b"0", b"9", b"-", b":0\r\n"]))
    check(bytes(stream))


FRAMES = [mark + rest for mark in SPECIAL for rest in (b"1\r\n", b"0\r\n", b"5\r\ntxt:a\r\n")]
FRAMES += [
    PING,
    PUBLISH,
    b"$4\r\nPING\r\n",
    b"$0\r\n\r\n",
    b":0\r\n",
    b"#f\r\n",
    b"_\r\n",
    b"PING\n",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(FRAMES), max_size=8).map(b"".join))
@example(b"*2\r\n$1\r\na\r\n" + b"*1\r\n")
@example(PING + b":0\r\n" + PING)
@example(PING + b"#f\r\n")
@example(PING + b"$0\r\n\r\n")
def test_all_ways_agree_on_frames_that_are_no_requests(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())


def test_the_leads_are_long_enough_for_hiredis() -> None:
    assert min(map(len, LEADS)) >= PIPELINE_BYTES


def test_empty_lines_are_passed_over_together(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = RequestParser(Limits())
    requests.is_trusted = True
    found = requests.feed(b"PING\n" + b"\r\n\n" * 1000 + b"PING\r\n\r")
    assert found == [[b"PING"]] * 2
    assert requests.held == 1
    monkeypatch.delattr("headgate.wire.resp.codec.requests._words")
    assert requests.feed(b"\n" + b"\r\n" * 1000) == []


def test_an_argument_may_be_empty() -> None:
    """RESP-6: 0 is a length."""
    assert RequestParser(Limits()).feed(b"*2\r\n$0\r\n\r\n$1\r\nx\r\n") == [[b"", b"x"]]


@pytest.mark.skipif(compiled() is None, reason="there was no compiler")
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_what_is_compiled_takes_apart_what_the_exact_way_does(first: int) -> None:
    """RESP-8, RESP-9: as far as it goes, and it stops where a request is not plain."""
    found = compiled()
    assert found is not None
    for seed in range(first, first + 100):
        check_read(read(random.Random(seed)), found[1])
