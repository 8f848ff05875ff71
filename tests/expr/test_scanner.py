"""Bytes to tokens."""

from __future__ import annotations

from headgate.expr.scanner import END, INTEGER, INVALID, PROPERTY, STRING, Token, scan


def test_tokens_carry_their_byte_offsets() -> None:
    assert list(scan('s == "é" && ~x-1'.encode())) == [
        Token(PROPERTY, 0, "s"),
        Token("==", 2),
        Token(STRING, 5, "é"),
        Token("&&", 10),
        Token("!", 13),
        Token(PROPERTY, 14, "x"),
        Token("-", 15),
        Token(INTEGER, 16, 1),
        Token(END, 16),
    ]


def test_nothing_is_scanned_after_an_invalid_character() -> None:
    assert list(scan(b"x ? y")) == [Token(PROPERTY, 0, "x"), Token(INVALID, 2)]


def test_the_longest_operator_wins() -> None:
    kinds = [token.kind for token in scan(b"<=>=<>!===!~||&&")]
    assert kinds == ["<=", ">=", "<", ">", "!=", "==", "!", "!", "||", "&&", END]
