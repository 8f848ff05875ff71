"""Text to tree: operator precedence with two stacks.

The stacks are lists, not the interpreter's: an expression may be as long as its limit allows, and
64 KiB of ``(`` or ``!`` must end in an error, not in a crash. The limits on operators and depth are
checked after the last token, since a syntax error takes precedence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headgate.errors import ExpressionError
from headgate.expr import scanner
from headgate.expr.nodes import (
    COMPARISON,
    DEPTH_MAX,
    PRECEDENCE,
    PREFIX,
    Binary,
    Boolean,
    Exists,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
)
from headgate.expr.scanner import Token


@dataclass(frozen=True, slots=True)
class ExpressionLimits:
    """How long and how deep an expression may be."""

    bytes: int = 128
    """Of UTF-8, blanks included."""

    operators: int = 64
    """Unary and binary operators; names, literals, ``exists(...)`` and parentheses are free."""


DEFAULT_LIMITS = ExpressionLimits()


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of parsing: the tree, and what it does not show."""

    text: str
    tree: Tree
    chains: tuple[Binary, ...]
    """Comparisons whose left side is a comparison without parentheses: ``a < b < c``."""


def parse(text: str | bytes, limits: ExpressionLimits = DEFAULT_LIMITS) -> Tree:
    return read(text, limits).tree


def read(text: str | bytes, limits: ExpressionLimits = DEFAULT_LIMITS) -> Reading:
    """Parse, or raise an `ExpressionError`.

    The first of these that applies: TOO_LONG, SYNTAX, TOO_COMPLEX, NO_PROPERTIES.
    """
    # A character takes at least a byte, so texts with too many are not encoded.
    source = b"" if len(text) > limits.bytes else scanner.encode(text)
    size = max(len(text), len(source))
    # S003-50, BMQ-16: 128 bytes are accepted, 129 are not.
    if size > limits.bytes:
        shown = text if isinstance(text, str) else scanner.decode(text)
        message = f"expression is too long ({size} bytes), the limit is {limits.bytes}"
        raise ExpressionError("TOO_LONG", message, shown, limits.bytes)
    return _Parser(source, limits).read()


class _Operand(NamedTuple):
    """A part of an expression and its place in the text."""

    tree: Tree
    depth: int
    bare: bool
    """Without parentheses."""


class _Operator(NamedTuple):
    """An operator whose right operand is still to come."""

    symbol: str
    level: int
    offset: int


