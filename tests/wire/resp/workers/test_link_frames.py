"""What goes over a link is what came, in whatever pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.channels.audience import Kind
from headgate.core.channels.peers import InterestChange
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.errors import ProtocolError
from headgate.wire.resp.codec.publish_runs import run_in
from headgate.wire.resp.codec.requests import RequestParser
from headgate.wire.resp.workers import link_frames as frames

NAMES = st.binary(max_size=40)
KINDS = st.sampled_from(Kind)
CHANGES = st.lists(st.builds(InterestChange, KINDS, NAMES, st.integers(0, 10**9)))


def parsed(blob: bytes, cut: int = 0) -> list[list[bytes]]:
    parser = RequestParser(Limits())
    parser.is_trusted = True
    return parser.feed(blob[:cut]) + parser.feed(blob[cut:])


@given(st.integers(0, 10**12), CHANGES, st.integers(0, 200))
def test_an_announcement_is_read_as_it_was_written(
    announced: int, changes: list[InterestChange], cut: int
) -> None:
    blob = b"".join(frames.hear(announced, changes))
    read = [frames.read_hear(words) for words in parsed(blob, cut)]
    assert [number for number, _ in read] == [None] * (len(read) - 1) + [announced]
    assert [change for _, some in read for change in some] == changes


def test_very_many_names_are_told_in_several_frames() -> None:
    changes = [InterestChange(Kind.EXACT, b"%d" % n, 1) for n in range(2500)]
    read = [frames.read_hear(words) for words in parsed(b"".join(frames.hear(7, changes)))]
    assert [number for number, _ in read] == [None] * 24 + [7]
    assert [change for _, some in read for change in some] == changes


@given(st.integers(0, 2**53), KINDS, NAMES)
def test_who_blocks_is_read_as_it_was_written(session: int, kind: Kind, name: bytes) -> None:
    [words] = parsed(frames.block(SessionId(session), (kind, name)))
    assert frames.read_block(words) == (session, (kind, name))


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_hello_is_read_as_it_was_written(worker: int, start: int) -> None:
    [words] = parsed(frames.hello(worker, start))
    assert frames.read_hello(words) == (frames.VERSION, worker, start)


@given(st.integers(0, 10**12), st.binary(), st.sampled_from((0, frames.LONG_BYTES)))
def test_an_answer_is_read_as_it_was_written(question: int, content: bytes, more: int) -> None:
    content += bytes(more)
    [words] = parsed(b"".join(frames.answer(question, content)))
    assert words == [frames.ANSWER, b"%d" % question, content]


def test_a_long_answer_is_not_copied() -> None:
    content = bytes(frames.LONG_BYTES + 1)
    assert any(part is content for part in frames.answer(1, content))


@given(st.sampled_from((Kind.EXACT, Kind.SHARDED)), NAMES, st.lists(st.binary(), min_size=1))
def test_messages_are_the_commands_that_publish_them(
    kind: Kind, channel: bytes, bodies: list[bytes]
) -> None:
    lead, tail, _ = frames.PUBLISH_FORM.framing(kind, channel, channel)
    blob = b"".join(lead(len(body)) + body + tail for body in bodies)
    assert parsed(blob) == [[frames.WORDS[kind], channel, body] for body in bodies]


def test_a_run_of_messages_is_taken_apart_as_that_of_a_client() -> None:
    lead, tail, _ = frames.PUBLISH_FORM.framing(Kind.EXACT, b"50%", b"50%")
    blob = b"".join(lead(3) + b"%03d" % n + tail for n in range(500))
    run = run_in(blob)
    assert run is not None
    assert run[0] == [b"50%"] * 500
    assert run[1] == [b"%03d" % n for n in range(500)]
    assert run[2] == len(blob)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (frames.read_hello, [b"HELLO", b"1"]),
        (frames.read_hello, [b"PING", b"1", b"2", b"3"]),
        (frames.read_hello, [b"HELLO", b"x", b"2", b"3"]),
        (frames.read_hear, [b"HEAR"]),
        (frames.read_hear, [b"HEAR", b"1", b"e", b"news"]),
        (frames.read_hear, [b"HEAR", b"1", b"?", b"news", b"1"]),
        (frames.read_hear, [b"HEAR", b"1", b"e", b"news", b"-1"]),
        (frames.read_block, [b"BLOCK", b"1"]),
    ],
)
def test_what_no_worker_says_is_refused(read: object, words: list[bytes]) -> None:
    assert callable(read)
    with pytest.raises(ProtocolError):
        read(words)
