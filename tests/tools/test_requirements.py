"""docs/requirements/ has the code and the tests of every rule, and they are the real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.repository import ROOT
from tools.requirements.__main__ import MAP, Evidence, folder, main, mistakes, texts
from tools.requirements.pages import Row, fill, read, stand
from tools.requirements.places import Place, find_tags
from tools.requirements.rules import FAMILIES, all_rules, heading, named
from tools.requirements.showing import LAYERS, RuleTest, by_rule, find_tests, leading

PAGES = folder(ROOT)
EVIDENCE = Evidence.of(ROOT)
TEXTS = texts(ROOT, EVIDENCE)
ROWS = [row for family in FAMILIES for row in read((PAGES / family.page).read_text())]
TEXT_CHARACTERS_MAX = 100


def test_every_rule_has_one_row_and_they_are_in_order() -> None:
    assert len(all_rules()) == 419 + 91 + 82 + 41 + 115 + 48
    assert [row.rule for row in ROWS] == all_rules()


def test_every_rule_says_in_a_few_words_what_it_asks() -> None:
    assert [row.rule for row in ROWS if not 0 < len(row.text) < TEXT_CHARACTERS_MAX] == []


def test_every_rule_has_a_test_or_a_remark_and_nobody_names_one_that_is_not_there() -> None:
    assert mistakes(ROOT, EVIDENCE) == []


def test_a_rule_that_is_shown_is_planned() -> None:
    shown = by_rule(EVIDENCE.tests)
    assert [row.rule for row in ROWS if row.is_not_planned and row.rule in shown] == []


@pytest.mark.parametrize("name", [MAP, "README.md", *(family.page for family in FAMILIES)])
def test_filling_changes_nothing(name: str) -> None:
    assert (PAGES / name).read_text() == TEXTS[name], "make docs writes it anew"


def test_the_map_has_the_tests_and_the_code_of_every_rule() -> None:
    rules = json.loads((PAGES / MAP).read_text())
    assert list(rules) == all_rules()
    listed = {(rule, test) for rule, entry in rules.items() for test in entry["tests"]}
    assert listed == {(rule, test.name) for test in EVIDENCE.tests for rule in test.rules}
    placed = {(rule, place) for rule, entry in rules.items() for place in entry["code"]}
    assert placed == {(rule, str(tag.place)) for tag in EVIDENCE.tags for rule in tag.rules}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One END. S000-13, BMQ-4: and nothing more.", {"S000-13", "BMQ-4"}),
        ("S003-60..S003-63", {"S003-60", "S003-61", "S003-62", "S003-63"}),
        ("S003-60..62.", {"S003-60", "S003-61", "S003-62"}),
        ("BMQ-23-BMQ-25", {"BMQ-23", "BMQ-24", "BMQ-25"}),
        ("BMQ-1 to BMQ-3, BMQ-7", {"BMQ-1", "BMQ-2", "BMQ-3", "BMQ-7"}),
        ("BMQ-9–BMQ-10", {"BMQ-9", "BMQ-10"}),
        ("S000-99..S001-1", {"S000-99", "S001-1"}),
        ("RESP-26, SMP-26", {"RESP-26", "SMP-26"}),
        ("SMP-1..SMP-3, SMP-8..9", {"SMP-1", "SMP-2", "SMP-3", "SMP-8", "SMP-9"}),
        ("ACC-94..ACC-95: WIRE-13-WIRE-14", {"ACC-94", "ACC-95", "WIRE-13", "WIRE-14"}),
        ("SMP-40-ACC-41", {"SMP-40", "ACC-41"}),
        ("C4, R-26, B14, S005-1, XBMQ-4, BMQ-4x, BMQ4, SMP-: others count, too", set()),
    ],
)
def test_a_text_names_single_rules_and_ranges(text: str, expected: set[str]) -> None:
    assert named(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S000-23, S000-24: one of both", ["S000-23", "S000-24"]),
        ("S003-60..62, S004-7: BMQ-4", ["S003-60", "S003-61", "S003-62", "S004-7"]),
        ("S000-1 and S000-2", ["S000-1"]),
        ("as in S000-1", []),
        ("", []),
    ],
)
def test_a_text_begins_with_rules(text: str, expected: list[str]) -> None:
    assert heading(text) == expected


def test_tests_are_functions_and_methods_of_test_files_and_suites(tmp_path: Path) -> None:
    suites = tmp_path / "tests" / "conformance"
    suites.mkdir(parents=True)
    (tmp_path / "tests" / "test_one.py").write_text(
        '"""S000-1."""\n'
        "def test_plain():\n"
        "    'S000-2'\n"
        "    def test_inside(): 'S000-3'\n"
        "async def test_waiting(): 'S000-4'\n"
        "def helper(): 'S000-5'\n"
        "class TestMany:\n"
        "    'S000-6'\n"
        "    def test_method(self): 'S000-7'\n"
    )
    (suites / "store.py").write_text("class Suite:\n    def test_law(self): 'S000-8'\n")
    (tmp_path / "tests" / "helper.py").write_text("def test_not_collected(): 'S000-9'\n")
    assert [(test.name, test.rules) for test in find_tests(tmp_path)] == [
        ("tests/conformance/store.py::Suite::test_law", {"S000-8"}),
        ("tests/test_one.py::test_plain", {"S000-2"}),
        ("tests/test_one.py::test_waiting", {"S000-4"}),
        ("tests/test_one.py::TestMany::test_method", {"S000-7"}),
    ]


def test_the_leading_test_begins_with_the_rule_and_is_nearest_to_what_decides() -> None:
    interop = RuleTest("tests/interop/test_a.py::test_a", "S000-1: it is so")
    server = RuleTest("tests/server/test_a.py::test_a", "S000-1: it is so")
    beside = RuleTest("tests/core/test_a.py::test_a", "It is so, as S000-1 asks")
    second = RuleTest("tests/wire/test_a.py::test_a", "S000-2, S000-1: both")
    first = RuleTest("tests/wire/test_b.py::test_b", "S000-1, S000-2: both")
    last = RuleTest("tests/wire/test_c.py::test_c", "S000-1, S000-2: both")
    order = [first, last, second, server, interop, beside]
    for place, expected in enumerate(order):
        assert leading("S000-1", order[place:]) == expected
    assert leading("S000-1", [last, first]) == last, "of two alike, that which comes first"


def test_the_folders_of_tests_that_show_rules_are_layers() -> None:
    folders = {test.name.split("/")[1] for test in EVIDENCE.tests if test.rules}
    assert {folder for folder in folders if not folder.endswith("py")} - {*LAYERS} == set()


CODE = """\
# S000-1: what has a name.
LIMIT = 1
LIMIT += 1  # S000-2: nothing that has a name.


