"""A small interpreter of expressions, written from docs/reference/expressions.md.

It goes through the text anew for every message and knows no shortcuts.
"""

from __future__ import annotations

import re

from tests.strangers.bmq_wire import BINARY, Properties

LEAST, MOST = -(2**63), 2**63 - 1
TOKEN = re.compile(
    r"""(?P<blank>[ \t\n]+)
      |(?P<name>[A-Za-z][A-Za-z0-9_.]*)
      |(?P<integer>[0-9]+)
      |(?P<string>"(?:[^"\\]|\\["\\])*")
      |(?P<operator>\|\||&&|==|!=|<=|>=|[<>+\-*/%!~()])""",
    re.VERBOSE,
)
LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))

Tree = tuple["str | int | bool | Tree", ...]
Result = bool | int | bytes


class Refused(Exception):
    """The text is not an expression that can be used."""


class NoValue(Exception):
    """The expression has no value for this message."""


def tree(text: str) -> Tree:
    """What the text says; raises Refused."""
    if len(text.encode()) > 128:
        raise Refused("TOO_LONG")
    reader = _Reader(text)
    whole = reader.level(0)
    if reader.token:
        raise Refused("SYNTAX")
    if reader.operators > 64:
        raise Refused("TOO_COMPLEX")
    if not reader.properties:
        raise Refused("NO_PROPERTIES")
    return whole


class _Reader:
    def __init__(self, text: str) -> None:
        self.operators = 0
        self.properties = 0
        self._tokens: list[tuple[str, str, bool]] = []
        at = 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise Refused("SYNTAX")
            kind, word = str(found.lastgroup), found[0]
            if kind != "blank":
                touches = at + len(word) < len(text) and text[at + len(word)].isdigit()
                self._tokens.append((kind, word, touches))
            at = found.end()
        self._at = 0

    @property
    def token(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, *words: str) -> str:
        """The token, if it is one of these operators."""
        if self._at < len(self._tokens) and self._tokens[self._at][1] in words:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return ""

    def level(self, depth: int) -> Tree:
        if depth == len(LEVELS):
            return self._prefix()
        left = self.level(depth + 1)
        while operator := self._take(*LEVELS[depth]):
            self.operators += 1
            left = (operator, left, self.level(depth + 1))
        return left

    def _prefix(self) -> Tree:
        if self.token == "-" and self._tokens[self._at][2]:
            self._at += 1
            return self._integer(-1)
        if operator := self._take("!", "~", "-"):
            self.operators += 1
            return ("negative" if operator == "-" else "!", self._prefix())
        return self._primary()

    def _integer(self, sign: int) -> Tree:
        number = sign * int(self.token)
        self._at += 1
        if not LEAST <= number <= MOST:
            raise Refused("SYNTAX")
        return ("literal", number)

    def _primary(self) -> Tree:
        if self._at == len(self._tokens):
            raise Refused("SYNTAX")
        kind, word, _ = self._tokens[self._at]
        if kind == "integer":
            return self._integer(1)
        self._at += 1
        if kind == "string":
            return ("text", re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL))
        if word in ("true", "false"):
            return ("literal", word == "true")
        if word == "exists" and self.token == "(":
            self._at += 1
            if self._at == len(self._tokens) or self._tokens[self._at][0] != "name":
                raise Refused("SYNTAX")
            name = self.token
            self._at += 1
            if name in ("true", "false") or not self._take(")"):
                raise Refused("SYNTAX")
            self.properties += 1
            return ("exists", name)
        if kind == "name":
            self.properties += 1
            return ("name", word)
        if word == "(":
            inside = self.level(0)
            if not self._take(")"):
                raise Refused("SYNTAX")
            return inside
        raise Refused("SYNTAX")


def matches(expression: Tree, properties: Properties) -> bool:
    """Whether the expression is true for a message with these properties."""
    try:
        return value(expression, properties)
    except NoValue:
        return False


def value(expression: Tree, properties: Properties) -> bool:
    """Whether it is true; raises NoValue."""
    return _boolean(_value(expression, properties))


def _value(expression: Tree, properties: Properties) -> Result:
    operator, *operands = expression
    if operator == "literal":
        assert isinstance(operands[0], bool | int)
        return operands[0]
    if operator == "text":
        return str(operands[0]).encode()
    if operator == "exists":
        kind, _ = properties.get(str(operands[0]), (BINARY, b""))
        return kind != BINARY
    if operator == "name":
        if operands[0] not in properties:
            raise NoValue("NAME")
        kind, found = properties[str(operands[0])]
        if kind == BINARY or isinstance(found, bytes):
            raise NoValue("TYPE")
        return found.encode() if isinstance(found, str) else found
    left_tree = operands[0]
    assert isinstance(left_tree, tuple)
    left = _value(left_tree, properties)
    if operator == "!":
        return not _boolean(left)
    if operator == "negative":
        return _fitting(-_integer(left))
    right_tree = operands[1]
    assert isinstance(right_tree, tuple)
    if operator == "&&":
        return _boolean(left) and _boolean(_value(right_tree, properties))
    if operator == "||":
        return _boolean(left) or _boolean(_value(right_tree, properties))
    return _binary(str(operator), left, _value(right_tree, properties))


def _binary(operator: str, left: Result, right: Result) -> Result:
    if operator in ("==", "!="):
        if type(left) is not type(right):
            raise NoValue("TYPE")
        return (left == right) is (operator == "==")
    if operator in ("<", "<=", ">", ">="):
        if type(left) is not type(right) or isinstance(left, bool):
            raise NoValue("TYPE")
        order = (left > right) - (left < right)  # type: ignore[operator]
        return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]
    first, second = _integer(left), _integer(right)
    if operator == "+":
        return _fitting(first + second)
    if operator == "-":
        return _fitting(first - second)
    if operator == "*":
        return _fitting(first * second)
    if second == 0 or (first == LEAST and second == -1):
        raise NoValue("ARITHMETIC")
    quotient = abs(first) // abs(second) * (1 if (first < 0) is (second < 0) else -1)
    return quotient if operator == "/" else first - quotient * second


def _boolean(operand: Result) -> bool:
    if not isinstance(operand, bool):
        raise NoValue("TYPE")
    return operand


def _integer(operand: Result) -> int:
    if isinstance(operand, bool | bytes):
        raise NoValue("TYPE")
    return operand


def _fitting(result: int) -> int:
    if not LEAST <= result <= MOST:
        raise NoValue("ARITHMETIC")
    return result
