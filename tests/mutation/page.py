"""docs/mutants.md, and why some mutants may survive: ``reasons.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.mutation.draw import Mutant
from tests.mutation.trial import Verdict
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "mutants.md"
REASONS = Path(__file__).with_name("reasons.toml")
OPEN = "*open*"

HEAD = """\
# Mutants

A change of a line that decides something for a rule should make a test fail that the rule names.
`make mutants` draws rules, changes up to {each} lines of each, one at a time, and runs the rule's
own tests: `<` becomes `<=`, `and` becomes `or`, a condition is turned round, a number grows by one,
a call or an assignment is left out. The lines of a rule are those that a comment marks with it
(`# S000-23: why`): the statement below, or the condition and what is done under it.
{longer}

The rules are those that have such a line in `core/`, `expr/` or `wire/` that can be changed and
that a test without sockets reaches; there are {of}. What is equivalent can be noticed by no test,
since the program does the same; the share is of the others. Who does not end any longer is killed.

| seed of the draw | rules | mutants | killed | did not end | equivalent | survived | share |
|---|---|---|---|---|---|---|---|
"""

LONGER = "What survives quick tests is tried with those that take long or use sockets as well."
NOT_LONGER = (
    "Tests that take long or use sockets were left out here: some survivors may be killed by them."
)

TABLE = """
## Survivors

What was not noticed, and why it may stay so; *open* is a test to be written. The reasons are kept
in `tests/mutation/reasons.toml`.

| rule | line | change | why |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Reason:
    """Why a mutant may survive."""

    why: str
    is_equivalent: bool
    """No test can notice it."""


Reasons: TypeAlias = Mapping[tuple[str, str, str], Reason]
"""By rule, function and change. What holds for every rule has none."""

Draw: TypeAlias = Sequence[tuple[Mutant, Verdict]]
"""The mutants of a draw, and what became of each."""


def reasons(text: str) -> dict[tuple[str, str, str], Reason]:
    return {
        (each.get("rule", ""), each["function"], each["change"]): Reason(
            each["why"], each.get("equivalent", False)
        )
        for each in tomllib.loads(text).get("survivor", [])
    }


def page(
    draws: Mapping[int, Draw], known: Reasons, *, each: int, of: int, is_quick: bool = False
) -> str:
    """Of draws by their seeds, with the tests of all lengths, or with quick ones only."""
    head = HEAD.format(each=each, of=of, longer=NOT_LONGER if is_quick else LONGER)
    counts = [f"{_counts(seed, draw, known)}\n" for seed, draw in draws.items()]
    survivors = dict.fromkeys(mutant for draw in draws.values() for mutant in _survivors(draw))
    rows = [f"{row(mutant, known)}\n" for mutant in survivors]
    return head + "".join(counts) + (TABLE + "".join(rows) if rows else "")


def row(mutant: Mutant, known: Reasons) -> str:
    change = mutant.change
    reason = _reason(mutant, known)
    why = OPEN if reason is None else reason.why
    place = f"`{mutant.path}:{change.line}` {change.function}"
    return f"| {mutant.rule} | {place} | {change.what.replace('|', chr(92) + '|')} | {why} |"


def _counts(seed: int, draw: Draw, known: Reasons) -> str:
    survivors = _survivors(draw)
    reasons_of = [_reason(mutant, known) for mutant in survivors]
    equivalent = sum(reason is not None and reason.is_equivalent for reason in reasons_of)
    killed = len(draw) - len(survivors)
    cells = (
        seed,
        len({mutant.rule for mutant, _ in draw}),
        len(draw),
        killed,
        sum(verdict is Verdict.ENDLESS for _, verdict in draw),
        equivalent,
        len(survivors) - equivalent,
        f"{killed / max(1, len(draw) - equivalent):.1%}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _survivors(draw: Draw) -> list[Mutant]:
    return [mutant for mutant, verdict in draw if verdict is Verdict.SURVIVED]


def _reason(mutant: Mutant, known: Reasons) -> Reason | None:
    function, what = mutant.change.function, mutant.change.what
    return known.get((mutant.rule, function, what), known.get(("", function, what)))
