"""Effects of the engine that change the records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from headgate.agent.engine import effects as e
from headgate.agent.record_line import RecordLine
from headgate.client.smp.failures import FailureKind
from headgate.notify.subscriptions import (
    NotifierSubscription,
    accept,
    delete,
    dissociate,
    refuse,
)
from headgate.ntf_server.records import Tables, routers, subscriptions
from headgate.ntf_server.records.routers import RouterNumber

OURS: Final = b"ours"
"""Stands for the service id of the session: the engine has compared it."""

LASTING: Final = (FailureKind.PERMANENT, FailureKind.BLOCKED, FailureKind.SERVICE)


def store(line: RecordLine[Tables], effect: e.Effect) -> bool:
    """Have an effect stored, in its place; whether it is one that changes the records."""
    match effect:
        case e.SetAssociated(_, router, queues, True):
            associate = partial(accept, service=OURS, ours=OURS)
            line.write(subscriptions.change, RouterNumber(router), queues, associate)
        case e.SetAssociated(_, router, queues, False):
            line.write(subscriptions.change, RouterNumber(router), queues, dissociate)
        case e.ClearAssociations(_, router):
            line.write(routers.clear_associations, RouterNumber(router))
        case e.StoreServiceId(_, router, service, clear):
            line.write(routers.put_service_id, RouterNumber(router), service, clear=clear)
        case e.DeleteService(_, router):
            line.write(routers.forget_service, RouterNumber(router))
        case e.RemoveQueue(router, queue):
            line.write(subscriptions.change, RouterNumber(router), [queue], delete)
        case e.StoreNotice():
            pass  # why a queue was blocked is the error of its subscription
        case _:
            return False
    return True


def settle(line: RecordLine[Tables], router: RouterNumber, outcomes: Sequence[e.Outcome]) -> None:
    """Keep what became of subscriptions. Failures that may pass change nothing."""
    active = [each.queue for each in outcomes if each.failure is None]
    if active:
        line.write(subscriptions.change, router, active, activate)
    for outcome in outcomes:
        failure = outcome.failure
        if failure is not None and failure.kind in LASTING:
            refused = partial(refuse, error=failure.text)
            line.write(subscriptions.change, router, [outcome.queue], refused)


def activate(subscription: NotifierSubscription) -> NotifierSubscription:
    """Record that a notifier is subscribed; whether it is associated is stored by itself."""
    return accept(subscription, OURS if subscription.is_associated else None, OURS)
