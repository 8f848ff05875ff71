"""Every exception of Headgate.

* HeadgateError
    * ProtocolError              the peer broke the protocol; the session closes
    * Refused                    the peer asked for something it may not have
        * NoSuchQueue
        * QueueExists
        * NoMessage              nothing is in flight that this would confirm
        * Prohibited             not on this session, or not in this mode
        * Unauthorised           the wrong key, or no such queue: nobody is told which
        * BadService             the session's identity, or its signature, is not right
        * BadMessage             a message that no queue could take
        * BadSubscription        a subscription of the request has a wrong expression
    * Overloaded                 a limit was reached; later it may work
        * QuotaReached           a queue or a domain is full
        * LimitReached           a named bound of the router
    * ExpressionError            an expression is wrong; carries a code and the byte offset
    * ConfigError                the configuration is wrong; says where and what is near
    * StoreError                 the store failed; the turn did not happen
    * PipelineError              the pipeline cannot go on; says what to do

What a peer may cause is an exception of this tree. What only we may cause is an
``assert``, written as the sentence it checks.
"""

from __future__ import annotations


class HeadgateError(Exception):
    """The root: ``except HeadgateError`` catches what Headgate raises, and nothing else."""


class ProtocolError(HeadgateError):
    """The peer broke the protocol; the session closes."""


class Refused(HeadgateError):
    """The peer asked for something it may not have."""


class NoSuchQueue(Refused):
    def __init__(self, queue: bytes) -> None:
        super().__init__("no such queue")
        self.queue = queue


class QueueExists(Refused):
    def __init__(self, queue: bytes) -> None:
        super().__init__("the queue exists")
        self.queue = queue


class NoMessage(Refused):
    def __init__(self, queue: bytes) -> None:
        super().__init__("no message to confirm")
        self.queue = queue


class Prohibited(Refused):
    """Not on this session, or not in this mode of the queue."""


class Unauthorised(Refused):
    """The wrong key, or a queue that is not in a state for it. Whoever asks is not told more."""

    def __init__(self) -> None:
        super().__init__("not authorised")


class BadService(Refused):
    """The session's identity as a service, or its signature, is not what the command needs."""


class BadMessage(Refused):
    """A message that no queue could take, whatever its state."""


class BadSubscription(Refused):
    """A subscription of the request has a wrong expression; nothing of the request was done."""

    def __init__(self, error: ExpressionError) -> None:
        super().__init__(str(error))
        self.error = error


class Overloaded(HeadgateError):
    """A limit was reached; later it may work."""


class QuotaReached(Overloaded):
    """A queue or its domain has no room for another message."""

    def __init__(self, scope: str, unit: str, limit: int) -> None:
        super().__init__(f"the {scope} holds its limit of {limit} {unit}")
        self.scope = scope
        self.unit = unit
        self.limit = limit


class LimitReached(Overloaded):
    """A bound of `headgate.core.limits` was reached."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"limit {name} of {limit} reached")
        self.name = name
        self.limit = limit


class ExpressionError(HeadgateError):
    """An expression cannot be used. `code` names the reason, `offset` the byte where it shows."""

    def __init__(self, code: str, message: str, text: str, offset: int) -> None:
        super().__init__(f"{message} at offset {offset}")
        self.code = code
        self.message = message
        self.text = text
        self.offset = offset


class ConfigError(HeadgateError):
    """The configuration is wrong; the text says where and, for a name, what is near it."""


class StoreError(HeadgateError):
    """The store failed; the turn did not happen."""


class PipelineError(HeadgateError):
    """The pipeline cannot go on, and what to do about it."""
