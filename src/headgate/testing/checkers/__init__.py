"""Checkers of what must hold in every world, however bad its weather.

A checker is told what happens by the methods it has, and raises what must not. It knows the
rules, not the core: it goes by commands, effects, facts and what the store was made to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.testing.checkers.answers import Answers
from headgate.testing.checkers.base import Checker
from headgate.testing.checkers.channels import Budgets, Hearing
from headgate.testing.checkers.exclusive import Exclusive, Tallies
from headgate.testing.checkers.facts import Facts
from headgate.testing.checkers.histories import Histories
from headgate.testing.checkers.holding import Holding
from headgate.testing.checkers.ledger import Changes, Ledger
from headgate.testing.checkers.memory import PASSED_OVER, Memory
from headgate.testing.checkers.messages import Confirms, Losses, Order
from headgate.testing.checkers.states import MessageStates
from headgate.testing.checkers.windows import Windows

if TYPE_CHECKING:
    from headgate.testing.world import World

__all__ = ["PASSED_OVER", "Changes", "Checker", "Ledger", "all_checkers"]


def all_checkers(world: World) -> list[Checker]:
    kinds: tuple[type[Checker], ...] = (
        Answers,
        Losses,
        Confirms,
        Order,
        Windows,
        MessageStates,
        Exclusive,
        Tallies,
        Memory,
        Facts,
        Budgets,
        Hearing,
        Holding,
        Histories,
    )
    return [kind(world) for kind in kinds]
