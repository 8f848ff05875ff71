"""Expressions and messages at random: from a seed, and for Hypothesis.

Names and values come from small pools, so that a drawn message often has what a drawn
expression asks for; the pools hold the values where things go wrong.
"""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from headgate.expr.nodes import (
    PRECEDENCE,
    Binary,
    Boolean,
    Exists,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
)
from headgate.expr.types import Value

MIN, MAX = -(2**63), 2**63 - 1

NAMES = ("x", "y", "b", "s", "a.b_9", "exists", "Missing")
NUMBERS = (0, 1, -1, 2, -2, 3, 5, -7, 10, 42, MIN, MAX, MIN + 1, MAX - 1, 2**31, -(2**31), 2**32)
OVER = (MAX + 1, MIN - 1, 2**100)
BYTES = (
    b"",
    b"a",
    b"ab",
    b"b",
    b'"',
    b"\\",
    b"\x00",
    b"1",
    b"\n",
    "é".encode(),
    "\ud7ff".encode(),
    "\ue000".encode(),
    "\U0001f600".encode(),
    b"\x80",
    b"\xc3",
    b"\xc3A",
    b"\xff",
    b"a\xff",
    b"\xed\xa0\x80",
)
TEXTS = tuple(raw.decode("utf-8", "surrogateescape") for raw in BYTES)
ANYTHING: tuple[Value, ...] = (*NUMBERS, *TEXTS, *OVER, True, False, b"", b"a")
OPERATORS = tuple(PRECEDENCE)


def tree(random: Random, size: int) -> Tree:
    """A tree of about so many operators; mostly of fitting types."""
    return _boolean(random, size) if random.random() < 0.95 else _any(random, size)


def _any(random: Random, size: int) -> Tree:
    if size <= 0:
        return _leaf(random)
    if random.random() < 0.2:
        return Unary(random.choice("!-"), _any(random, size - 1))
    left = random.randrange(size)
    op = random.choice(OPERATORS)
    return Binary(op, _any(random, left), _any(random, size - 1 - left))


def _boolean(random: Random, size: int) -> Tree:
    if random.random() < 0.03:
        return _any(random, size)
    if size <= 0:
        return random.choice(
            (
                Property("b"),
                Property(random.choice(NAMES)),
                Exists(random.choice(NAMES)),
                Boolean(True),
                Boolean(False),
            )
        )
    left = random.randrange(size)
    right = size - 1 - left
    chance = random.random()
    if chance < 0.15:
        return Unary("!", _boolean(random, size - 1))
    if chance < 0.5:
        op = random.choice(("&&", "||"))
        return Binary(op, _boolean(random, left), _boolean(random, right))
    op = random.choice(("==", "!=", "<", "<=", ">", ">="))
    if chance < 0.85:
        return Binary(op, _integer(random, left), _integer(random, right))
    if chance < 0.95:
        return Binary(op, _text(random), _text(random))
    return Binary(op, _boolean(random, left), _boolean(random, right))


def _integer(random: Random, size: int) -> Tree:
    if random.random() < 0.03:
        return _any(random, size)
    if size <= 0:
        return random.choice((Property("x"), Property("y"), Integer(random.choice(NUMBERS))))
    if random.random() < 0.2:
        return Unary("-", _integer(random, size - 1))
    left = random.randrange(size)
    op = random.choice("+-*/%")
    return Binary(op, _integer(random, left), _integer(random, size - 1 - left))


def _text(random: Random) -> Tree:
    return random.choice((Property("s"), Property("a.b_9"), Text(random.choice(TEXTS))))


def _leaf(random: Random) -> Tree:
    return random.choice(
        (
            Property(random.choice(NAMES)),
            Exists(random.choice(NAMES)),
            Integer(random.choice(NUMBERS)),
            Text(random.choice(TEXTS)),
            Boolean(random.random() < 0.5),
        )
    )


def properties(random: Random) -> dict[str, Value]:
    """A message: mostly what the names suggest, sometimes anything, sometimes nothing."""
    drawn: dict[str, Value] = {
        "x": random.choice(NUMBERS),
        "y": random.randint(-12, 12),
        "b": random.random() < 0.5,
        "s": random.choice(TEXTS),
        "a.b_9": random.choice(TEXTS),
        "exists": random.random() < 0.5,
    }
    for name in list(drawn):
        chance = random.random()
        if chance < 0.08:
            del drawn[name]
        elif chance < 0.16:
            drawn[name] = random.choice(ANYTHING)
    return drawn


relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For the laws: a busy machine is not a failure."""

numbers = st.sampled_from(NUMBERS) | st.integers(MIN, MAX)
texts = (st.sampled_from(BYTES) | st.binary(max_size=6)).map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)
names = st.sampled_from(NAMES) | st.from_regex(r"[a-zA-Z][a-zA-Z0-9_.]{0,5}", fullmatch=True)
values = numbers | texts | st.booleans() | st.binary(max_size=3) | st.sampled_from(OVER)
messages = st.dictionaries(names, values, max_size=6)

leaves: st.SearchStrategy[Tree] = (
    names.filter(lambda name: name not in ("true", "false")).map(Property)
    | names.filter(lambda name: name not in ("true", "false")).map(Exists)
    | numbers.map(Integer)
    | texts.map(Text)
    | st.booleans().map(Boolean)
)


def _grown(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    unary: st.SearchStrategy[Tree] = st.builds(Unary, st.sampled_from("!-"), children)
    return unary | st.builds(Binary, st.sampled_from(OPERATORS), children, children)


trees: st.SearchStrategy[Tree] = st.recursive(leaves, _grown, max_leaves=16)
shaped_trees = st.builds(tree, st.randoms(use_true_random=False), st.integers(0, 10))