class Queue:
    # S000-3: a field.
    size: int = 0

    # S000-4, S000-5: of the function below.
    @property
    def head(self):
        if self.size:
            # S000-6..S000-7: inside,
            # and a second line.
            return 1
        return 0  # S000-8: at the end of a line.

    def wait(self):
        def step():
            # S000-9: of what is inside.
            return 1
"""


def test_a_place_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "queue.py").write_text(CODE)
    tags = find_tags(tmp_path)
    assert {rule: tag.place.name for tag in tags for rule in tag.rules} == {
        "S000-1": "LIMIT",
        "S000-2": "",
        "S000-3": "Queue.size",
        "S000-4": "Queue.head",
        "S000-5": "Queue.head",
        "S000-6": "Queue.head",
        "S000-7": "Queue.head",
        "S000-8": "Queue.head",
        "S000-9": "Queue.wait.step",
    }
    assert {tag.place.path for tag in tags} == {"core/queue.py"}
    assert all(tag.is_plain for tag in tags)


@pytest.mark.parametrize(
    "comment", ["S000-1", "S000-1:", "as S000-1 asks: so", "S000-1 (S000-2): so", "S000-1: S000-2"]
)
def test_a_comment_that_names_a_rule_begins_with_it_and_gives_a_reason(
    comment: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text(f"a = 1  # {comment}\n")
    assert [tag.is_plain for tag in find_tags(tmp_path)] == [False]


def test_a_row_shows_code_one_test_and_how_many_there_are() -> None:
    line = "| S000-1 | `a \\|\\| b` | old | old | 7 | better: so; differs: there |"
    places = {"S000-1": [Place("core/a.py", "A.b"), Place("core/c.py", "")]}
    tests = [
        RuleTest("tests/server/test_a.py::test_x", "S000-1"),
        RuleTest("tests/core/b.py", "S000-1"),
    ]
    filled = fill(f"# Page\n\n{line}\n", places, {"S000-1": tests})
    assert filled == (
        "# Page\n\n"
        "| S000-1 | `a \\|\\| b` | `core/a.py` `A.b`<br>`core/c.py` | `tests/core/b.py` | 2 "
        "| better: so; differs: there |\n"
    )
    assert fill(filled, places, {"S000-1": tests}) == filled
    assert fill(filled, {}, {}) == (
        "# Page\n\n| S000-1 | `a \\|\\| b` | | | | better: so; differs: there |\n"
    )
    [row] = read(filled)
    assert row == Row("S000-1", "`a \\|\\| b`", "better: so; differs: there")
    assert stand(row, places, {}).places == places["S000-1"]


@pytest.mark.parametrize(
    "remark", ["part 6", "", "not planned: ", "soon", "later: agent", "better: not planned: x"]
)
def test_other_words_do_not_leave_a_rule_out(remark: str) -> None:
    assert not Row("S000-1", "text", remark).is_not_planned


@pytest.mark.parametrize("remark", ["not planned: why", "better: so; not planned: why"])
def test_a_rule_may_be_left_out_for_a_reason(remark: str) -> None:
    assert Row("S000-1", "text", remark).is_not_planned


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository in which a test shows the first rule, and all others are left out."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_x(): 'S000-1'\n")
    (tmp_path / "src" / "headgate").mkdir(parents=True)
    (tmp_path / "src" / "headgate" / "a.py").write_text("A = 1  # S000-1: so.\n")
    folder(tmp_path).mkdir(parents=True)
    (folder(tmp_path) / "README.md").write_text("# Index\n\n| family |\n|---|\n\nWords.\n")
    for family in FAMILIES:
        rows = (f"| {rule} | text | | | | not planned: no |\n" for rule in family.rules)
        (folder(tmp_path) / family.page).write_text(f"# {family.name}\n\n{''.join(rows)}")
    page = folder(tmp_path) / FAMILIES[0].page
    page.write_text(page.read_text().replace("not planned: no", "differs: so", 1))
    return tmp_path


def test_the_check_lists_what_differs_and_writes_nothing(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = folder(root) / FAMILIES[0].page
    before = page.read_text()
    assert main(["--check"], root) == 1
    row = "| S000-1 | text | `a.py` `A` | `tests/test_a.py::test_x` | 1 | differs: so |"
    assert f"+{row}" in capsys.readouterr().err
    assert page.read_text() == before
    assert not (folder(root) / MAP).exists()
    assert main([], root) == 0
    assert row in page.read_text()
    assert main(["--check"], root) == 0


def test_the_index_counts_and_keeps_its_words(root: Path) -> None:
    assert main([], root) == 0
    index = (folder(root) / "README.md").read_text()
    assert "| S000 | [S000](s000.md) | 99 | 1 | 1 | 0 | 1 | 98 |\n" in index
    assert "|  | all | 796 | 1 | 1 | 0 | 1 | 795 |\n\nWords.\n" in index


def test_a_rule_that_lost_its_test_and_rules_that_are_none_are_reported(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "tests" / "test_a.py").write_text("def test_x(): 'S000-100'\n")
    (root / "src" / "headgate" / "a.py").write_text("A = 1  # S000-101: so.\nB = 2  # S000-2\n")
    assert main([], root) == 1
    assert capsys.readouterr().err.splitlines() == [
        "tests/test_a.py::test_x names S000-100, which is no rule",
        "src/headgate/a.py:1 names S000-101, which is no rule",
        "src/headgate/a.py:2 should begin with its rules and give a reason: # S000-23: why",
        "S000-1 has no test, and no remark that says why",
    ]


def test_a_row_that_is_missing_is_reported(root: Path) -> None:
    page = folder(root) / FAMILIES[1].page
    page.write_text(page.read_text().replace("| S001-94 |", "| S001-95 |"))
    assert mistakes(root, Evidence.of(root)) == ["s001.md should have the rules 1 to 94, in order"]


def test_the_tool_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chekc"]) == 2
    assert "usage" in capsys.readouterr().err
