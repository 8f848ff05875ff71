"""Whose messages a new subscription would take, held against who gets them when it comes."""

from __future__ import annotations

from headgate.core.commands import Interest, Open
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.message import Properties
from headgate.core.model.window import Window
from headgate.core.shared.impact import Impact, impact
from headgate.core.turn.slices import at_once
from headgate.expr.predicate import compile_expression
from headgate.testing.rig import Rig

NAME = QueueId(b"bmq://orders/q")
MESSAGES: list[Properties] = [
    {"kind": "express", "amount": amount} if amount % 2 else {"kind": "slow", "amount": amount}
    for amount in range(10)
]


def found(expression: str, priority: int, **domain: object) -> list[Impact]:
    orders = Domain("orders", Mode.PRIORITY, **domain)  # type: ignore[arg-type]
    rig = Rig(orders)
    session = rig.session()
    interests = (
        Interest('kind == "express"', priority=8, window=Window(10)),
        Interest("amount >= 8", priority=3, window=Window(10)),
    )
    rig.turn([Open(session, 1, NAME, "orders", read=True, interests=interests)])
    app = rig.shard.shared.queues[NAME].apps[""]
    predicate = compile_expression(expression)
    return at_once(impact(predicate, priority, orders, app, MESSAGES))


def test_a_higher_priority_takes_messages_and_a_lower_one_what_nobody_wants() -> None:
    assert found("amount >= 0", 9) == [
        Impact(5, 'kind == "express"', 8, shares=False),
        Impact(4, None, None, shares=False),
        Impact(1, "amount >= 8", 3, shares=False),
    ]
    assert found("amount >= 0", 1) == [Impact(4, None, None, shares=False)]


def test_the_same_priority_shares() -> None:
    assert found("amount >= 7", 8) == [
        Impact(2, 'kind == "express"', 8, shares=True),
        Impact(1, "amount >= 8", 3, shares=False),
    ]


def test_what_the_app_does_not_want_is_nobodys() -> None:
    filters = {"": (compile_expression("amount < 2"),)}
    assert found("amount >= 0", 9, filters=filters) == [
        Impact(1, None, None, shares=False),
        Impact(1, 'kind == "express"', 8, shares=False),
    ]