class _Parser:
    """Reads one expression from left to right, by the precedence of its operators.

    Made by `parse` for each text. Every error has the place where it is.
    """

    def __init__(self, source: bytes, limits: ExpressionLimits) -> None:
        self.source = source
        self.limits = limits
        self.tokens = scanner.scan(source)
        self.token = next(self.tokens)
        self.operands: list[_Operand] = []
        self.pending: list[_Operator] = []
        self.chains: list[Binary] = []
        self.operators = 0
        self.operator_over: int | None = None
        self.depth_over: int | None = None
        self.has_property = False

    def read(self) -> Reading:
        while True:
            self.operand()
            while self.token.kind == ")":
                self.close()
            if self.token.kind == scanner.END:
                break
            self.binary()
        self.reduce(0)
        if self.pending:  # an open parenthesis
            raise self.unexpected()
        self.check()
        tree = self.operands.pop().tree
        return Reading(scanner.decode(self.source), tree, tuple(self.chains))

    def operand(self) -> None:
        """Read prefixes and open parentheses, and the primary after them."""
        # S003-46: there are only operands, operators and parentheses.
        while self.token.kind in ("!", "-", "("):
            token = self.advance()
            if token.kind == "(":
                self.pending.append(_Operator("(", 0, token.offset))
            else:
                self.push(token, PREFIX)
        match self.token.kind:
            case scanner.PROPERTY:
                self.primary(Property(str(self.advance().value)))
            case "exists":
                self.exists()
            case scanner.INTEGER:
                self.primary(Integer(int(self.advance().value)))
            case scanner.STRING:
                self.primary(Text(str(self.advance().value)))
            case "true" | "false" as word:
                self.advance()
                self.primary(Boolean(word == "true"))
            case _:
                raise self.unexpected()

    def exists(self) -> None:
        """Parse ``exists``: a function before a parenthesis, a property elsewhere."""
        self.advance()
        if self.token.kind != "(":
            self.primary(Property("exists"))
            return
        self.advance()
        if self.token.kind not in (scanner.PROPERTY, "exists"):
            raise self.unexpected()
        name = str(self.advance().value)
        if self.token.kind != ")":
            raise self.unexpected()
        self.advance()
        self.primary(Exists(name))

    def primary(self, tree: Tree) -> None:
        self.has_property |= isinstance(tree, Property | Exists)
        self.operands.append(_Operand(tree, 1, bare=True))

    def close(self) -> None:
        self.reduce(1)
        if not self.pending:
            raise self.unexpected()
        self.pending.pop()
        # S003-82: a pair of parentheses is one operand from here on.
        inside = self.operands.pop()
        self.operands.append(_Operand(inside.tree, inside.depth, bare=False))
        self.advance()

    def binary(self) -> None:
        level = PRECEDENCE.get(self.token.kind)
        # S003-79: after an operand comes an operator, or the end.
        if level is None:
            raise self.unexpected()
        # S003-80, S003-81, S003-83, BMQ-21: of equal precedence the left one is first.
        self.reduce(level)
        self.push(self.advance(), level)

    def push(self, token: Token, level: int) -> None:
        self.operators += 1
        # BMQ-17: operators are counted, names and parentheses are free.
        if self.operators == self.limits.operators + 1:
            self.operator_over = token.offset
        self.pending.append(_Operator(token.kind, level, token.offset))

    def reduce(self, level: int) -> None:
        """Apply the pending operators that bind at least as tightly as the level."""
        while self.pending and self.pending[-1].symbol != "(" and self.pending[-1].level >= level:
            operator = self.pending.pop()
            right = self.operands.pop()
            depth = right.depth + 1
            tree: Unary | Binary
            if operator.level == PREFIX:
                tree = Unary(operator.symbol, right.tree)
            else:
                left = self.operands.pop()
                depth = max(depth, left.depth + 1)
                tree = Binary(operator.symbol, left.tree, right.tree)
                # BMQ-20: a chain of comparisons compiles, with a warning.
                if left.bare and _is_chain(tree):
                    self.chains.append(tree)
            if depth > DEPTH_MAX and self.depth_over is None:
                self.depth_over = operator.offset
            self.operands.append(_Operand(tree, depth, bare=True))

    def advance(self) -> Token:
        token, self.token = self.token, next(self.tokens)
        return token

    def check(self) -> None:
        if self.operator_over is not None:
            message = f"too many operators ({self.operators}), the limit is {self.limits.operators}"
            raise self.error("TOO_COMPLEX", message, self.operator_over)
        if self.depth_over is not None:
            message = f"operators are nested too deep, the limit is {DEPTH_MAX} levels"
            raise self.error("TOO_COMPLEX", message, self.depth_over)
        # S003-51, BMQ-18: an expression without properties is an error.
        if not self.has_property:
            raise self.error("NO_PROPERTIES", "expression does not use any property", 0)

    def unexpected(self) -> ExpressionError:
        message = f"syntax error, unexpected {self.token.kind}"
        return self.error("SYNTAX", message, self.token.offset)

    def error(self, code: str, message: str, offset: int) -> ExpressionError:
        return ExpressionError(code, message, scanner.decode(self.source), offset)


def _is_chain(tree: Binary) -> bool:
    left = tree.left
    return (
        tree.op in COMPARISON
        and isinstance(left, Binary)
        and PRECEDENCE[left.op] == PRECEDENCE[tree.op]
    )
