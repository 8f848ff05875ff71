"""docs/requirements.md says which test shows which rule, and says the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import requirements
from tests.requirements import (
    PAGE,
    ROOT,
    RULES_OF,
    Row,
    fill,
    find_tests,
    main,
    named,
    read,
    rules,
)

TESTS = find_tests(ROOT)
ROWS = read(PAGE.read_text())
TEXT_CHARACTERS_MAX = 100


def test_every_rule_has_one_row_and_they_are_in_order() -> None:
    assert sum(RULES_OF.values()) == 419 + 91 + 82 + 41 + 115 + 48
    assert [row.rule for row in ROWS] == rules()


def test_every_test_on_the_page_exists_and_names_its_rule() -> None:
    wrong = [
        f"{row.rule}: {test}"
        for row in ROWS
        for test in row.tests
        if row.rule not in TESTS.get(test, set())
    ]
    assert not wrong, "python -m tests.requirements writes it anew"


def test_every_rule_that_a_test_names_is_on_the_page_and_lists_the_test() -> None:
    listed = {(row.rule, test) for row in ROWS for test in row.tests}
    meant = {(rule, test) for test, shows in TESTS.items() for rule in shows}
    assert sorted(meant - listed) == [], "python -m tests.requirements writes it anew"


def test_every_rule_has_a_test_or_a_part_that_brings_it() -> None:
    assert [str(row) for row in ROWS if not row.tests and not row.is_later] == []


def test_a_place_has_nothing_but_its_tests() -> None:
    assert [row for row in ROWS if row.tests and row.shown_by(row.tests) != row] == []


def test_every_rule_says_in_a_few_words_what_it_asks() -> None:
    assert [row.rule for row in ROWS if not 0 < len(row.text) < TEXT_CHARACTERS_MAX] == []


def test_filling_the_page_changes_nothing() -> None:
    page = PAGE.read_text()
    assert fill(page, TESTS) == page, "python -m tests.requirements writes it anew"


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("One END. S000-13, C4: and nothing more.", {"S000-13", "C4"}),
        ("S003-60..S003-63", {"S003-60", "S003-61", "S003-62", "S003-63"}),
        ("S003-60..62.", {"S003-60", "S003-61", "S003-62"}),
        ("C23-C25", {"C23", "C24", "C25"}),
        ("C1 to C3, C7", {"C1", "C2", "C3", "C7"}),
        ("C9–C10", {"C9", "C10"}),
        ("S000-99..S001-1", {"S000-99", "S001-1"}),
        ("R-26, R26", {"R-26", "R26"}),
        ("R1-R3, R7..9", {"R1", "R2", "R3", "R7", "R8", "R9"}),
        ("A94..A96: V13-V15", {"A94", "A95", "A96", "V13", "V14", "V15"}),
        ("R40-A41", {"R40", "A41"}),
        ("R-1-R-3", {"R-1", "R-2", "R-3"}),
        ("B14, S005-1, XC4, C4x, SHA3, AV1, R-, V: others count, too", set()),
    ],
)
def test_a_docstring_names_single_rules_and_ranges(docstring: str, expected: set[str]) -> None:
    assert named(docstring) == expected


def test_tests_are_functions_and_methods_of_test_files_and_suites(tmp_path: Path) -> None:
    suites = tmp_path / "tests" / "conformance"
    suites.mkdir(parents=True)
    (tmp_path / "tests" / "test_one.py").write_text(
        '"""C1."""\n'
        "def test_plain():\n"
        "    'C2'\n"
        "    def test_inside(): 'C3'\n"
        "async def test_waiting(): 'C4'\n"
        "def helper(): 'C5'\n"
        "class TestMany:\n"
        "    'C6'\n"
        "    def test_method(self): 'C7'\n"
    )
    (suites / "store.py").write_text("class Suite:\n    def test_law(self): 'C8'\n")
    (tmp_path / "tests" / "helper.py").write_text("def test_not_collected(): 'C9'\n")
    assert find_tests(tmp_path) == {
        "tests/conformance/store.py::Suite::test_law": {"C8"},
        "tests/test_one.py::test_plain": {"C2"},
        "tests/test_one.py::test_waiting": {"C4"},
        "tests/test_one.py::TestMany::test_method": {"C7"},
    }


PLAIN = """\
# Page

| rule | what it asks | where it is shown |
| C1 | `a \\|\\| b` | agent; better: so |
| C2 | b | agent |
"""


def test_filling_keeps_texts_and_remarks() -> None:
    tests = {"tests/test_a.py::test_x": {"C1"}, "tests/test_b.py::test_y": {"C1", "C2"}}
    filled = fill(PLAIN, tests)
    assert filled == (
        "# Page\n\n| rule | what it asks | where it is shown |\n"
        "| C1 | `a \\|\\| b` | `tests/test_a.py::test_x`<br>`tests/test_b.py::test_y`"
        "; better: so |\n"
        "| C2 | b | `tests/test_b.py::test_y` |\n"
    )
    assert fill(filled, tests) == filled
    del tests["tests/test_a.py::test_x"]
    assert "test_x" not in fill(filled, tests)


def test_a_rule_without_a_test_keeps_its_part() -> None:
    assert fill(PLAIN, {}) == PLAIN


@pytest.mark.parametrize("place", ["part 6", "", "not planned: ", "soon", "agent?"])
def test_other_words_are_no_part(place: str) -> None:
    assert not Row("C1", "text", place).is_later


@pytest.mark.parametrize("place", ["agent", "notification server", "not planned: why"])
def test_a_part_is_a_part(place: str) -> None:
    assert Row("C1", "text", place).is_later


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_x(): 'C1'\n")
    page = tmp_path / "page.md"
    page.write_text(PLAIN)
    monkeypatch.setattr(requirements, "ROOT", tmp_path)
    monkeypatch.setattr(requirements, "PAGE", page)
    return page


def test_the_check_lists_what_differs_and_writes_nothing(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"]) == 1
    assert "+| C1 | `a \\|\\| b` | `tests/test_a.py::test_x`" in capsys.readouterr().err
    assert page.read_text() == PLAIN
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_a_test_that_is_gone_is_told(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    (page.parent / "tests" / "test_a.py").write_text("def test_x(): 'C92'\n")
    assert main([]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "C1: tests/test_a.py::test_x does not show it; which part does?",
        "tests/test_a.py::test_x names C92, which is no rule",
    ]


def test_the_tool_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chekc"]) == 2
    assert "usage" in capsys.readouterr().err
