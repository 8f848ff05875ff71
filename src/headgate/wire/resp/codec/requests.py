"""Requests of Redis clients, taken apart from the bytes that they send.

Most reads are a pipeline: many requests, and perhaps the beginning of another one. There are three
ways to take one apart. They agree on every input; the faster two give up when they are not sure.
Compiled there is one fast way in place of those two, and it gives up at what is not plain.

* `_read` hands the bytes to hiredis, which is a parser of *replies*. It knows types that have no
  place in a request, and some of them come out as if they were arguments; it also makes room for
  as many elements as a header announces. So it is only given bytes that cannot mean either.
* `_cut` cuts at every line end and looks whether all lengths are right. It wants requests with the
  same number of arguments, and no line end inside of an argument.
* `RequestParser._next` takes one request after another. It is exact about errors and limits, and it
  is the only one that keeps the beginning of a request until the rest of it comes.

The two bytes behind an argument are skipped and not looked at, as Redis does.
"""

from __future__ import annotations

import re
from itertools import chain

import hiredis

from headgate.compiled import part
from headgate.core.model.limits import KiB, Limits
from headgate.errors import ProtocolError
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import CommandError

LINE_BYTES = 64 * KiB
"""A line, with the carriage return that may be at its end."""
UNTRUSTED_ARGUMENTS = 10
UNTRUSTED_BYTES = 16 * KiB

PIPELINE_BYTES = 2 * KiB
"""In shorter reads are few requests, and hiredis takes longer to start than it saves."""
TAIL_BYTES = 8 * KiB
"""In so much of a read the beginning of its last request is looked for. Longer ones are few, and
taken one by one."""
SHORT_BYTES = 512
"""In shorter reads is often one request alone."""
ARGUMENT_BYTES = len(b"$0\r\n\r\n")
"""The shortest argument."""

CRLF = b"\r\n"
STAR = ord("*")
COUNTS = {b"*%d" % count: count for count in range(1, 128)}
SIZES = {b"$%d" % size: size for size in range(4096)}
"""Most headers are among these."""
HEADERS = list(SIZES)
HTTP = frozenset((b"post", b"host:"))
"""A web page can make a browser send these to a port of its choice, with commands behind them."""


