"""New settings for a domain while its queues are in use."""

from __future__ import annotations

from headgate.core.commands import Reconfigure
from headgate.core.effects import Revoked
from headgate.core.facts import ModeKept
from headgate.core.model.ids import SessionId
from headgate.core.shared.app import App
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.history import History
from headgate.core.shared.mode_check import BY_HAND
from headgate.core.shared.pulling import Pulling
from headgate.core.shared.queue import DomainState
from headgate.core.shared.quota import judge
from headgate.core.shared.releasing import Releasing
from headgate.core.turn.turn import Turn


class Reconfiguring:
    """Carries out `Reconfigure`: a domain has new settings.

    Owned by `SharedQueues`; the shard calls it.
    """

    def __init__(
        self,
        context: SharedContext,
        delivery: SharedDelivery,
        catalog: Catalog,
        releasing: Releasing,
        pulling: Pulling,
        history: History,
    ) -> None:
        self._history = history
        self._context = context
        self._delivery = delivery
        self._catalog = catalog
        self._releasing = releasing
        self._pulling = pulling

    def reconfigure(self, command: Reconfigure, turn: Turn) -> None:
        """Apply new settings at once, to stored messages too; filters only to new messages."""
        domain = command.domain
        before = self._context.domains.get(domain.name)
        if before is not None and before.mode is not domain.mode:
            reason = f"it stays {before.mode.value}, not {domain.mode.value}: {BY_HAND}"
            turn.facts.append(ModeKept(turn.now, domain.name, reason))
            return
        if before == domain:
            return
        turn.undo.put(self._context.domains, domain.name, domain)
        state = self._context.states.get(domain.name)
        if state is None:
            return
        # BMQ-66, BMQ-88: limits apply to stored messages; filters were evaluated when they came.
        turn.undo.assign(state, "domain", domain)
        for queue in state.members.values():
            self._catalog.plan(queue)
            for name in domain.apps:
                if name not in queue.apps:
                    # BMQ-77: a new app begins empty, and gets later messages only.
                    turn.undo.put(queue.apps, name, App(name, turn.now))
            for name in list(queue.joined) if not domain.is_open else ():
                turn.undo.pop(queue.joined, name)
                turn.batch.groups[queue.id, name] = None
            self._history.plan(queue, turn)
            for app in [a for a in queue.apps.values() if not queue.has_app(a.id)]:
                self._releasing.drop_app(queue, app, turn)
                for _ in self._pulling.leaving_app(queue, app, turn):
                    pass
            for app in queue.apps.values():
                if app.redelivery.spared is not None:
                    self._delivery.touch(queue, app)
            judge(queue, turn)
        self._revoke(state, turn)

    def _revoke(self, state: DomainState, turn: Turn) -> None:
        """Notify sessions with a queue open that the domain's lists no longer allow: they have to
        close it."""
        domain = state.domain
        losers: set[SessionId] = set()
        for queue in state.members.values():
            for sessions, clients in (
                (queue.readers(), domain.readers),
                (queue.producers, domain.writers),
            ):
                if clients is not None:
                    losers |= {s for s in sessions if self._client_of(s) not in clients}
        turn.effects += [Revoked(session, domain.name) for session in sorted(losers)]

    def _client_of(self, session: SessionId) -> str:
        session_state = self._context.session_states.find(session)
        return session_state.client if session_state is not None else ""
