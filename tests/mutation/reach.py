"""Which lines each test reaches, and how long it takes.

What was found is kept for each file of tests until that file, a conftest.py that it is under, or a
module that it reaches, is another.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from coverage import CoverageData

from tests.mutation.watch import PROFILE
from tests.support.repository import ROOT

SOURCE = ROOT / "src" / "headgate"
PARTS = ("core", "expr", "wire")
KEPT = ROOT / "var" / "mutants"
SECONDS_MAX = 3000
BATCH_FILES_MAX = 6
PYTEST = (
    *("-q", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-p", "tests.mutation.watch", f"--hypothesis-profile={PROFILE}"),
)
"""What every run of tests is told here."""


@dataclass(frozen=True)
class Ran:
    """What is known of a test, whatever its parameters."""

    seconds: float
    is_passed: bool
    lines: dict[str, frozenset[int]]
    """Of the modules, by their paths from the package, while the test itself ran."""

    def reaches(self, path: str, line: int) -> bool:
        return line in self.lines.get(path, ())


def reach(tests: Iterable[str], say: Callable[[str], None]) -> dict[str, Ran]:
    """Every test, run once if what is kept of it does not hold."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in sorted(tests):
        by_file[test.partition("::")[0]].append(test)
    found = {file: _kept(file, named) for file, named in by_file.items()}
    stale = [file for file, ran in found.items() if ran is None]
    for number in range(0, len(stale), BATCH_FILES_MAX):
        batch = stale[number : number + BATCH_FILES_MAX]
        say(f"which lines do tests reach? {number}/{len(stale)} files, now {batch[0]} and on")
        ran_now = _measure([test for file in batch for test in by_file[file]])
        for file in batch:
            found[file] = {test: ran_now[test] for test in by_file[file]}
            _keep(file, {test: ran_now[test] for test in by_file[file]})
    return {
        test: ran for tests_of_file in found.values() for test, ran in (tests_of_file or {}).items()
    }


def plain(name: str) -> str:
    """The id of a test without its parameters."""
    return re.sub(r"\[.*\]$", "", name, flags=re.DOTALL)


def _measure(tests: list[str]) -> dict[str, Ran]:
    with tempfile.TemporaryDirectory() as folder:
        file, notes = Path(folder) / "coverage", Path(folder) / "notes"
        # Only lines of these parts: watching everything takes several times as long.
        watched = [f"--cov=headgate.{part}" for part in PARTS]
        arguments = [*watched, f"--cov-config={os.devnull}", "--cov-context=test", "--cov-report="]
        subprocess.run(
            [sys.executable, "-m", "pytest", *PYTEST, *arguments, "--notes", str(notes), *tests],
            cwd=ROOT,
            env={**os.environ, "COVERAGE_FILE": str(file)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS_MAX,
        )
        lines = _lines(file)
        seconds: defaultdict[str, float] = defaultdict(float)
        outcomes: defaultdict[str, set[str]] = defaultdict(set)
        for text in notes.read_text().splitlines():
            note = json.loads(text)
            seconds[plain(note["test"])] += note["seconds"]
            outcomes[plain(note["test"])].add(note["outcome"])
        return {
            test: Ran(
                seconds[test],
                "passed" in outcomes[test] and "failed" not in outcomes[test],
                {path: frozenset(numbers) for path, numbers in lines[test].items()},
            )
            for test in tests
        }


def _lines(file: Path) -> defaultdict[str, defaultdict[str, set[int]]]:
    """The lines that each test reached, by module."""
    data = CoverageData(str(file))
    data.read()
    found: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for name in data.measured_files():
        path = Path(name)
        if not path.is_relative_to(SOURCE) or path.relative_to(SOURCE).parts[0] not in PARTS:
            continue
        within = path.relative_to(SOURCE).as_posix()
        for line, contexts in data.contexts_by_lineno(name).items():
            for context in contexts:
                test, _, phase = context.rpartition("|")
                if phase == "run":
                    found[plain(test)][within].add(line)
    return found


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _state(file: str) -> str:
    """Of a file of tests, and of what pytest reads for it."""
    path = ROOT / file
    folders = [folder for folder in path.parents if folder.is_relative_to(ROOT)]
    return " ".join(_digest(each) for each in (path, *(f / "conftest.py" for f in folders)))


def _place(file: str) -> Path:
    return KEPT / "reach" / f"{file.replace('/', '.')}.json"


def _keep(file: str, tests: dict[str, Ran]) -> None:
    paths = sorted({path for ran in tests.values() for path in ran.lines})
    record = {
        "digest": _state(file),
        "modules": {path: _digest(SOURCE / path) for path in paths},
        "tests": {
            test: {
                "seconds": ran.seconds,
                "passed": ran.is_passed,
                "lines": {path: sorted(lines) for path, lines in sorted(ran.lines.items())},
            }
            for test, ran in tests.items()
        },
    }
    _place(file).parent.mkdir(parents=True, exist_ok=True)
    _place(file).write_text(json.dumps(record))


def _kept(file: str, tests: list[str]) -> dict[str, Ran] | None:
    """What was found before, unless it does not hold any longer."""
    if not _place(file).exists():
        return None
    record = json.loads(_place(file).read_text())
    is_same = record["digest"] == _state(file) and all(
        digest == _digest(SOURCE / path) for path, digest in record["modules"].items()
    )
    if not is_same or not set(tests) <= set(record["tests"]):
        return None
    return {
        test: Ran(
            known["seconds"],
            known["passed"],
            {path: frozenset(lines) for path, lines in known["lines"].items()},
        )
        for test, known in record["tests"].items()
        if test in tests
    }
