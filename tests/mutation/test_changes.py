"""What is changed in a program, and how."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.changes import changes_of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return a < b", "return (a <= b)"),
        ("return a is not None", "return (a is None)"),
        ("return a and b", "return (a or b)"),
        ("return not a", "return (a)"),
        ("return a + b", "return (a - b)"),
        ("return True", "return False"),
        ("return 7", "return 8"),
        ("send(a)", "pass"),
        ("a.b = c", "pass"),
        ("a[b] += c", "pass"),
        ("if a: b = c", "if (not a): b = c"),
    ],
)
def test_a_change_is_small(before: str, after: str) -> None:
    source = f"def f(a, b, c):\n    {before}\n"
    [change] = changes_of(source)
    assert change.line == 2
    assert change.apply(source) == f"def f(a, b, c):\n    {after}\n"


@pytest.mark.parametrize(
    "statement",
    [
        "assert a < b, 'a sentence'",
        "raise ValueError(1)",
        "for a in zip(b, c, strict=True): b = a",
        "log.info('said', 1)",
        "'a docstring 1'",
        "a: dict[str, int]",
        "a = b",
        "a += b",
        "return f'a text {1 + 2:>{3}}'",
    ],
)
def test_what_decides_nothing_stays(statement: str) -> None:
    assert changes_of(f"def f():\n    {statement}\n") == []


def test_outside_of_functions_nothing_is_changed() -> None:
    assert changes_of("LIMIT = 7\n\nclass A:\n    size = 3\n") == []


def test_every_change_of_a_real_module_is_a_program() -> None:
    with open(changes_of.__code__.co_filename) as file:
        source = file.read()
    changes = changes_of(source)
    assert len(changes) > 20
    for change in changes:
        ast.parse(change.apply(source))
    assert len({(each.function, each.what, each.turn) for each in changes}) == len(changes)


def test_a_change_within_text_that_is_not_ascii_is_in_its_place() -> None:
    source = "def f(a):\n    b = 'ä→'; return a < 1\n"
    assert any("(a <= 1)" in each.apply(source) for each in changes_of(source))


def test_a_change_is_known_by_its_function_wherever_that_stands() -> None:
    inner = "class A:\n    def f(self, a):\n        def g():\n            return a < 1\n"
    [one, other] = changes_of("if 1:\n" + "".join(f"    {line}\n" for line in inner.splitlines()))
    assert (one.function, one.what) == ("A.f.g", "`a < 1` becomes `(a <= 1)`")
    assert (other.function, other.what) == ("A.f.g", "`1` becomes `2`")
    assert [each.what for each in changes_of(inner)] == [one.what, other.what]


def test_changes_of_a_function_that_are_alike_are_counted() -> None:
    changes = changes_of("def f(a):\n    g()\n    g()\n")
    assert [(each.line, each.turn) for each in changes] == [(2, 1), (3, 2)]
