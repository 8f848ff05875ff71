"""The page says what survived, and why."""

from __future__ import annotations

import re

from tests.mutation.changes import changes_of
from tests.mutation.draw import Mutant
from tests.mutation.page import LONGER, NOT_LONGER, OPEN, PAGE, REASONS, page, reasons
from tests.mutation.trial import Verdict

[CHANGE] = changes_of("def f(a):\n    return not a\n")
MUTANTS = [Mutant(rule, "core/a.py", CHANGE, ("t",), 1.0) for rule in ("S000-1", "S000-2", "BMQ-3")]
SAID = """\
[[survivor]]
function = "f"
change = "`not a` becomes `(a)`"
why = "nobody asks"

[[survivor]]
rule = "BMQ-3"
function = "f"
change = "`not a` becomes `(a)`"
why = "equal for this rule"
equivalent = true
"""


def test_survivors_are_listed_with_their_reasons() -> None:
    verdicts = zip(MUTANTS, [Verdict.SURVIVED, Verdict.ENDLESS, Verdict.SURVIVED], strict=True)
    text = page({7: list(verdicts)}, reasons(SAID), each=3, of=9)
    assert "| 7 | 3 | 3 | 1 | 1 | 1 | 1 | 50.0% |\n" in text
    assert "| S000-1 | `core/a.py:2` f | `not a` becomes `(a)` | nobody asks |\n" in text
    assert "| BMQ-3 | `core/a.py:2` f | `not a` becomes `(a)` | equal for this rule |\n" in text
    assert "| S000-2 |" not in text


def test_what_has_no_reason_is_open() -> None:
    text = page({7: [(MUTANTS[0], Verdict.SURVIVED)]}, {}, each=3, of=9)
    assert text.endswith(f"| {OPEN} |\n")


def test_each_draw_is_counted_and_what_survived_in_both_is_listed_once() -> None:
    both = [(MUTANTS[0], Verdict.SURVIVED)]
    text = page({7: both, 8: [*both, (MUTANTS[1], Verdict.KILLED)]}, {}, each=3, of=9)
    assert "| 7 | 1 | 1 | 0 | 0 | 0 | 1 | 0.0% |\n| 8 | 2 | 2 | 1 | 0 | 0 | 1 | 50.0% |\n" in text
    assert text.count("| S000-1 |") == 1


def test_a_run_without_slow_tests_says_so() -> None:
    text = page({7: [(MUTANTS[0], Verdict.SURVIVED)]}, {}, each=3, of=9, is_quick=True)
    assert NOT_LONGER in text
    assert LONGER not in text


def test_every_reason_is_one_of_a_survivor_on_the_page() -> None:
    text = PAGE.read_text()
    listed = re.findall(r"^\| (\S+) \| \S+ (\S+) \| (.*) \| [^|]* \|$", text, flags=re.MULTILINE)
    known = {(rule, function, what.replace("\\|", "|")) for rule, function, what in listed}
    known |= {("", function, what) for _, function, what in known}
    assert set(reasons(REASONS.read_text())) <= known
