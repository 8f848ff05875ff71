"""The compiled predicates against the reference, at length.

``python -m tests.expr.agree --count 1000000 --seed 7``
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random, SystemRandom

from headgate.expr.index_keys import keys_of
from headgate.expr.nodes import Tree, text_of
from headgate.expr.parser import ExpressionLimits, parse
from headgate.expr.predicate import Predicate
from headgate.expr.types import Value
from tests.expr import draw, reference

ROOMY = ExpressionLimits(bytes=65_536, operators=10_000)
MESSAGES_PER_EXPRESSION = 5


def disagreement(tree: Tree, predicate: Predicate, message: dict[str, Value]) -> str | None:
    """What is wrong with the compiled predicate for a message, if anything is."""
    wanted = reference.evaluate(tree, message)
    found = predicate.evaluate(message)
    matches = predicate.matches(message)
    if str(found) != str(wanted) or matches is not (wanted is True):
        return f"{text_of(tree)!r} for {message!r}: {wanted}, but {found} and matches {matches}"
    keys = keys_of(tree)
    if matches and keys is not None and not any(key.holds(message) for key in keys):
        return f"{text_of(tree)!r} matches {message!r}, but no key holds of {keys}"
    return None


def compare(count: int, seed: int) -> Counter[str]:
    """Draw so many pairs of an expression and a message; how often each outcome came."""
    random = Random(seed)
    outcomes: Counter[str] = Counter()
    drawn = 0
    while drawn < count:
        tree = draw.tree(random, random.randint(0, 10))
        predicate = Predicate(text_of(tree), tree)
        for _ in range(min(MESSAGES_PER_EXPRESSION, count - drawn)):
            message = draw.properties(random)
            problem = disagreement(tree, predicate, message)
            assert problem is None, f"seed {seed}: {problem}"
            outcomes[str(predicate.evaluate(message))] += 1
            drawn += 1
        # The text is read back once per expression; NO_PROPERTIES is not about meaning.
        if predicate.properties:
            assert parse(text_of(tree), ROOMY) == tree, f"seed {seed}: {tree}"
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    options = parser.parse_args()
    started = time.monotonic()
    outcomes = compare(options.count, options.seed)
    seconds = time.monotonic() - started
    print(f"seed {options.seed}: {options.count} pairs agree, {seconds:.0f} s")
    for outcome, times in outcomes.most_common():
        print(f"{outcome:>12} {times}")


if __name__ == "__main__":
    main()
