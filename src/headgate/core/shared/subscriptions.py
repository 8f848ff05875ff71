"""Subscriptions compiled from the interests of a consumer, within the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from headgate.core.commands import Configure, Interest, Open
from headgate.core.delivery.gate import Gate
from headgate.core.facts import Interested
from headgate.core.model.ids import Seq, SessionId
from headgate.core.model.limits import Limits
from headgate.core.shared.app import App
from headgate.core.shared.dispatch import Subscription
from headgate.core.turn.turn import EXPRESSION_BYTE_WORK, Turn
from headgate.errors import BadSubscription, ExpressionError, LimitReached
from headgate.expr.parser import ExpressionLimits
from headgate.expr.predicate import Predicate, compile_expression

LIMIT_OF = {"TOO_LONG": "expression_bytes", "TOO_COMPLEX": "expression_operators"}
"""The limit that an expression exceeds, by the code of the error."""


class SubscriptionCompiler:
    """Makes subscriptions of a consumer's interests: compiled, and within the limits of its app.

    Much of it is compiled over several turns, so that other clients do not wait.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._expression_limits = ExpressionLimits(
            bytes=limits.expression_bytes, operators=limits.expression_operators
        )

    def limit_of(self, error: BadSubscription) -> LimitReached | None:
        """The limit that a refused expression exceeds, if that is the reason."""
        name = LIMIT_OF.get(error.error.code)
        return LimitReached(name, getattr(self._limits, name)) if name is not None else None

    def check(self, app: App | None, session: SessionId, wanted: tuple[Interest, ...]) -> None:
        """Raise if the app would have too many subscriptions, or too many different ones. Called
        before they are compiled, which takes up to three milliseconds each."""
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

    def compiling(
        self,
        command: Open | Configure,
        before: tuple[Subscription, ...],
        turn: Turn,
    ) -> Generator[None, None, tuple[Subscription, ...] | None]:
        """Compile a consumer's subscriptions, some at a time; None if the turn has no room for all
        of them. A subscription with the text of an earlier one keeps that one and its gate, so that
        its unconfirmed messages count."""
        known: dict[str | None, list[Subscription]] = {}
        for subscription in before:
            known.setdefault(subscription.text, []).append(subscription)
        wanted = []
        for index, interest in enumerate(command.interests):
            kept = known.get(interest.expression)
            if kept:
                wanted.append(kept.pop(0))
                continue
            # S003-1, S003-25, BMQ-2: no expression matches everything.
            text, predicate = interest.expression, None
            if text is not None:
                predicate = command.compiled.get(text)
                if predicate is None:
                    if turn.expression_bytes <= 0:
                        return None
                    predicate = command.compiled[text] = self.compile(text, turn)
                    if turn.take_breath():
                        yield
            gate: Gate[Seq] = Gate(interest.window)
            wanted.append(Subscription(command.session, index, predicate, interest.priority, gate))
        return tuple(wanted)

    def compile(self, text: str, turn: Turn) -> Predicate:
        """Compile an expression, charged to the turn; raise if it is wrong."""
        turn.expression_bytes -= len(text)
        turn.work += len(text) * EXPRESSION_BYTE_WORK
        try:
            return compile_expression(text, self._expression_limits)
        except ExpressionError as error:
            raise BadSubscription(error) from error


NOTHING = Interest()
"""Stands in a fact for the subscriptions of a consumer without any."""


def record_subscriptions(
    command: Open | Configure, interests: tuple[Interest, ...], turn: Turn
) -> None:
    """Record a consumer's new subscriptions: the history of a message shows who could have got
    it."""
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
