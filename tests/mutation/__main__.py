"""Do the tests that a rule names fail if its lines are changed? ``make mutants`` asks.

    python -m tests.mutation                    two draws of 120 rules, two mutants each;
                                                docs/mutants.md
    python -m tests.mutation --only S000-1 BMQ-44  these rules; writes nothing

What is found is kept in var/mutants: a second run asks again only what survived or is new. Delete
it to begin anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import zip_longest

from tests.mutation.draw import Lot, Mutant, is_quick, ranked, shown
from tests.mutation.marks import marks
from tests.mutation.page import PAGE, REASONS, page, reasons, row
from tests.mutation.reach import KEPT, PARTS, SOURCE, reach
from tests.mutation.trial import Verdict, attempt, is_unharmed, load
from tests.support.repository import ROOT
from tools.requirements.__main__ import MAP, folder

VERDICTS = KEPT / "verdicts.jsonl"
CONTROL_SECONDS = 0.02
"""Tests that take longer are not asked whether they pass here as well."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rules", type=int, default=120)
    parser.add_argument("--each", type=int, default=2, help="mutants of a rule")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 11], help="a draw for each")
    parser.add_argument("--workers", type=int, default=2, help="mutants that are tried at a time")
    parser.add_argument("--only", nargs="+", default=[], help="these rules instead of drawn ones")
    parser.add_argument("--guess", action="store_true", help="lines by the tests that reach them")
    parser.add_argument("--quick", action="store_true", help="leave out tests that take longer")
    parser.add_argument("--page", action="store_true", help="try nothing, write what is known")
    options = parser.parse_args()
    tests_of = shown((folder(ROOT) / MAP).read_text())
    ran = reach({test for tests in tests_of.values() for test in tests if is_quick(test)}, say)
    for test in sorted(test for test, known in ran.items() if not known.is_passed):
        say(f"left out, as it does not pass unchanged: {test}")
    able = 0
    draws: dict[int, list[Mutant]] = {}
    for seed in options.seeds:
        lot = Lot(seed, tests_of, ran, SOURCE, None if options.guess else marks(SOURCE))
        drawn = [rule for rule in ranked(seed, tests_of) if lot.has_lines(rule)]
        able, rules = len(drawn), options.only or drawn[: options.rules]
        by_rule = [lot.mutants(rule, options.each) for rule in rules]
        draws[seed] = [each for turn in zip_longest(*by_rule) for each in turn if each is not None]
        say(f"{len(draws[seed])} mutants of {len(rules)} rules in {', '.join(PARTS)}")
    known = {} if options.only else kept()
    why = reasons(REASONS.read_text())
    mutants = {mutant.name: mutant for drawn in draws.values() for mutant in drawn}
    asked = [m for name, m in mutants.items() if known.get(name) in (None, Verdict.SURVIVED)]
    if options.page:
        asked = []
    load()
    say(f"{len(asked)} of them are to be tried; do tests pass as long as nothing is changed?")
    if not is_unharmed({m.tests[0] for m in asked if ran[m.tests[0]].seconds < CONTROL_SECONDS}):
        say("they do not, so nothing can be said about mutants")
        return 1
    for slowly in (False,) if options.quick else (False, True):
        with ThreadPoolExecutor(options.workers) as pool:
            tried = {pool.submit(attempt, mutant, slowly=slowly): mutant for mutant in asked}
            for number, future in enumerate(as_completed(tried), 1):
                mutant, verdict = tried[future], future.result()
                known[mutant.name] = verdict
                keep(mutant.name, verdict)
                say(f"{number}/{len(asked)} {verdict} {row(mutant, why)}")
        asked = [m for m in asked if known[m.name] is Verdict.SURVIVED and m.slow]
        say(f"{len(asked)} are left for tests that take longer")
    found = {
        seed: [(mutant, known[mutant.name]) for mutant in drawn if mutant.name in known]
        for seed, drawn in draws.items()
    }
    text = page(found, why, each=options.each, of=able, is_quick=options.quick)
    if options.only:
        print(text)
    else:
        PAGE.write_text(text)
    return 0


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def keep(name: str, verdict: Verdict) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    with VERDICTS.open("a") as file:
        file.write(json.dumps([name, verdict]) + "\n")


def kept() -> dict[str, Verdict]:
    """The last word on each."""
    lines = VERDICTS.read_text().splitlines() if VERDICTS.exists() else []
    return {name: Verdict(verdict) for name, verdict in map(json.loads, lines)}


if __name__ == "__main__":
    sys.exit(main())
