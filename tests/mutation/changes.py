"""Small changes of a program, each of which should make a test fail."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}
QUIET = ("log",)
"""Calls on these are not what a rule is about."""


@dataclass(frozen=True)
class Change:
    """Another text for a part of a module's source."""

    function: str
    """Its name, with those of the classes and functions around it."""
    what: str
    """The change in words: what is there, and what it becomes."""
    turn: int
    """Which one it is of the changes of the function that are alike."""
    line: int
    start: int
    end: int
    """Offsets in the UTF-8 bytes of the source."""
    text: str

    def apply(self, source: str) -> str:
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.end :]).decode()


def changes_of(source: str) -> list[Change]:
    """Every change of what the functions of a module decide, in the order of the source."""
    raw = source.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[tuple[int, int, str, str, int]] = []
    for name, function in functions(ast.parse(source).body):
        for statement in function.body:
            for node, text in _in_statement(statement):
                assert node.end_lineno is not None, "a parsed node has an end"
                assert node.end_col_offset is not None, "a parsed node has an end"
                start = starts[node.lineno - 1] + node.col_offset
                end = starts[node.end_lineno - 1] + node.end_col_offset
                found.append((start, end, text, name, node.lineno))
    alike: Counter[tuple[str, str]] = Counter()
    changes = []
    for start, end, text, name, number in sorted(found):
        what = f"`{_on_one_line(raw[start:end].decode())}` becomes `{_on_one_line(text)}`"
        alike[name, what] += 1
        changes.append(Change(name, what, alike[name, what], number, start, end, text))
    return changes


def functions(
    body: Iterable[ast.stmt], within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function of a module, those within others too, with its name."""
    for node in body:
        name = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}.{node.name}" if within else node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, node
        yield from functions(_statements(node), name)


def _statements(node: ast.AST) -> list[ast.stmt]:
    """The statements that stand in another, however they do."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif not isinstance(child, ast.expr):
            found.extend(_statements(child))
    return found


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _in_statement(statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What a statement decides. Assertions and errors state what is wrong anyway, and a function
    within is looked at by itself."""
    skipped = (ast.Assert, ast.Raise, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    if isinstance(statement, skipped):
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        if _is_quiet(statement.value):
            return
        yield statement, "pass"
    if isinstance(statement, ast.Assign | ast.AugAssign) and _is_kept(statement):
        yield statement, "pass"
    for field, value_ in ast.iter_fields(statement):
        if field == "annotation":
            continue
        for part in value_ if isinstance(value_, list) else [value_]:
            if isinstance(part, ast.stmt):
                yield from _in_statement(part)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                for inner in part.body:
                    yield from _in_statement(inner)
            elif isinstance(part, ast.expr):
                yield from _in_expression(part)
    if isinstance(statement, ast.If | ast.While) and _is_plain(statement.test):
        yield statement.test, f"(not {ast.unparse(statement.test)})"


def _is_kept(statement: ast.Assign | ast.AugAssign) -> bool:
    """Whether what is assigned outlives the function: it is part of something else."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)


def _in_expression(expression: ast.expr) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in _walk(expression):
        match node:
            case ast.Compare(ops=[op]) if type(op) in COMPARED:
                other = deepcopy(node)
                other.ops = [COMPARED[type(op)]]
                yield node, f"({ast.unparse(other)})"
            case ast.BoolOp():
                other_op = deepcopy(node)
                other_op.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield node, f"({ast.unparse(other_op)})"
            case ast.UnaryOp(op=ast.Not()):
                yield node, f"({ast.unparse(node.operand)})"
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                binary = deepcopy(node)
                binary.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
                yield node, f"({ast.unparse(binary)})"
            case ast.Constant(value=bool(known)):
                yield node, str(not known)
            case ast.Constant(value=int(number)):
                yield node, f"{number + 1}"


def _walk(expression: ast.AST) -> Iterator[ast.AST]:
    """What is in an expression, but for texts: where their parts are, is not known. That `zip` is
    strict is an assertion."""
    is_assertion = isinstance(expression, ast.keyword) and expression.arg == "strict"
    if not isinstance(expression, ast.JoinedStr) and not is_assertion:
        yield expression
        for part in ast.iter_child_nodes(expression):
            yield from _walk(part)


def _is_plain(test: ast.expr) -> bool:
    """Whether nothing in it is changed already."""
    return not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp)


def _is_quiet(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in QUIET
    )
