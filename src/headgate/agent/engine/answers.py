"""Answers of a router to a subscribe, and what its errors mean for the queue."""

from __future__ import annotations

from typing import TypeAlias

from headgate.agent.model import RecipientId
from headgate.client.smp.failures import FailureKind, kind_of_failure
from headgate.core.model.ids import ServiceId
from headgate.core.model.value import value


@value
class Failure:
    """The reason of a failure, as far as the engine needs it."""

    kind: FailureKind
    text: str = ""


@value
class Subscribed:
    """A queue was subscribed: OK, SOK or a message."""

    queue: RecipientId
    service: ServiceId | None = None
    """The service for which it was subscribed."""
    by_message: bool = False
    """Whether the answer was a message, which names no service even if there is one."""


@value
class NotSubscribed:
    """A queue was not subscribed."""

    queue: RecipientId
    failure: Failure


Answer: TypeAlias = Subscribed | NotSubscribed

TIMED_OUT = Failure(FailureKind.TEMPORARY, "no answer in time")
PROHIBITED = Failure(FailureKind.PERMANENT, "a GET of this queue is under way")


def failure_of(error: Exception) -> Failure:
    """The failure of a request or of connecting, by its error. Whether it is temporary is decided
    in one place, `headgate.client.smp.failures`."""
    # S000-61: any answer but success is an error of that queue alone.
    return Failure(kind_of_failure(error), str(error))
