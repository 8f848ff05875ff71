"""Frames between workers, as bytes: requests in the form in which clients send theirs.

So a run of PUBLISHes is parsed as fast as a client's, by the same code. The other frames are few,
and each is a word of its own; their numbers are written in digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from headgate.core.channels.audience import Framing, Kind
from headgate.core.channels.peers import InterestChange, Name
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import KiB
from headgate.errors import ProtocolError
from headgate.wire.resp.codec.replies import bulk

VERSION = 2
"""Version of this protocol. Workers of one router are of one version; a link with another ends."""

HELLO = b"HELLO"
HEAR = b"HEAR"
KNOW = b"KNOW"
BLOCK = b"BLOCK"
EASE = b"EASE"
BEAT = b"BEAT"
LISTEN = b"LISTEN"
OVERHEARD = b"OVERHEARD"
ASK = b"ASK"
ANSWER = b"ANSWER"
LANE = b"LANE"
PUBLISH = b"PUBLISH"
SPUBLISH = b"SPUBLISH"

WORDS = {Kind.EXACT: PUBLISH, Kind.SHARDED: SPUBLISH}
PUBLISHED = {word: kind for kind, word in WORDS.items()}
LETTERS = {Kind.EXACT: b"e", Kind.PATTERN: b"p", Kind.SHARDED: b"s"}
KINDS = {letter: kind for kind, letter in LETTERS.items()}

LONG_BYTES = 64 * KiB
"""Bytes of a frame that take longer to copy than to send by themselves."""

NAMES_AT_ONCE = 1000
"""Names in one frame. A worker with very many of them sends several frames."""

Words: TypeAlias = Sequence[bytes]


def frame(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


class PublishForm:
    """The form of messages on a link: the command that published them."""

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        head = b"*3\r\n" + bulk(WORDS[kind]) + bulk(channel)
        lead = head.replace(b"%", b"%%") + b"$%d\r\n"
        return Framing(lead.__mod__, b"\r\n", (head + b"$", b"\r\n"))


PUBLISH_FORM = PublishForm()


class Hello(NamedTuple):
    """The first frame of a link: the number of the worker, and of its life."""

    version: int
    worker: int
    start: int


def hello(worker: int, start: int) -> bytes:
    return frame(HELLO, b"%d" % VERSION, b"%d" % worker, b"%d" % start)


def read_hello(words: Words) -> Hello:
    if len(words) != 4 or words[0] != HELLO:
        raise ProtocolError("a link begins with HELLO")
    return Hello(*map(number, words[1:]))


def hear(announced: int, changes: Sequence[InterestChange]) -> Iterator[bytes]:
    """The frames of an announcement. Only the last one has its number, since the announcement is
    known when that one is."""
    while len(changes) > NAMES_AT_ONCE:
        yield frame(HEAR, b"", *_change_words(changes[:NAMES_AT_ONCE]))
        changes = changes[NAMES_AT_ONCE:]
    yield frame(HEAR, b"%d" % announced, *_change_words(changes))


def _change_words(changes: Iterable[InterestChange]) -> Iterator[bytes]:
    for kind, name, count in changes:
        yield from (LETTERS[kind], name, b"%d" % count)


def read_hear(words: Words) -> tuple[int | None, list[InterestChange]]:
    """The number of the announcement, if this is its last frame, and the changes."""
    if len(words) < 2 or (len(words) - 2) % 3:
        raise ProtocolError("HEAR has names with their kinds and counts")
    changes = [
        InterestChange(kind_of(kind), name, number(count))
        for kind, name, count in zip(words[2::3], words[3::3], words[4::3], strict=True)
    ]
    return (number(words[1]) if words[1] else None), changes


def know(announced: int) -> bytes:
    return frame(KNOW, b"%d" % announced)


def block(session: SessionId, name: Name) -> bytes:
    return frame(BLOCK, b"%d" % session, LETTERS[name[0]], name[1])


def read_block(words: Words) -> tuple[SessionId, Name]:
    if len(words) != 4:
        raise ProtocolError("BLOCK has a session, a kind and a name")
    return SessionId(number(words[1])), (kind_of(words[2]), words[3])


def ease(session: SessionId) -> bytes:
    return frame(EASE, b"%d" % session)


BEAT_FRAME = frame(BEAT)


def listen(is_listening: bool) -> bytes:
    return frame(LISTEN, b"%d" % is_listening)


def overheard(line: bytes) -> bytes:
    return frame(OVERHEARD, line)


def ask(question: int, words: Words) -> bytes:
    return frame(ASK, b"%d" % question, *words)


def answer(question: int, content: bytes) -> Iterator[bytes]:
    """The frame of an answer, in parts if it is long: it is not copied then."""
    head = b"*3\r\n" + bulk(ANSWER) + bulk(b"%d" % question) + b"$%d\r\n" % len(content)
    if len(content) > LONG_BYTES:
        yield from (head, content, b"\r\n")
    else:
        yield head + content + b"\r\n"


def lane(blob: bytes) -> bytes:
    """A frame with commands of a front's sessions, or effects for them. The lane knows its
    contents."""
    return b"*2\r\n%b$%d\r\n%b\r\n" % (bulk(LANE), len(blob), blob)  # which is copied once


def number(word: bytes) -> int:
    if not word.isdigit() or len(word) > 18:
        raise ProtocolError("a number is digits")
    return int(word)


def kind_of(letter: bytes) -> Kind:
    if letter not in KINDS:
        raise ProtocolError("a kind is e, p or s")
    return KINDS[letter]
