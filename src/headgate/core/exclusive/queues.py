"""Exclusive queues: one subscriber, displaced by the next, one message unconfirmed at a time.

Subscribe, confirm and send are the three triggers of a delivery, and all call `offer` of
`ExclusiveDelivery`: the first message goes to the present holder if it has none unconfirmed. A send
offers only when it finds the queue empty: later messages wait behind the first. A confirm is
answered with the next message itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.commands import Expire, SubscribeService
from headgate.core.exclusive.amending import Amending
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.confirming import Confirming
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.creating import Creating
from headgate.core.exclusive.delivery import ExclusiveDelivery
from headgate.core.exclusive.holders import Holders
from headgate.core.exclusive.notifiers import Notifiers
from headgate.core.exclusive.sending import Sending
from headgate.core.exclusive.services import Services
from headgate.core.exclusive.subscribing import Subscribing
from headgate.core.exclusive.sweeping import Sweeping
from headgate.core.model.ids import SessionId
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.turn import Turn


class ExclusiveQueues:
    """The exclusive queues of a shard, put together from their parts.

    The shard owns it and calls the handler of each command. A part knows only those before it:
    authorization, services, notifiers, holders, delivery, and then the commands.
    """

    def __init__(self, context: ExclusiveContext) -> None:
        self.context = context
        self.authorization = authorization = Authorization(context)
        self.services = Services(context.session_states)
        self.notifiers = Notifiers(context, authorization, self.services)
        self.holders = Holders(context, self.services)
        self.delivery = ExclusiveDelivery(context, authorization, self.holders)
        self.creating = Creating(
            context, authorization, self.services, self.notifiers, self.holders
        )
        self.subscribing = Subscribing(
            context, authorization, self.services, self.holders, self.delivery
        )
        self.confirming = Confirming(context, authorization, self.delivery)
        self.sending = Sending(context, authorization, self.notifiers, self.delivery)
        self.amending = Amending(context, authorization, self.notifiers, self.holders)
        self.sweeping = Sweeping(context, self.services, self.delivery)

    def subscribe_service(self, command: SubscribeService, turn: Turn) -> None:
        before = self.services.holder(command.service)
        self.services.subscribe(command, turn)
        # ACC-81: waiting notices of a service are for its new subscriber.
        if not command.sweeps and before != command.session:
            self.notifiers.look(command.service, turn)

    def expire(self, turn: Turn) -> None:
        """Expire one page of messages; the rest is another turn's."""
        aged = turn.loaded.aged
        self.sending.expire(aged, turn)
        if len(aged) == self.context.limits.expiries:
            turn.again.append(Expire(aged[-1].seq))
        else:
            self.notifiers.expire(turn)

    def drained(self, session: SessionId, state: SessionState, turn: Turn) -> None:
        """Go on with what waited for room in a mailbox."""
        self.delivery.drained(session, state, turn)
        self.sweeping.resume(state, turn)

    def disconnect(self, session: SessionId, state: SessionState, turn: Turn) -> Iterator[None]:
        """Remove everything of a session that is gone."""
        yield from self.subscribing.disconnect(session, state, turn)
        # S000-75, SMP-7: subscriptions to notifiers end with the session like all others.
        yield from self.notifiers.disconnect(session, state, turn)
        self.services.disconnect(session, state, turn)