class RequestParser:
    """The requests of one client.

    A read is judged by what `is_trusted` is when it comes: a client that sends AUTH and a large
    request at once is still somebody who did not say who it is.
    """

    __slots__ = (
        "_arguments",
        "_limits",
        "_missing",
        "_needed",
        "_short_bytes",
        "_taken",
        "error",
        "harmless_bytes",
        "is_trusted",
        "unread",
    )

    def __init__(self, limits: Limits) -> None:
        self.is_trusted = False
        """False before the client said who it is; then its requests have to be small."""
        self.error: str | None = None
        """How the client broke the protocol; empty if it is not even a client of Redis. From then
        on there are no requests."""
        self._limits = limits
        self.harmless_bytes = min(
            limits.bulk_bytes, limits.request_bytes, limits.arguments * ARGUMENT_BYTES
        )
        """No request in so many bytes can be over a limit."""
        self._short_bytes = min(SHORT_BYTES, self.harmless_bytes)
        self.unread: bytearray | None = None
        """The end of what came, if it is not a whole request; it is looked at again when more
        comes. One that has some of its arguments is here without them."""
        self._needed = 0
        """How long that has to be before it is worth a look; 0 if it needs the end of a line."""
        self._arguments: list[bytes] = []
        self._missing = 0
        """Arguments that the request does not have yet."""
        self._taken = 0
        """Bytes of the request that are not in `unread` any more."""

    @property
    def held(self) -> int:
        """Bytes of a request that is not whole."""
        return 0 if self.unread is None else self._taken + len(self.unread)

    def is_idle(self, size: int) -> bool:
        """Whether nothing is kept and no request in so many bytes can be refused for its size: then
        whoever knows better may take a read apart."""
        return (
            self.unread is None
            and self.error is None
            and self.is_trusted
            and size <= self.harmless_bytes
        )

    def feed(self, data: bytes) -> list[list[bytes]]:
        """Take what the client sent; return the requests that are whole, without empty ones.

        Requests before an error are still returned.
        """
        if self.error is not None:
            return []
        if len(data) <= self._short_bytes and self.unread is None and self.is_trusted:
            # A client that waits for each answer sends this, so it has a way of its own.
            few, end = short(data)
            if end == len(data):
                return few
        whole: list[list[bytes]] = []
        position = 0
        try:
            if self.unread is not None:
                self.unread += data
                if not self._is_worth_a_look(data):
                    return whole
                data = bytes(self.unread)
                self.unread = None
                position = self._next(data, 0, whole)
            if (
                data.startswith(b"*", position)
                and len(data) - position <= self.harmless_bytes
                and self.is_trusted
            ):
                data = data[position:]
                many, position = pipeline(data)
                whole = whole + many if whole else many
            while position < len(data):
                position = self._next(data, position, whole)
        except ProtocolError as broken:
            self.error = str(broken)
            self.unread = None
            self._arguments = []
        return whole

    def _is_worth_a_look(self, data: bytes) -> bool:
        assert self.unread is not None, "something is not whole"
        if self._needed:
            return len(self.unread) >= self._needed
        is_first = len(self.unread) == len(data)
        return is_first or b"\n" in data or len(self.unread) > LINE_BYTES

    def _next(self, data: bytes, position: int, whole: list[list[bytes]]) -> int:
        """Take one request, or the rest of it; return where the next one starts.

        One that is not whole is kept, and nothing is left of the data.
        """
        missing = self._missing
        start = position - self._taken
        if not missing:
            if data[position] != STAR:
                return self._next_line(data, position, whole)
            end = data.find(CRLF, position)
            if not 0 <= end - position < LINE_BYTES:
                return self._wait_for_line(data, position, start, "too big mbulk count string")
            missing = self._count(data[position:end])
            position = end + 2
            # RESP-2: a request of nothing has no answer.
            if missing <= 0:
                return position
        arguments = self._arguments
        most = self._limits.bulk_bytes
        if not self.is_trusted:
            most = min(most, UNTRUSTED_BYTES)
        stop = min(len(data), start + self._limits.request_bytes)
        for left in range(missing, 0, -1):
            end = data.find(CRLF, position)
            size = SIZES.get(data[position:end]) if end > 0 else None
            if size is None:
                _check_mark(data[position : position + 1])
                if not 0 <= end - position < LINE_BYTES:
                    self._missing = left
                    return self._wait_for_line(data, position, start, "too big bulk count string")
                size = _number(data[position:end], "invalid bulk length")
            # RESP-6: neither negative nor too large.
            if not 0 <= size <= most:
                is_known = 0 <= size <= self._limits.bulk_bytes
                raise ProtocolError(f"{'unauthenticated' if is_known else 'invalid'} bulk length")
            first = end + 2
            last = first + size
            if last + 2 > stop:
                if last + 2 - start > self._limits.request_bytes:
                    raise ProtocolError("too big request")
                self._missing = left
                return self._wait(data, position, start, needed=last + 2 - position)
            arguments.append(data[first:last])
            position = last + 2
        whole.append(arguments)
        self._arguments = []
        self._missing = self._taken = 0
        return position

    def _next_line(self, data: bytes, position: int, whole: list[list[bytes]]) -> int:
        """A request as people type it."""
        if data[position] in EMPTY_STARTS and (empty := EMPTY_LINES.match(data, position)):
            return empty.end()
        end = data.find(b"\n", position, position + LINE_BYTES + 1)
        if end < 0:
            return self._wait_for_line(data, position, position, "too big inline request")
        # RESP-1: a line, with or without a carriage return, and with blanks.
        words = _words(data[position:end])
        if words:
            if words[0].lower() in HTTP:
                raise ProtocolError("")
            whole.append(words)
        return end + 1

    def _wait_for_line(self, data: bytes, position: int, start: int, error: str) -> int:
        # RESP-7: 64 KiB without an end are no line.
        if len(data) - position > LINE_BYTES:
            raise ProtocolError(error)
        return self._wait(data, position, start, needed=0)

    def _wait(self, data: bytes, position: int, start: int, needed: int) -> int:
        # RESP-8: what is not whole waits for the rest, wherever it was cut.
        self.unread = bytearray(data[position:])
        self._needed = needed
        self._taken = position - start
        return len(data)

    def _count(self, header: bytes) -> int:
        """How many arguments are announced. A request of none, or less, is empty."""
        count = COUNTS.get(header)
        if count is None:
            count = _number(header, "invalid multibulk length")
        # RESP-4: more than a request may have.
        if count > self._limits.arguments:
            raise ProtocolError("invalid multibulk length")
        if count > UNTRUSTED_ARGUMENTS and not self.is_trusted:
            raise ProtocolError("unauthenticated multibulk length")
        return count


def _number(header: bytes, error: str) -> int:
    try:
        return integer(header[1:])
    except CommandError:
        raise ProtocolError(error) from None


def _check_mark(mark: bytes) -> None:
    # RESP-5: the first byte is quoted.
    if mark and mark != b"$":
        raise ProtocolError(f"expected '$', got '{repr(mark)[2:-1]}'")


# Pipelines.

AMBIGUOUS = (b"+", b"=", b"(", b"~", b"|", b">", b"%")
"""hiredis makes bytes of the first three and lists of the next three: a simple string, a verbatim
one and a long number, a set, attributes and a push. The last is a map, whose keys it hashes."""
MANY = re.compile(rb"\*[0-9]{5}")
"""The header of a list for which hiredis would make room, though its elements may never come:
13 bytes that announce 400 million kept the router busy for 0.7 s."""

