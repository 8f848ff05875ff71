"""Bytes to tokens.

Offsets count bytes, as the limit on the length does. A string literal may hold any byte;
bytes that are not UTF-8 become surrogates, as they do in the properties of a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from headgate.errors import ExpressionError
from headgate.expr.types import INT64_MAX, INT64_MIN

PROPERTY = "property"
INTEGER = "integer"
STRING = "string"
END = "end of expression"
INVALID = "invalid character"

INTEGER_DIGITS_MAX = 19
"""Digits of the largest 64-bit integer. Python takes quadratic time to parse an int."""

OPERANDS = frozenset({PROPERTY, INTEGER, STRING, "true", "false", "exists", ")"})
"""After one of these a minus is the binary operator, even if digits follow: ``x-2``."""

# S003-65: other spellings of these are names.
WORDS = {b"true": "true", b"false": "false", b"exists": "exists"}

TOKEN = re.compile(
    # S003-47: blanks, tabs and line feeds only separate tokens.
    rb"(?P<blank>[ \t\n]+)"
    # S003-52, S003-53, S003-55, S003-58: a letter first, then also digits, underscores and dots.
    rb"|(?P<word>[a-zA-Z][a-zA-Z0-9_.]*)"
    rb"|(?P<digits>[0-9]+)"
    # S003-70, BMQ-19: a single =, & or | is not an operator.
    rb"|(?P<operator>\|\||&&|[=!<>]=|[-+*/%<>!~()])"
    # S003-61: everything between the quotes, blanks too.
    rb'|(?P<string>"[^"\\]*(?:\\["\\][^"\\]*)*)'
)
DIGITS = re.compile(rb"[0-9]+")
ESCAPE = re.compile(rb'\\(["\\])')


class Token(NamedTuple):
    """`kind` is its name in error texts: the operator itself, or one of the names above."""

    kind: str
    offset: int
    value: int | str = ""


def encode(text: str | bytes) -> bytes:
    """The bytes of an expression, or an error if it has a surrogate that is not a byte."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        offset = len(text[: error.start].encode("utf-8", "surrogateescape"))
        raise ExpressionError("SYNTAX", "syntax error, not UTF-8", text, offset) from None


def decode(source: bytes) -> str:
    return source.decode("utf-8", "surrogateescape")


def scan(source: bytes) -> Iterator[Token]:
    """The tokens, the last of which is END; raise where a literal is wrong."""
    position = 0
    previous = Token(END, 0)
    while position < len(source):
        found = TOKEN.match(source, position)
        if found is None:
            yield Token(INVALID, position)
            return
        start, position = position, found.end()
        match found.lastgroup:
            case "blank":
                continue
            case "word":
                word = found[0]
                # S003-5, S003-54, BMQ-13: a bare word is a name, with its case.
                previous = Token(WORDS.get(word, PROPERTY), start, word.decode())
            case "digits":
                previous = _integer(source, start, found[0])
            # S003-59: a minus belongs to the digits unless it follows an operand.
            case "operator" if found[0] == b"-" and previous.kind not in OPERANDS:
                digits = DIGITS.match(source, position)
                if digits is None:
                    previous = Token("-", start)
                else:
                    position = digits.end()
                    previous = _integer(source, start, b"-" + digits[0])
            case "operator":
                kind = found[0].decode()
                previous = Token("!" if kind == "~" else kind, start)
            case _:
                # S003-63, S003-64: it stopped at the end, or at a backslash before something else.
                if source[position : position + 1] != b'"':
                    raise _bad_string(source, start, position)
                position += 1
                # S003-62: a backslash escapes a quote or a backslash.
                text = ESCAPE.sub(rb"\1", source[start + 1 : position - 1])
                previous = Token(STRING, start, decode(text))
        yield previous
    # There is nothing after the last token, so the end points at that token.
    yield Token(END, previous.offset)


def _integer(source: bytes, offset: int, digits: bytes) -> Token:
    sign, magnitude = (-1, digits[1:]) if digits[:1] == b"-" else (1, digits)
    magnitude = magnitude.lstrip(b"0")
    if len(magnitude) <= INTEGER_DIGITS_MAX:
        value = sign * int(magnitude or b"0")
        # S003-60, BMQ-6: 64 bits with a sign.
        if INT64_MIN <= value <= INT64_MAX:
            return Token(INTEGER, offset, value)
    raise ExpressionError("SYNTAX", "integer overflow", decode(source), offset)


def _bad_string(source: bytes, start: int, end: int) -> ExpressionError:
    if end + 1 < len(source):  # at a backslash, and what follows it is not to be escaped
        message = 'syntax error, only \\" and \\\\ are escapes'
        return ExpressionError("SYNTAX", message, decode(source), end)
    return ExpressionError("SYNTAX", "syntax error, unterminated string", decode(source), start)
