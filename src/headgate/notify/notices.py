"""Notices of routers: their tokens, which ones are kept, and when a push is due.

A notice only says that a notifier has a message. So the last one of each subscription is kept, and
a push, made when it is sent, has the newest ones of a token: a thousand notices that come while one
push waits are that one push.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from heapq import heappop, heappush
from typing import Final

from headgate.core.model.value import value
from headgate.notify.push_content import ENTRIES_MAX
from headgate.notify.subscriptions import NotifierSubscription
from headgate.notify.tokens import Token

PAUSE_SECONDS: Final = 1.0
"""Seconds between two pushes to one token."""


class NoticeFate(Enum):
    """The fate of a notice. The value is its label in the metrics."""

    PUSHED = "pushed"
    NO_TOKEN = "no_token"
    """The subscription or its token was removed. Routers cannot be asked to stop."""
    INACTIVE = "inactive"
    """The token is not verified, or its device is dead."""


def fate_of(subscription: NotifierSubscription | None, token: Token | None) -> NoticeFate:
    """The fate of a notice, by the subscription of its router and notifier, if there is one, and
    its token. All but `PUSHED` are counted and dropped."""
    if subscription is None or token is None:
        return NoticeFate.NO_TOKEN
    assert subscription.token == token.id, "a subscription is pushed to its own token"
    return NoticeFate.PUSHED if token.takes_messages else NoticeFate.INACTIVE


@value
class KeptNotice:
    """The last notice of a subscription."""

    subscription: bytes
    seconds: int
    """When it came."""
    nonce: bytes
    metadata: bytes


def keep(kept: Sequence[KeptNotice], notice: KeptNotice) -> list[KeptNotice]:
    """The notices kept for a token after one more, in order of arrival: one for each subscription,
    and no more than fit into a push."""
    others = [each for each in kept if each.subscription != notice.subscription]
    return [*others, notice][-ENTRIES_MAX:]


class WaitingPushes:
    """Tokens that wait for their pushes, each once and in order. A provider owns one.

    The content of a push is made when it is taken out here, so a token that waits already has
    nothing to add. The caller passes the time, which runs forward.
    """

    __slots__ = ("_due", "_number", "_sent", "_waiting", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._due: list[tuple[float, int, bytes]] = []
        """A heap: when a token may be taken, and its order among those of one time."""
        self._waiting: set[bytes] = set()
        self._sent: dict[bytes, float] = {}
        """When tokens were taken within the last pause, the earliest first."""
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, token: bytes, now: float) -> bool:
        """Add a token to wait for its push. False if there is no room: the next notice tries again,
        and includes this one."""
        if token in self._waiting:
            return True
        if len(self._waiting) >= self.size_max:
            return False
        self._forget(now)
        sent = self._sent.get(token)
        self._number += 1
        self._waiting.add(token)
        due = now if sent is None else sent + PAUSE_SECONDS
        heappush(self._due, (due, self._number, token))
        return True

    def take(self, now: float) -> bytes | None:
        """Take the token whose push is to be sent now, if there is one."""
        if not self._due or self._due[0][0] > now:
            return None
        self._forget(now)
        _, _, token = heappop(self._due)
        self._waiting.discard(token)
        self._sent.pop(token, None)
        self._sent[token] = now
        return token

    @property
    def next_at(self) -> float | None:
        """When to call `take` next; never, if no token waits."""
        return self._due[0][0] if self._due else None

    def _forget(self, now: float) -> None:
        while self._sent:
            token, sent = next(iter(self._sent.items()))
            if sent + PAUSE_SECONDS > now:
                return
            del self._sent[token]
