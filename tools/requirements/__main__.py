"""Fills the pages and the map in; with ``--check`` it only compares."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from tests.support.repository import ROOT
from tools.requirements.pages import Row, as_json, fill, fill_index, read, stand, title_of
from tools.requirements.places import Place, Tag, find_tags
from tools.requirements.rules import FAMILIES, Family, all_rules
from tools.requirements.showing import RuleTest, by_rule, find_tests

INDEX = "README.md"
MAP = "requirements.json"
USAGE = "usage: python -m tools.requirements [--check]"


@dataclass(frozen=True)
class Evidence:
    """What stands for rules in a repository."""

    tests: list[RuleTest]
    tags: list[Tag]

    @classmethod
    def of(cls, root: Path) -> Evidence:
        return cls(find_tests(root), find_tags(root / "src" / "headgate"))

    def places(self) -> dict[str, list[Place]]:
        """The places of each rule that has any, sorted."""
        found: dict[str, set[Place]] = {}
        for tag in self.tags:
            for rule in tag.rules:
                found.setdefault(rule, set()).add(tag.place)
        return {rule: sorted(places) for rule, places in found.items()}


def folder(root: Path) -> Path:
    """Where the pages are."""
    return root / "docs" / "requirements"


def texts(root: Path, evidence: Evidence) -> dict[str, str]:
    """What index, pages and map should be, by their names."""
    tests, places = by_rule(evidence.tests), evidence.places()
    filled = {INDEX: (folder(root) / INDEX).read_text()}
    shown: dict[Family, tuple[str, list[Row]]] = {}
    for family in FAMILIES:
        page = (folder(root) / family.page).read_text()
        filled[family.page] = fill(page, places, tests)
        shown[family] = title_of(page), [stand(row, places, tests) for row in read(page)]
    filled[INDEX] = fill_index(filled[INDEX], shown)
    filled[MAP] = as_json(row for _, rows in shown.values() for row in rows)
    return filled


def mistakes(root: Path, evidence: Evidence) -> list[str]:
    """Names of rules that there are not, comments in another form, rules that nothing shows."""
    known = set(all_rules())
    wrong = [
        f"{test.name} names {rule}, which is no rule"
        for test in evidence.tests
        for rule in sorted(test.rules - known)
    ]
    for tag in evidence.tags:
        where = f"src/headgate/{tag.place.path}:{tag.line}"
        if not tag.is_plain:
            wrong.append(f"{where} should begin with its rules and give a reason: # S000-23: why")
        wrong.extend(f"{where} names {rule}, which is no rule" for rule in {*tag.rules} - known)
    shown = by_rule(evidence.tests)
    for family in FAMILIES:
        rows = read((folder(root) / family.page).read_text())
        if [row.rule for row in rows] != family.rules:
            wrong.append(f"{family.page} should have the rules 1 to {family.count}, in order")
        wrong.extend(
            f"{row.rule} has no test, and no remark that says why"
            for row in rows
            if row.rule not in shown and not row.is_not_planned
        )
    return wrong


def main(arguments: list[str], root: Path = ROOT) -> int:
    if arguments not in ([], ["--check"]):
        print(USAGE, file=sys.stderr)
        return 2
    evidence = Evidence.of(root)
    wrong: list[str] = []
    for name, after in texts(root, evidence).items():
        path = folder(root) / name
        if not arguments:
            path.write_text(after)
        elif (before := path.read_text() if path.exists() else "") != after:
            changes = unified_diff(
                before.splitlines(), after.splitlines(), name, name, "", "", 0, ""
            )
            wrong.extend(changes)
    wrong.extend(mistakes(root, evidence))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