NOT_WHOLE = object()
END = b":7\r\n"


def pure_pipeline(data: bytes) -> tuple[list[list[bytes]], int]:
    """Whole requests at the start of the data, and where they end.

    There may be more, and even none is no fault.
    """
    end = len(data)
    if not data.endswith(CRLF):
        end = data.rfind(b"\r\n*", -TAIL_BYTES) + 2
        if end < 2:
            return [], 0
    requests = _read(data[:end]) if end >= PIPELINE_BYTES else None
    return _cut(data) if requests is None else (requests, end)


def pure_short(data: bytes) -> tuple[list[list[bytes]], int]:
    """The one request that is all of the data, and its end."""
    lines = data.split(CRLF)
    count = COUNTS.get(lines[0])
    if count is not None and len(lines) == 2 * count + 2 and not lines[-1]:
        arguments = lines[2::2]
        if _headers(arguments) == lines[1:-1:2]:
            return [arguments], len(data)
    return [], 0


short = part("headgate.wire.resp.codec._requests", "pipeline", pure_short)
pipeline = part("headgate.wire.resp.codec._requests", "pipeline", pure_pipeline)


def _read(data: bytes) -> list[list[bytes]] | None:
    """The requests, if there is nothing else in the data and nothing to be careful about."""
    if any(map(data.__contains__, AMBIGUOUS)) or MANY.search(data):
        return None
    reader = hiredis.Reader(notEnoughData=NOT_WHOLE)
    reader.feed(data)
    try:
        requests = list(iter(reader.gets, NOT_WHOLE))
        # It does not tell whether it is inside of something; but only if it is not, this comes out.
        reader.feed(END)
        if reader.gets() != 7 or set(map(type, requests)) != {list}:
            return None
        b"".join(chain.from_iterable(requests))  # the fastest way to see that all are bytes
    except (hiredis.ProtocolError, TypeError):
        return None
    return requests if all(requests) else [request for request in requests if request]


def _cut(data: bytes) -> tuple[list[list[bytes]], int]:
    """The requests that no argument with a line end stands in front of, and where they end."""
    lines = data.split(CRLF)
    requests = _alike(lines)
    if requests is None:
        requests = _different(lines)
    rest = lines[len(requests) + 2 * sum(map(len, requests)) :]
    return requests, len(data) - sum(map(len, rest)) - len(CRLF) * (len(rest) - 1)


def _alike(lines: list[bytes]) -> list[list[bytes]] | None:
    """The requests, if all have as many arguments as the first one."""
    first = lines[0]
    count = COUNTS.get(first)
    if count is None:
        return []
    step = 1 + 2 * count
    number = (len(lines) - 1) // step
    whole = lines[: number * step]
    if whole[::step].count(first) != number:
        return None
    del whole[::step]
    arguments = whole[1::2]
    if _headers(arguments) != whole[::2]:
        return None
    return [arguments[at : at + count] for at in range(0, len(arguments), count)]


def _different(lines: list[bytes]) -> list[list[bytes]]:
    """The requests, one after another, up to the first that is not as plain."""
    requests = []
    at = 0
    while (count := COUNTS.get(lines[at])) is not None and (end := at + 1 + 2 * count) < len(lines):
        arguments = lines[at + 2 : end : 2]
        if _headers(arguments) != lines[at + 1 : end : 2]:
            break
        requests.append(arguments)
        at = end
    return requests


def _headers(arguments: list[bytes]) -> list[bytes]:
    try:
        return list(map(HEADERS.__getitem__, map(len, arguments)))
    except IndexError:
        return [b"$%d" % len(argument) for argument in arguments]


# Lines.

# Written so that there is one way to read a line: possessive quantifiers would say it shorter, and
# forget groups before Python 3.11.5.
WORD = re.compile(
    rb"""\s*(?!\s)([^\s"']*)(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\'|\\(?!'))*)')?(?!\S)""",
    re.DOTALL,
)
ESCAPED = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
EMPTY_LINES = re.compile(rb"(?:\r?\n)+")
EMPTY_STARTS = b"\r\n"
CONTROLS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def _words(line: bytes) -> list[bytes]:
    """The arguments in a line: blanks part them, quotes keep them together."""
    if b'"' not in line and b"'" not in line:
        return line.split()
    words = []
    position = 0
    line = line.rstrip()
    while position < len(line):
        match = WORD.match(line, position)
        # RESP-3: quotes that do not match end the session.
        if match is None:
            raise ProtocolError("unbalanced quotes in request")
        plain, double, single = match.groups(b"")
        words.append(plain + ESCAPED.sub(_unescaped, double) + single.replace(b"\\'", b"'"))
        position = match.end()
    return words


def _unescaped(match: re.Match[bytes]) -> bytes:
    code, character = match.groups()
    return bytes.fromhex(code.decode()) if code else CONTROLS.get(character, character)
