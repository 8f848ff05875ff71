"""Subscriptions to notifiers, made for apps, and the table of their states.

==============================  =============================  ===============  ===================
status                          event                          becomes          function
==============================  =============================  ===============  ===================
none                            SNEW                           NEW              `subscribe`
NEW, INACTIVE                   NSUB is being sent             PENDING          `mark_sent`
wanted                          OK or SOK                      ACTIVE           `accept`
wanted                          AUTH, SERVICE, other error     AUTH, SERVICE,   `refuse`
                                                               ERR
wanted                          temporary error                the same         `refuse`
ACTIVE, single                  session lost                   INACTIVE         `lose`
wanted                          END                            END              `end`
wanted                          DELD                           DELETED          `delete`
SERVICE                         connected without a service,   PENDING          `retry_service`
                                or with it again
not wanted                      SNEW again                     NEW              `subscribe`
==============================  =============================  ===============  ===================

Wanted are NEW, PENDING, ACTIVE and INACTIVE. Other events change nothing, and a function that
changes nothing returns the same object. The state of a router is separate: its service id is not in
here and cannot be lost with a status.
"""

from __future__ import annotations

from dataclasses import field, replace
from hmac import compare_digest
from typing import Final, TypeAlias

from headgate.core.model.ids import QueueId
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.errors import LimitReached, Unauthorised
from headgate.wire.ntf.commands import SNew
from headgate.wire.ntf.replies import SubscriptionState
from headgate.wire.ntf.statuses import SubscriptionStatus
from headgate.wire.smp.codec.router_address import RouterAddress

SUBSCRIPTIONS_MAX: Final = 100_000
"""Most subscriptions of one token. An app has one for each of its queues."""

ERROR_BYTES_MAX: Final = 255
"""Longest text of an error. A router may send 16 KiB; the answer to SCHK has to fit into a block of
512 bytes."""

WANTED: Final = frozenset(
    {
        SubscriptionStatus.NEW,
        SubscriptionStatus.PENDING,
        SubscriptionStatus.ACTIVE,
        SubscriptionStatus.INACTIVE,
    }
)

TEMPORARY: Final = ("STORE", "INTERNAL")
"""Beginnings of errors after which the same NSUB may succeed."""

NO_SERVICE: Final = frozenset({"SERVICE", "PROXY BROKER NO_SERVICE"})

RouterKey: TypeAlias = tuple[str, int, bytes]


def router_key(address: RouterAddress) -> RouterKey:
    """The identity of a router, with one session and one certificate: its first host, port and
    fingerprint. Apps write the other hosts differently."""
    return address.hosts[0].lower(), address.port, address.key_hash


@value
class NotifierSubscription:
    """A subscription of an app: a notifier of one of its queues, by which it wants to be woken."""

    id: bytes
    token: bytes
    router: RouterAddress
    """As this app wrote it: pushes name the router in the same way."""
    notifier: bytes
    notifier_key: bytes = field(repr=False)
    """PKCS#8. It is the app's, and only signs subscriptions."""
    status: SubscriptionStatus = SubscriptionStatus.NEW
    error: str = ""
    """The text of an ERR."""
    is_associated: bool = False
    """Whether the router counts it as one of our service's. Only wanted ones are."""

    @property
    def is_wanted(self) -> bool:
        return self.status in WANTED

    def state(self, is_service_active: bool) -> SubscriptionState:
        """The answer to SCHK. An associated subscription is as active as its service: when that is
        lost, no row is written, however many there are."""
        if self.is_associated and self.status is SubscriptionStatus.ACTIVE:
            active = SubscriptionStatus.ACTIVE if is_service_active else SubscriptionStatus.INACTIVE
            return SubscriptionState(active)
        return SubscriptionState(self.status, self.error)


