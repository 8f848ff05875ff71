"""Opening a shared queue, subscribing to its apps, and leaving it again."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from headgate.core.commands import (
    Close,
    Configure,
    GiveBack,
    Interest,
    Look,
    LookAgain,
    Open,
)
from headgate.core.facts import AccessDenied, AppUnknown, Subscribed, Unsubscribed
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.model.domain import Mode
from headgate.core.model.ids import WHOLE, AppId, QueueId, SessionId
from headgate.core.shared.app import App
from headgate.core.shared.catalog import Catalog, check_one_more
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.dispatch import Subscription
from headgate.core.shared.expiry import Expiry
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.returning import Returning
from headgate.core.shared.subscriptions import SubscriptionCompiler, record_subscriptions
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.turn import Turn
from headgate.errors import (
    BadSubscription,
    HeadgateError,
    LimitReached,
    NoRight,
    NoSuchQueue,
    Prohibited,
)

LEAVING_WORK = 4
"""Work of closing a queue for a session that is gone, in looks."""


class Opening:
    """Carries out `Open`, `Configure` and `Close`, and closes what a lost session has open.

    A session has a queue open once for each app; its subscriptions are compiled before anything
    changes.
    """

    def __init__(
        self,
        context: SharedContext,
        delivery: SharedDelivery,
        catalog: Catalog,
        expiry: Expiry,
        returning: Returning,
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._catalog = catalog
        self._expiry = expiry
        self._returning = returning
        self._compiler = SubscriptionCompiler(context.limits)

    def open(self, command: Open, turn: Turn) -> Iterator[None]:
        session = command.session
        session_state = self._context.session_states.take(session, turn.undo)
        if session_state is None:
            return
        try:
            # S003-21: subscriptions can come with the open.
            interests = command.interests if command.read else ()
            queue = self._admit(command, session_state, interests, turn)
            compiling = self._compiler.compiling(command, (), turn)
            wanted = (yield from compiling) if command.read else ()
            if wanted is None:
                turn.again.append(command)
                return
            queue = queue or self._catalog.make(command, turn)
        except HeadgateError as error:
            self._refuse(command, error, turn)
            return
        if session_state.client != command.client:
            turn.undo.assign(session_state, "client", command.client)
        turn.undo.put(session_state.opened, (command.queue, command.app), None)
        turn.undo.put(
            session_state.opens, command.queue, session_state.opens.get(command.queue, 0) + 1
        )
        self._use(queue, 1, turn)
        if command.write:
            turn.undo.add(queue.producers, session)
        if command.read:
            if command.app not in queue.apps:
                turn.undo.put(queue.apps, command.app, App(command.app, turn.now))
            app = queue.apps[command.app]
            yield from self._subscribing(queue, app, session, wanted, interests, turn)
            turn.facts.append(Subscribed(turn.now, command.queue, command.app, session))
            record_subscriptions(command, interests, turn)
            # BMQ-76: an app that the domain does not have can be opened, and gets no messages.
            if not queue.has_app(command.app):
                self._record_unknown(command, queue, turn)
        turn.done(session, command.ref)

    def _record_unknown(self, command: Open, queue: SharedQueue, turn: Turn) -> None:
        reader = self._context.session_states.sessions.get(command.session)
        name = "" if reader is None else reader.name
        known = queue.domain.known_apps()
        turn.facts.append(
            AppUnknown(turn.now, command.queue, command.app, command.session, name, known)
        )

    def configure(self, command: Configure, turn: Turn) -> Iterator[None]:
        session = command.session
        try:
            queue, app = self._reading(session, command.queue, command.app)
            before = app.consumers[session]
            self._compiler.check(app, session, command.interests)
            # BMQ-3, BMQ-4: all are compiled before anything changes, so a wrong text changes
            # nothing.
            wanted = yield from self._compiler.compiling(command, before, turn)
            if wanted is None:
                turn.again.append(command)
                return
        except HeadgateError as error:
            self._refuse(command, error, turn)
            return
        # S003-22, BMQ-33: replaced while the queue stays open; unconfirmed messages stay.
        yield from self._subscribing(queue, app, session, wanted, command.interests, turn)
        record_subscriptions(command, command.interests, turn)
        turn.done(session, command.ref)

    def close(self, command: Close, turn: Turn) -> Iterator[None]:
        session = command.session
        session_state = self._context.session_states.find(session)
        key = (command.queue, command.app)
        if session_state is None or key not in session_state.opened:
            turn.fail(session, command.ref, command.queue, NoSuchQueue(command.queue))
            return
        opens = session_state.opens[command.queue] - 1
        rest = yield from self.leave(
            session, command.queue, command.app, opens > 0, lost=False, turn=turn
        )
        turn.undo.pop(session_state.opened, key)
        if opens:
            turn.undo.put(session_state.opens, command.queue, opens)
        else:
            turn.undo.pop(session_state.opens, command.queue)
        self._returning.give_back_later(rest, command.ref, turn)

    def disconnect(
        self, session: SessionId, session_state: SessionState, turn: Turn
    ) -> Generator[None, None, bool]:
        """Close the queues of a session, as many as a turn may; return whether all are closed."""
        for queue, app in list(session_state.opened):
            if turn.returns <= 0:
                return False
            turn.returns -= 1
            rest = yield from self.leave(
                session, queue, app, False, lost=bool(session_state.lost), turn=turn
            )
            turn.undo.pop(session_state.opened, (queue, app))
            self._returning.give_back_later(rest, None, turn)
            turn.work += LEAVING_WORK
            if turn.take_breath():
                yield
        return True

    def drained(self, session: SessionId, session_state: SessionState, turn: Turn) -> None:
        """Note that the mailbox has room again."""
        if session_state.opened:
            self._delivery.hold(session, held=False, turn=turn)

    def look_again(self, command: LookAgain, turn: Turn) -> None:
        """Look again at messages put aside. The queue may be gone, or the app."""
        queue = self._context.queues.get(command.queue)
        app = queue.apps.get(command.app) if queue is not None else None
        if queue is None or app is None:
            turn.fail(command.session, command.ref, command.queue, NoSuchQueue(command.queue))
            return
        app.look_at_all_again(turn.undo)
        self._delivery.touch(queue, app)
        turn.done(command.session, command.ref)

    def look_on(self, command: Look, turn: Turn) -> None:
        """Go on looking at an app. The queue may be gone, or the app."""
        queue = self._context.queues.get(command.queue)
        app = queue.apps.get(command.app) if queue is not None else None
        if queue is not None and app is not None:
            self._delivery.touch(queue, app)
            for text in command.groups:
                self._delivery.touch(queue, app, app.groups.find(text))

    def _refuse(self, command: Open | Configure, error: HeadgateError, turn: Turn) -> None:
        turn.fail(command.session, command.ref, command.queue, error)
        if isinstance(error, NoRight):
            fact = AccessDenied(turn.now, command.session, error.client, error.verb)
            turn.facts.append(fact)
        limit = self._compiler.limit_of(error) if isinstance(error, BadSubscription) else None
        if limit is not None:
            turn.facts.append(LimitReachedFact(turn.now, limit.name, limit.limit, command.session))

    def _admit(
        self,
        command: Open,
        session_state: SessionState,
        interests: tuple[Interest, ...],
        turn: Turn,
    ) -> SharedQueue | None:
        """Raise if the queue may not be opened so; else the queue, if it exists."""
        domain, client = self._catalog.domain_of(command), command.client
        domain.check_rights(client, read=command.read, write=command.write, create=False)
        if (command.queue, command.app) in session_state.opened:
            raise Prohibited("the session has the queue open already")
        if len(session_state.opened) >= self._context.limits.opens_per_session:
            raise LimitReached("opens_per_session", self._context.limits.opens_per_session)
        # BMQ-75: only a fanout queue has apps, and consumers read it through one.
        if domain.mode is not Mode.FANOUT and command.app != WHOLE:
            raise Prohibited(f"a {domain.mode.value} queue has no apps")
        if domain.mode is Mode.FANOUT and command.read and command.app == WHOLE:
            raise Prohibited("a fanout queue is read through one of its apps")
        queue = self._catalog.find(command, turn)
        domain.check_rights(client, read=False, write=False, create=queue is None)
        readers = queue.readers() if queue is not None and domain.max_consumers else set()
        if command.read:
            check_one_more("max_consumers", domain.max_consumers, readers, command.session)
            app = queue.apps.get(command.app) if queue is not None else None
            self._compiler.check(app, command.session, interests)
        if command.write:
            self._catalog.check_producers(domain, queue, command.session)
        return queue

    def _reading(
        self, session: SessionId, queue_id: QueueId, app_id: AppId
    ) -> tuple[SharedQueue, App]:
        queue = self._context.queues.get(queue_id)
        app = queue.apps.get(app_id) if queue is not None else None
        if queue is None or app is None or session not in app.consumers:
            raise NoSuchQueue(queue_id)
        return queue, app

    def _subscribing(
        self,
        queue: SharedQueue,
        app: App,
        session: SessionId,
        subscriptions: tuple[Subscription, ...] | None,
        interests: tuple[Interest, ...],
        turn: Turn,
    ) -> Iterator[None]:
        """Replace a session's subscriptions. Earlier messages are delivered under the old ones
        first, as if commands were carried out one by one."""
        # BMQ-2: earlier messages are delivered under the earlier subscriptions.
        yield from self._expiry.offering_now(turn)
        yield from app.subscribing(session, subscriptions, interests, turn.undo)
        self._delivery.touch(queue, app)

    def leave(
        self,
        session: SessionId,
        queue_id: QueueId,
        app_id: AppId,
        still_open: bool,
        *,
        lost: bool,
        turn: Turn,
    ) -> Generator[None, None, GiveBack]:
        """Close an app of a queue for a session; others get its unconfirmed messages. Return those
        that are still to be given back."""
        rest = GiveBack(session, None, queue_id, app_id, (), lost)
        queue = self._context.queues[queue_id]
        self._use(queue, -1, turn)
        if not still_open:
            turn.undo.discard(queue.producers, session)
        app = queue.apps.get(app_id)
        if app is None or session not in app.consumers:
            return rest
        yield from self._subscribing(queue, app, session, None, (), turn)
        turn.facts.append(Unsubscribed(turn.now, queue_id, app_id, session))
        # BMQ-51, BMQ-54: its unconfirmed messages return, in order, and no others.
        held = sorted(s for s, taker in app.outstanding.items() if taker.session == session)
        rest = self._returning.give_back_some(replace(rest, messages=tuple(held)), turn)
        if not app.consumers and not queue.has_app(app.id):
            turn.undo.pop(queue.apps, app.id)
        return rest

    def _use(self, queue: SharedQueue, opens: int, turn: Turn) -> None:
        """Count that a session opens or closes the queue."""
        turn.undo.assign(queue, "opens", queue.opens + opens)
        turn.undo.assign(queue, "used", turn.now)
        if not queue.opens:
            self._context.chores.put(turn.now + queue.domain.queue_ttl, (queue.id, Chore.UNUSED))
