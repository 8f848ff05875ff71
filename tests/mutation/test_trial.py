"""A mutant is killed by a test that fails on it, and by no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.repository import ROOT

PROGRAM = """
import sys
from pathlib import Path

from tests.mutation.changes import changes_of
from tests.mutation.draw import Mutant
from tests.mutation.trial import attempt, load

load()
package, test = Path(sys.argv[1]), sys.argv[2]
for change in changes_of((package / "core" / "a.py").read_text()):
    print(change.what, attempt(Mutant("BMQ-1", "core/a.py", change, (test,), 1.0), source=package))
"""
MODULE = """\
def is_more(a):
    return a > 1
"""
TEST = """\
from headgate.core.a import is_more


def test_two_is_more():
    assert is_more(2)
    assert not is_more(1 - 1)
"""


def test_a_change_is_killed_if_the_test_fails_on_it(tmp_path: Path) -> None:
    module = tmp_path / "program" / "headgate" / "core" / "a.py"
    module.parent.mkdir(parents=True)
    module.write_text(MODULE)
    for folder in module.parents[:2]:
        (folder / "__init__.py").touch()
    test = tmp_path / "test_a.py"
    test.write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(module.parents[1]), str(test)],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "`a > 1` becomes `(a >= 1)` survived",
        "`1` becomes `2` killed",
    ]
    assert module.read_text() == MODULE
