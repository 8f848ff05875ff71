"""The same seed draws the same mutants, of the lines that are most a rule's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutation.draw import Lot, ranked, shown
from tests.mutation.marks import Marked
from tests.mutation.reach import Ran

SOURCE = """\
def everybody(a):
    return a < 1


def first(a):
    send(a)
    return a + 1


def second(a):
    return not a
"""
ONE, TWO, BOTH, BROKEN, OTHER = (f"tests/core/test_a.py::test_{name}" for name in "abcde")
TESTS = {"S000-1": (ONE, BOTH), "S000-2": (TWO, BOTH), "S000-3": (BROKEN,)}
RAN = {
    ONE: Ran(1.5, True, {"core/a.py": frozenset({2, 6, 7})}),
    BOTH: Ran(1.0, True, {"core/a.py": frozenset({2, 6})}),
    TWO: Ran(0.5, True, {"core/a.py": frozenset({2, 11})}),
    BROKEN: Ran(0.1, False, {"core/a.py": frozenset({2})}),
    OTHER: Ran(0.1, True, {"core/a.py": frozenset({2})}),
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.py").write_text(SOURCE)
    return tmp_path


def test_the_lines_of_a_rule_are_those_that_most_of_its_tests_reach_and_few_others(
    package: Path,
) -> None:
    lot = Lot(7, TESTS, RAN, package)
    assert [each.change.line for each in lot.mutants("S000-1", 1)] == [6]
    assert [each.change.line for each in lot.mutants("S000-2", 1)] == [11]


def test_the_lines_that_are_marked_with_a_rule_are_its_lines(package: Path) -> None:
    marks = {"S000-1": Marked({("core/a.py", 7)}, {("core/a.py", 2)})}
    lot = Lot(7, TESTS, RAN, package, marks)
    assert [each.change.line for each in lot.mutants("S000-1", 9)] == [7, 2]
    assert [rule for rule in TESTS if lot.has_lines(rule)] == ["S000-1"]


def test_a_line_is_changed_once(package: Path) -> None:
    mutants = Lot(7, TESTS, RAN, package).mutants("S000-1", 9)
    assert [each.change.line for each in mutants] == [6, 7, 2]


def test_a_mutant_has_the_tests_of_its_rule_that_reach_its_line_the_fastest_first(
    package: Path,
) -> None:
    shared, own, _ = Lot(7, TESTS, RAN, package).mutants("S000-1", 3)
    assert (own.tests, own.seconds) == ((ONE,), 1.5)
    assert (shared.tests, shared.seconds) == ((BOTH, ONE), 2.5)


def test_a_long_test_is_left_for_later_unless_there_is_no_other(package: Path) -> None:
    ran = {**RAN, ONE: Ran(60.0, True, RAN[ONE].lines)}
    shared, own, _ = Lot(7, TESTS, ran, package).mutants("S000-1", 3)
    assert (shared.tests, shared.slow) == ((BOTH,), (ONE,))
    assert (own.tests, own.slow) == ((ONE,), ())


def test_a_rule_whose_tests_fail_unchanged_is_not_drawn(package: Path) -> None:
    lot = Lot(7, TESTS, RAN, package)
    assert [rule for rule in TESTS if lot.has_lines(rule)] == ["S000-1", "S000-2"]


def test_a_seed_draws_the_same_wherever_the_module_is(package: Path) -> None:
    before = Lot(7, TESTS, RAN, package)
    (package / "expr").mkdir()
    (package / "core" / "a.py").rename(package / "expr" / "b.py")
    moved = {
        test: Ran(known.seconds, known.is_passed, {"expr/b.py": known.lines["core/a.py"]})
        for test, known in RAN.items()
    }
    after = Lot(7, TESTS, moved, package)
    (package / "core" / "a.py").write_text(SOURCE)
    for rule in ("S000-1", "S000-2"):
        drawn = [each.change for each in before.mutants(rule, 2)]
        assert drawn == [each.change for each in after.mutants(rule, 2)]


def test_seeds_draw_differently() -> None:
    assert ranked(7, TESTS) == ranked(7, reversed(TESTS))
    assert len({tuple(ranked(seed, TESTS)) for seed in range(50)}) == 6


def test_quick_tests_say_which_lines_are_the_rules_and_slow_ones_are_run_after_them(
    package: Path,
) -> None:
    quick, slow = "tests/core/test_a.py::test_a", "tests/interop/test_a.py::test_b"
    ran = {quick: Ran(1.0, True, {"core/a.py": frozenset({11})})}
    [mutant] = Lot(7, {"S000-1": (quick, slow)}, ran, package).mutants("S000-1", 3)
    assert (mutant.tests, mutant.slow) == ((quick,), (slow,))


def test_a_suite_that_others_inherit_cannot_be_run_by_itself() -> None:
    rules = json.dumps(
        {
            "S000-1": {"tests": ["tests/conformance/store.py::A::test_a", ONE]},
            "S000-2": {"tests": ["tests/store/test_a.py::test_b"]},
        }
    )
    assert shown(rules) == {"S000-1": (ONE,)}
