"""What a consumer is interested in, compiled into subscriptions, within the limits."""

from __future__ import annotations

from collections import Counter

from headgate.core.apps import App
from headgate.core.commands import Configure, Interest, Open
from headgate.core.dispatch import Subscription
from headgate.core.facts import Interested
from headgate.core.gate import Gate
from headgate.core.limits import Limits
from headgate.core.names import Seq, SessionId
from headgate.core.turn import Turn
from headgate.errors import BadSubscription, ExpressionError, LimitReached
from headgate.expr.parser import ExpressionLimits
from headgate.expr.predicate import Predicate, compile_expression

LIMIT_OF = {"TOO_LONG": "expression_bytes", "TOO_COMPLEX": "expression_operators"}
"""The limits that an expression can reach, by the code of the error."""


class Interests:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._expression_limits = ExpressionLimits(
            bytes=limits.expression_bytes, operators=limits.expression_operators
        )

    def limit_of(self, error: BadSubscription) -> LimitReached | None:
        """The limit that a refused expression is over, if that is why it was refused."""
        name = LIMIT_OF.get(error.error.code)
        return LimitReached(name, getattr(self._limits, name)) if name is not None else None

    def check(self, app: App | None, session: SessionId, wanted: tuple[Interest, ...]) -> None:
        """Raise if the app would have too many subscriptions, or too many different ones. This
        comes before they are compiled, which takes a millisecond each."""
        mine = app.consumers.get(session, ()) if app is not None else ()
        size = (app.size if app is not None else 0) - len(mine) + len(wanted)
        if size > self._limits.subscriptions_per_app:
            raise LimitReached("subscriptions_per_app", self._limits.subscriptions_per_app)
        if size > self._limits.expressions_per_app:
            texts = Counter({g.text: len(g.members) for g in app.groups} if app else {})
            texts.subtract(subscription.text for subscription in mine)
            texts.update(interest.expression for interest in wanted)
            if len(+texts) > self._limits.expressions_per_app:
                raise LimitReached("expressions_per_app", self._limits.expressions_per_app)

    def compile(
        self,
        session: SessionId,
        interests: tuple[Interest, ...],
        before: tuple[Subscription, ...],
    ) -> tuple[Subscription, ...]:
        """A consumer's subscriptions, compiled. One with the text of an earlier one is the
        earlier one, and goes on with its gate, so that what is outstanding counts."""
        known: dict[str | None, list[Subscription]] = {}
        for subscription in before:
            known.setdefault(subscription.text, []).append(subscription)
        wanted = []
        for index, interest in enumerate(interests):
            kept = known.get(interest.expression)
            if kept:
                wanted.append(kept.pop(0))
                continue
            predicate = self._predicate(interest.expression)
            gate: Gate[Seq] = Gate(interest.window)
            wanted.append(Subscription(session, index, predicate, interest.priority, gate))
        return tuple(wanted)

    def _predicate(self, text: str | None) -> Predicate | None:
        if text is None:
            return None
        try:
            return compile_expression(text, self._expression_limits)
        except ExpressionError as error:
            raise BadSubscription(error) from error


NOTHING = Interest()
"""Stands in a fact for the subscriptions of a consumer that has none."""


def tell_interests(command: Open | Configure, interests: tuple[Interest, ...], turn: Turn) -> None:
    """Say what a consumer wants now: the history of a message is told by those who could have
    had it."""
    for place, interest in enumerate(interests or (NOTHING,)):
        turn.facts.append(
            Interested(
                turn.now,
                command.queue,
                command.app,
                command.session,
                place,
                len(interests),
                interest.expression,
                interest.priority,
            )
        )
