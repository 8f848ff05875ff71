"""Tree to a Python function.

An expression is compiled once and evaluated for every message, so the tree becomes the source of a
Python function. The source is written from the tree alone: names and literals are bound as
variables, and no text of the user is ever part of it.

One writer makes two functions. `matches` returns False for every run-time error, so it need not
distinguish errors and may leave out checks whose failure would be False anyway. `evaluate` returns
the error. In both, the left operand is evaluated first, and operands are evaluated before their
types are compared.

The generated `matches` for ``x >= 0 || s == "a"``::

    v1 = properties.get(k0)
    if v1.__class__ is not int or not MIN <= v1 <= MAX: return False
    if (v1 >= k1): return True
    return properties.get(k2) == k3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias, cast

from headgate.expr.nodes import (
    ARITHMETIC,
    EQUALITY,
    JUNCTION,
    Binary,
    Boolean,
    Exists,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
    names_of,
)
from headgate.expr.parser import DEFAULT_LIMITS, ExpressionLimits, read
from headgate.expr.types import INT64_MAX, INT64_MIN, Kind, Properties, is_readable, precedes


class Failure(StrEnum):
    """The reason why an evaluation has no value. Such a message does not match."""

    NAME = "NAME"
    """The message lacks the property."""
    TYPE = "TYPE"
    """An operand is of a wrong type, or the result is not boolean."""
    ARITHMETIC = "ARITHMETIC"
    """Division by zero, or an integer of more than 64 bits."""


Matches: TypeAlias = Callable[[Properties], bool]
Evaluate: TypeAlias = Callable[[Properties], bool | Failure]


class Predicate:
    """A compiled expression: true, false or without a value for the properties of a message.

    It never changes, so any number of queues may share it.
    """

    __slots__ = ("_evaluate", "matches", "properties", "text", "tree")

    def __init__(self, text: str, tree: Tree) -> None:
        self.text = text
        self.tree = tree
        self.properties = names_of(tree)
        self.matches: Matches = cast(Matches, _compiled(tree, explicit=False))
        """Whether the message matches; the generated function itself, to save a call."""
        self._evaluate: Evaluate | None = None

    def __call__(self, properties: Properties) -> bool:
        return self.matches(properties)

    def evaluate(self, properties: Properties) -> bool | Failure:
        """The value of the expression, or the reason why it has none."""
        if self._evaluate is None:
            self._evaluate = _compiled(self.tree, explicit=True)
        return self._evaluate(properties)

    def __repr__(self) -> str:
        return f"<Predicate {self.text!r}>"


def compile_expression(text: str | bytes, limits: ExpressionLimits = DEFAULT_LIMITS) -> Predicate:
    """The predicate of an expression; raises `ExpressionError`."""
    reading = read(text, limits)
    return Predicate(reading.text, reading.tree)


EMPTY: Mapping[str, object] = MappingProxyType({})
CLASSES = {Kind.INTEGER: "int", Kind.STRING: "str", Kind.BOOLEAN: "bool"}
OUT_OF_RANGE = "not MIN <= {0} <= MAX"
GLOBALS: dict[str, object] = {
    "__builtins__": {},
    "bool": bool,
    "int": int,
    "str": str,
    "MIN": INT64_MIN,
    "MAX": INT64_MAX,
    "NAME": Failure.NAME,
    "TYPE": Failure.TYPE,
    "ARITHMETIC": Failure.ARITHMETIC,
    "is_readable": is_readable,
    "precedes": precedes,
}


def _compiled(tree: Tree, *, explicit: bool) -> Evaluate:
    writer = Writer(explicit)
    writer.result(tree)
    return run(writer)


def run(writer: Writer, more: Mapping[str, object] = EMPTY) -> Evaluate:
    """The function that a writer wrote; `more` are additional names that it uses."""
    arguments = ", ".join(writer.constants)
    body = "\n".join(writer.lines)
    source = f"def make({arguments}):\n def predicate(properties):\n{body}\n return predicate\n"
    namespace = {**GLOBALS, **more}
    exec(compile(source, "<expression>", "exec"), namespace)
    # Removed from its own globals: as part of a cycle it would be freed only by the collector.
    make = cast(Callable[..., Evaluate], namespace.pop("make"))
    return make(*writer.constants.values())


Operand: TypeAlias = tuple[str, Kind | None]
"""A Python expression without effects, and its type if it is known before evaluation."""


class Writer:
    """Writes the Python of a predicate, a part at a time."""

    def __init__(self, explicit: bool) -> None:
        self.explicit = explicit
        self.lines: list[str] = []
        self.indent = "  "
        self.constants: dict[str, int | str] = {}
        """Names of properties and literals, by their variables."""
        self.variables = 0
        self.loaded: dict[str, str] = {}
        """Properties already read at this point, with the variables that hold them."""
        self.checked: dict[str, Kind | None] = {}
        """Variables already found readable at this point, with their type if it is known."""

    # The result of the function: for `matches`, False and an error are the same here.

    def result(self, tree: Tree) -> None:
        match tree:
            case Binary("&&", left, right):
                self.conjunct(left)
                self.result(right)
            case Binary("||", Boolean(False), right):
                self.result(right)
            case Binary("||", left, right):
                # S003-76, S003-77, BMQ-8, BMQ-9: if the left side decides, the right is not
                # evaluated.
                self.emit(f"if {self.boolean(left)}: return True")
                self.result(right)
            case _:
                self.emit(f"return {self.shortcut(tree) or self.boolean(tree)}")

    def conjunct(self, tree: Tree) -> None:
        """Return False unless the tree is true."""
        match tree:
            case Binary("&&", left, right):
                self.conjunct(left)
                self.conjunct(right)
            case Binary("||", Boolean(False), right):
                self.conjunct(right)
            case _:
                self.emit(f"if not ({self.shortcut(tree) or self.boolean(tree)}): return False")

    def shortcut(self, tree: Tree) -> str | None:
        """An equality that is false, not an error, for a value of another type."""
        if self.explicit:
            return None
        match tree:
            case Binary("==", Property(name), literal) | Binary("==", literal, Property(name)):
                if name in self.loaded:
                    return None
                value = f"properties.get({self.constant(name)})"
                match literal:
                    case Text(text):
                        return f"{value} == {self.constant(text)}"
                    case Boolean(flag):
                        return f"{value} is {flag}"
                    case Integer(number) if number not in (0, 1):  # False == 0, True == 1
                        return f"{value} == {self.constant(number)}"
        return None

    # Elsewhere an error ends the evaluation, and False does not.

    def boolean(self, tree: Tree) -> str:
        # S003-49, S003-75, BMQ-5: a value that is not boolean is an error, and matches nothing.
        return self.require(self.operand(tree), Kind.BOOLEAN)

    def operand(self, tree: Tree) -> Operand:
        match tree:
            case Property(name):
                return self.property(name)
            case Exists(name):
                # BMQ-15, BMQ-35: a property that cannot be read counts as missing.
                return f"is_readable({self.load(name)})", Kind.BOOLEAN
            case Integer(number):
                return self.constant(number), Kind.INTEGER
            case Text(text):
                return self.constant(text), Kind.STRING
            case Boolean(flag):
                return str(flag), Kind.BOOLEAN
            case Unary("!", inner):
                return f"(not {self.boolean(inner)})", Kind.BOOLEAN
            case Unary(_, inner):
                return self.negative(self.require(self.operand(inner), Kind.INTEGER))
            case Binary(op, left, right) if op in JUNCTION:
                return self.junction(op, left, right)
            case Binary(op, left, right) if op in ARITHMETIC:
                a, b = self.operand(left), self.operand(right)
                a_text = self.require(a, Kind.INTEGER)
                return self.arithmetic(op, a_text, self.require(b, Kind.INTEGER), right)
            case Binary(op, left, right):
                return self.comparison(op, left, right)

    def property(self, name: str) -> Operand:
        variable = self.load(name)
        if self.explicit and variable not in self.checked:
            self.emit(f"if {variable} is None: return NAME")
            self.emit(f"if not is_readable({variable}): return TYPE")
            self.checked[variable] = None
        return variable, self.checked.get(variable)

    def load(self, name: str) -> str:
        if name not in self.loaded:
            variable = self.variable()
            # S003-45, S003-56, S003-57, BMQ-7: read when needed; a missing one has no type.
            self.emit(f"{variable} = properties.get({self.constant(name)})")
            self.loaded[name] = variable
        return self.loaded[name]

    def require(self, operand: Operand, kind: Kind) -> str:
        """Check that the operand is of a type."""
        text, known = operand
        if known is None:
            # S003-67, S003-72, BMQ-10: an error, never a conversion.
            wrong = f"{text}.__class__ is not {CLASSES[kind]}"
            if kind is Kind.INTEGER and not self.explicit:  # without a call of is_readable()
                wrong = f"{wrong} or {OUT_OF_RANGE.format(text)}"
            self.fail(Failure.TYPE, wrong)
            self.checked[text] = kind
        elif known is not kind:
            self.fail(Failure.TYPE)
        return text

    def junction(self, op: str, left: Tree, right: Tree) -> Operand:
        result = self.variable()
        self.emit(f"{result} = {self.boolean(left)}")
        with self.block(f"if {result}:" if op == "&&" else f"if not {result}:"):
            self.emit(f"{result} = {self.boolean(right)}")
        return result, Kind.BOOLEAN

    def negative(self, operand: str) -> Operand:
        result = self.variable()
        self.emit(f"{result} = -{operand}")
        self.fail(Failure.ARITHMETIC, f"{result} > MAX")
        return result, Kind.INTEGER

    def arithmetic(self, op: str, a: str, b: str, divisor: Tree) -> Operand:
        result = self.variable()
        # S003-66: both operands are integers here.
        if op in "+-*":
            self.emit(f"{result} = {a} {op} {b}")
            self.fail(Failure.ARITHMETIC, OUT_OF_RANGE.format(result))
            return result, Kind.INTEGER
        if not isinstance(divisor, Integer) or divisor.value in (0, -1):
            # S003-68, BMQ-11: division and modulus by zero match nothing.
            self.fail(Failure.ARITHMETIC, f"{b} == 0 or {b} == -1 and {a} == MIN")
        # Python rounds down where C rounds towards zero; with equal signs they agree.
        # S003-69: towards zero, and the modulus has the sign of the left operand.
        python = "//" if op == "/" else "%"
        self.emit(
            f"{result} = {a} {python} {b} if ({a} < 0) == ({b} < 0) else -(-{a} {python} {b})"
        )
        return result, Kind.INTEGER

    def comparison(self, op: str, left: Tree, right: Tree) -> Operand:
        a, b = self.operand(left), self.operand(right)
        kind = a[1] or b[1]
        if kind is None:
            return self.comparison_of_properties(op, a[0], b[0])
        a_text, b_text = self.require(a, kind), self.require(b, kind)
        # S003-71: two integers or two strings, by all six.
        if op in EQUALITY:
            return f"({a_text} {op} {b_text})", Kind.BOOLEAN
        # S003-73: booleans have no order.
        if kind is Kind.BOOLEAN:
            self.fail(Failure.TYPE)
        if kind is Kind.STRING and not (_is_ascii(left) or _is_ascii(right)):
            return _ordered(op, a_text, b_text), Kind.BOOLEAN
        return f"({a_text} {op} {b_text})", Kind.BOOLEAN

    def comparison_of_properties(self, op: str, a: str, b: str) -> Operand:
        self.fail(Failure.TYPE, f"{a}.__class__ is not {b}.__class__")
        if not self.explicit:
            self.fail(Failure.TYPE, f"not is_readable({a}) or not is_readable({b})")
        if op in EQUALITY:
            return f"({a} {op} {b})", Kind.BOOLEAN
        self.fail(Failure.TYPE, f"{a}.__class__ is bool")
        return _ordered(op, a, b), Kind.BOOLEAN

    # The text itself.

    def emit(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def fail(self, failure: Failure, condition: str = "") -> None:
        # S003-78, BMQ-10: an error ends the evaluation, so its negation matches nothing either.
        answer = failure.value if self.explicit else "False"
        self.emit(f"if {condition}: return {answer}" if condition else f"return {answer}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block: properties read or checked in it are not known after it."""
        self.emit(head)
        outside = self.indent, self.loaded, self.checked
        self.indent += " "
        self.loaded, self.checked = dict(self.loaded), dict(self.checked)
        yield
        self.indent, self.loaded, self.checked = outside

    def constant(self, value: int | str) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def variable(self) -> str:
        self.variables += 1
        return f"v{self.variables}"


def _is_ascii(tree: Tree) -> bool:
    return isinstance(tree, Text) and tree.value.isascii()


def _ordered(op: str, a: str, b: str) -> str:
    if op in (">", "<="):
        a, b = b, a
    return f"precedes({a}, {b})" if op in "<>" else f"(not precedes({a}, {b}))"
