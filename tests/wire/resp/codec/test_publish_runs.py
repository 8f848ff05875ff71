"""PUBLISHes that are taken apart at once, and what is left to the exact way."""

from __future__ import annotations

from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.resp_requests import outcome
from headgate.core.model.limits import Limits
from headgate.wire.resp.codec.publish_runs import MANY_BYTES, STARTS, Run, pure_run_in, run_in
from headgate.wire.resp.codec.requests import HEADERS


def publish(channel: bytes, body: bytes, name: bytes = b"PUBLISH") -> bytes:
    words = (name, channel, body)
    return b"*3\r\n" + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("name", [b"PUBLISH", b"publish"])
def test_a_run_is_its_channels_and_its_bodies(name: bytes, count: int) -> None:
    """RESP-9."""
    pairs = [(b"c%d" % n, b"x" * n) for n in range(count)]
    sent = b"".join([publish(*pair, name) for pair in pairs])
    assert sent.startswith(STARTS)
    channels, bodies = map(list, zip(*pairs, strict=True))
    assert run_in(sent) == (channels, bodies, len(sent))


@pytest.mark.parametrize(
    "other", [b"*1\r\n$4\r\nPING\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", b"PING\r\n"]
)
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_a_run_ends_before_another_command(other: bytes, count: int) -> None:
    """RESP-9."""
    some = b"".join([publish(b"c%d" % n, b"x" * n) for n in range(count)])
    for more in (b"", some, other * 2):
        for way in (run_in, pure_run_in):
            run = way(some + other + more)
            agree(some + other + more, run)
            assert run is not None
            assert run[2] == len(some)


@pytest.mark.parametrize("body", [b"", b"reading", b"x" * 5000])
def test_many_that_are_alike_need_no_short_bodies(body: bytes) -> None:
    one = publish(b"c", body)
    count = MANY_BYTES // len(one) + 3
    wanted = ([b"c"] * count, [body] * count, len(one) * count)
    # Longer than any header that is at hand: then it is left to the exact way.
    assert pure_run_in(one * count) == (wanted if len(body) < len(HEADERS) else None)
    assert run_in(one * count) in (wanted, None)


@pytest.mark.parametrize("count", [2, 100])
def test_what_is_not_whole_is_left(count: int) -> None:
    """RESP-8: the run ends before it, or nothing is said at all."""
    for one in (publish(b"c", b"reading"), publish(b"c", b"1") + publish(b"d", b"reading")):
        for end in range(1, len(one)):
            run = run_in(one * count + one[:end])
            if run is not None:
                assert run[2] in (len(one) * count, len(one) * count + len(publish(b"c", b"1")))
                assert len(run[0]) == len(run[1])


@pytest.mark.parametrize(
    "other",
    [
        publish(b"c", b"\r\n"),
        publish(b"\r\n", b"b"),
        publish(b"c", b"b")[:-2] + b"??",
        publish(b"c", b"b").replace(b"$7", b"$8"),
        publish(b"c", b"b").replace(b"$1", b"$2"),
        publish(b"c", b"b").replace(b"$1", b"$01"),
        b"*2\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n",
        publish(b"c", b"b", b"PuBlIsH"),
        b"*3\r\n$7\r\nPUBLISH\r\n$",
    ],
)
def test_what_is_not_sure_is_left_to_the_exact_way(other: bytes) -> None:
    for sent in (other, publish(b"c", b"b") + other, other + publish(b"c", b"b")):
        if sent.startswith(STARTS):
            agree(sent, run_in(sent))
            agree(sent, pure_run_in(sent))
    if other.startswith(STARTS):
        assert pure_run_in(other) is None


def agree(sent: bytes, run: Run | None) -> None:
    """A run is what the exact way finds in the same bytes, one by one."""
    if run is not None:
        channels, bodies, end = run
        wanted = [[b"PUBLISH", *pair] for pair in zip(channels, bodies, strict=True)]
        pieces = [sent[at : min(at + 3, end)] for at in range(0, end, 3)]
        assert outcome(pieces, Limits(), is_trusted=True) == (wanted, None, 0)


HEAD = b"\r\n" + publish(b"c", b"x" * 40)[:-42]


@pytest.mark.parametrize(
    "middle",
    [
        publish(b"c", b"shorter"),
        publish(b"c", b"y" * 50),
        publish(b"d", b"x" * 40),
        publish(b"c", HEAD + b"y" * (40 - len(HEAD))),
        publish(b"c", b"y" * (40 - len(HEAD)) + HEAD),
        b"PING\r\n",
    ],
)
def test_one_among_many_may_be_another(middle: bytes) -> None:
    """Of another size, to another channel, or with a body that looks like others."""
    some = publish(b"c", b"x" * 40) * 50
    agree(some + middle + some, run_in(some + middle + some))
    agree(some + middle, run_in(some + middle))


SPECIAL = [b"\r\n", b"\r", b"\n", b"*", b"$", b"*3\r\n", b"$7\r\n", b"PUBLISH", b"a", b"1"]
texts = st.lists(st.sampled_from(SPECIAL), max_size=4).map(b"".join)


@given(
    st.lists(st.tuples(st.sampled_from([b"c", b"d"]) | texts, texts), min_size=1, max_size=4),
    st.integers(1, 6),
    st.data(),
)
def test_both_ways_agree_whatever_is_sent(
    pairs: list[tuple[bytes, bytes]], count: int, data: st.DataObject
) -> None:
    sent = bytearray().join([publish(*pair) for pair in islice(cycle(pairs), count)])
    for _ in range(data.draw(st.integers(0, 2))):
        start = data.draw(st.integers(0, len(sent)))
        sent[start : start + data.draw(st.integers(0, 3))] = data.draw(st.sampled_from(SPECIAL))
    if sent.startswith(STARTS):
        agree(bytes(sent), run_in(bytes(sent)))


@given(
    st.binary(max_size=2), st.integers(0, 12), st.lists(texts, min_size=1, max_size=3), st.data()
)
def test_both_ways_agree_on_many_that_are_alike(
    channel: bytes, size: int, drawn: list[bytes], data: st.DataObject
) -> None:
    """Bodies of one size, which may look like the beginning of another PUBLISH."""
    head = publish(channel, bytes(size))[: -size - 2]
    looks = [head[:size], head[-size:], (b"\r\n" + head)[:size]]
    drawn += data.draw(st.lists(st.sampled_from(looks), max_size=2))
    bodies = [(text + b"x" * size)[:size] for text in drawn]
    bodies *= MANY_BYTES // len(bodies) // (len(head) + size) + 2
    sent = b"".join([publish(channel, body) for body in bodies])
    end = data.draw(st.integers(len(head), len(sent)))
    odd = sent[:end] + data.draw(texts)
    agree(sent, run_in(sent))
    agree(odd, run_in(odd))
