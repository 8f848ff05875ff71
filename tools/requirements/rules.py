"""The families of rules, and how comments and docstrings name a rule."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """The rules of one document."""

    prefix: str
    """What their numbers begin with."""
    count: int
    page: str
    """In docs/requirements/."""

    @property
    def name(self) -> str:
        return self.prefix.removesuffix("-")

    @property
    def rules(self) -> list[str]:
        return [f"{self.prefix}{number}" for number in range(1, self.count + 1)]


FAMILIES = (
    Family("S000-", 99, "s000.md"),
    Family("S001-", 94, "s001.md"),
    Family("S002-", 87, "s002.md"),
    Family("S003-", 83, "s003.md"),
    Family("S004-", 56, "s004.md"),
    Family("BMQ-", 91, "bmq.md"),
    Family("RESP-", 82, "resp.md"),
    Family("SMP-", 41, "smp.md"),
    Family("ACC-", 115, "acc.md"),
    Family("WIRE-", 48, "wire.md"),
)

RULE = rf"(?:{'|'.join(family.prefix for family in FAMILIES)})\d+"
NAMED = re.compile(
    rf"\b(?P<first>{RULE})(?:\s*(?:\.\.|-|–|\bto\b)\s*(?P<last>{RULE})|\.\.(?P<number>\d+))?\b"
)
"""A rule or a range of rules."""


def all_rules() -> list[str]:
    """Every rule, in the order of the pages."""
    return [rule for family in FAMILIES for rule in family.rules]


def named(text: str) -> set[str]:
    """The rules that a text names."""
    return {rule for match in NAMED.finditer(text) for rule in _rules_of(match)}


def heading(text: str) -> list[str]:
    """The rules that a text begins with, as in ``S000-23, S000-24: why``."""
    found: list[str] = []
    place = 0
    while (match := NAMED.match(text, place)) is not None:
        found.extend(_rules_of(match))
        place = match.end() + len(", ") if text.startswith(", ", match.end()) else len(text)
    return found


def _rules_of(match: re.Match[str]) -> list[str]:
    prefix, first = _split(match["first"])
    last = int(match["number"] or first)
    if match["last"] is not None:
        other, last = _split(match["last"])
        if other != prefix:
            return [match["first"], match["last"]]
    return [f"{prefix}{number}" for number in range(first, last + 1)] or [match["first"]]


def _split(rule: str) -> tuple[str, int]:
    number = re.search(r"\d+$", rule)
    assert number is not None, "a rule ends in a number"
    return rule[: number.start()], int(number[0])