def subscribe(
    found: NotifierSubscription | None, request: SNew, fresh_id: bytes, held: int
) -> NotifierSubscription:
    """The subscription for the answer to SNEW. `found` is the one for this router and this
    notifier, if there is one; `held` is how many the token has. A new one, and one that had ended,
    is to be subscribed."""
    if found is None:
        if held >= SUBSCRIPTIONS_MAX:
            raise LimitReached("subscriptions_per_token", SUBSCRIPTIONS_MAX)
        return NotifierSubscription(
            fresh_id, request.token, request.router, request.notifier, request.notifier_key
        )
    # ACC-112: for its owner it is the same one, for all others a refusal.
    is_same_key = compare_digest(found.notifier_key, request.notifier_key)
    if found.token != request.token or not is_same_key:
        raise Unauthorised
    if not found.is_wanted:
        return replace(found, router=request.router, status=SubscriptionStatus.NEW, error="")
    return found if found.router == request.router else replace(found, router=request.router)


def mark_sent(subscription: NotifierSubscription) -> NotifierSubscription:
    """Note that NSUB is being sent."""
    if subscription.status in (SubscriptionStatus.NEW, SubscriptionStatus.INACTIVE):
        return replace(subscription, status=SubscriptionStatus.PENDING)
    return subscription


def accept(
    subscription: NotifierSubscription, service: bytes | None, ours: bytes | None
) -> NotifierSubscription:
    """Apply the router's answer OK, or SOK with the id of a service. `ours` is the id of the
    service of the session."""
    if not subscription.is_wanted:
        return subscription
    is_associated = service is not None and service == ours
    if (subscription.status, subscription.is_associated) == (
        SubscriptionStatus.ACTIVE,
        is_associated,
    ):
        return subscription
    return replace(subscription, status=SubscriptionStatus.ACTIVE, is_associated=is_associated)


def refuse(subscription: NotifierSubscription, error: str) -> NotifierSubscription:
    """Apply the router's answer ERR with this text."""
    if error.startswith(TEMPORARY):
        return subscription
    if error == "AUTH":
        return _stop(subscription, SubscriptionStatus.AUTH)
    if error in NO_SERVICE:
        return _stop(subscription, SubscriptionStatus.SERVICE)
    return _stop(subscription, SubscriptionStatus.ERR, _cut(f"SMP error {error}"))


def lose(subscription: NotifierSubscription) -> NotifierSubscription:
    """Apply the loss of the session. Associated subscriptions do not change: see `state`."""
    if subscription.status is SubscriptionStatus.ACTIVE and not subscription.is_associated:
        return replace(subscription, status=SubscriptionStatus.INACTIVE)
    return subscription


def end(subscription: NotifierSubscription) -> NotifierSubscription:
    """Apply the router's END in the current session: another client subscribed."""
    return _stop(subscription, SubscriptionStatus.END)


def delete(subscription: NotifierSubscription) -> NotifierSubscription:
    """Apply the router's DELD: the queue is gone."""
    return _stop(subscription, SubscriptionStatus.DELETED)


def retry_service(subscription: NotifierSubscription) -> NotifierSubscription:
    """Try again: the router was connected without a service, or knows our service again."""
    if subscription.status is SubscriptionStatus.SERVICE:
        return replace(subscription, status=SubscriptionStatus.PENDING)
    return subscription


def dissociate(subscription: NotifierSubscription) -> NotifierSubscription:
    """Make the subscription single again: the router lost or refused our service."""
    return (
        replace(subscription, is_associated=False) if subscription.is_associated else subscription
    )


def tally_after(
    tally: Tally, before: NotifierSubscription | None, after: NotifierSubscription | None
) -> Tally:
    """The tally of a router's associated subscriptions after one was made, changed or removed."""
    if before is not None and before.is_associated:
        tally = tally.minus(QueueId(before.notifier))
    if after is not None and after.is_associated:
        tally = tally.plus(QueueId(after.notifier))
    return tally


def _stop(
    subscription: NotifierSubscription, status: SubscriptionStatus, error: str = ""
) -> NotifierSubscription:
    if not subscription.is_wanted:
        return subscription
    return replace(subscription, status=status, error=error, is_associated=False)


def _cut(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")[:ERROR_BYTES_MAX]
    return data.decode("utf-8", "surrogateescape")
