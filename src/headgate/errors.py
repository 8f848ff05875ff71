"""Every exception of Headgate.

* HeadgateError
    * ProtocolError              the peer broke the protocol; the session closes
        * Malformed              the bytes are not what they should be
            * NotDecrypted       a message that the ratchet does not open
                * AlreadyDecrypted
                * TooManySkipped
        * NotThisRouter          who answers did not prove to be the router that was meant
        * NoCommonVersion        a router that does not speak the versions of its client
        * UnexpectedReply        an answer that does not belong to what was asked
    * Refused                    the peer asked for something it may not have
        * NoSuchQueue
        * QueueExists
        * NoSuchApp              the queue is not read by an app of this name
        * NoMessage              nothing is in flight that this would confirm
        * Prohibited             not on this session, or not in this mode
        * NoRight                the rights of the client do not go so far
        * Unauthorised           the wrong key, or no such queue: nobody is told which
        * BadService             the session's identity, or its signature, is not right
        * BadMessage             a message that no queue could take
        * BadSubscription        a subscription of the request has a wrong expression
        * RequestRefused         a router refused what a client asked; carries its error
        * LinkUsed               somebody else used the address or the link first
    * Overloaded                 a limit was reached; later it may work
        * QuotaReached           a queue or a domain is full
        * LimitReached           a named bound of the router
    * TooLong                    what was to be sent has no room in a message
        * TooFrequent            something was asked for more often than it is done
    * ExpressionError            an expression is wrong; carries a code and the byte offset
    * ConfigError                the configuration is wrong; says where and what is near
    * StoreError                 the store failed; the turn did not happen
    * PipelineError              the pipeline cannot go on; says what to do
    * RouterError                a router that was asked did not do it
        * NoRouter               none answers
            * NotConnected       a client has no connection, or lost it
                * HostNotFound   nobody knows the name of the router's host
        * NotAllowed             it wants a token or a password, or does not talk to whoever asks
        * NotARouter             something else answers there
    * Closed                     it was closed before; nothing was done
    * TimedOut                   a `TimeoutError`, too; what was asked may have happened or not

What a peer may cause is an exception of this tree. What only we may cause is an
``assert``, written as the sentence it checks.
"""

from __future__ import annotations


class HeadgateError(Exception):
    """The root: ``except HeadgateError`` catches what Headgate raises, and nothing else."""


class ProtocolError(HeadgateError):
    """The peer broke the protocol; the session closes."""


class Malformed(ProtocolError):
    """The bytes are not what they should be."""


class NotDecrypted(Malformed):
    """A message that the ratchet does not open. The ratchet is what it was."""


class AlreadyDecrypted(NotDecrypted):
    """The key of this message was used before, or is no longer kept: most likely a repetition."""


class TooManySkipped(NotDecrypted):
    """More messages are missing before this one than keys would be kept for."""


class NotThisRouter(ProtocolError):
    """Who answers did not prove to be the router that was meant. Nothing was sent to it."""


class NoCommonVersion(ProtocolError):
    """The router speaks none of the versions that its client speaks. Nothing was sent to it."""


class UnexpectedReply(ProtocolError):
    """An answer that does not belong to what was asked, or that nobody can read."""


class Refused(HeadgateError):
    """The peer asked for something it may not have."""


class NoSuchQueue(Refused):
    """There is no queue of this name."""

    def __init__(self, queue: bytes) -> None:
        super().__init__("no such queue")
        self.queue = queue


class QueueExists(Refused):
    """A queue of this name is there already."""

    def __init__(self, queue: bytes) -> None:
        super().__init__("the queue exists")
        self.queue = queue


class NoSuchApp(Refused):
    """The queue is not read by an app of this name."""

    def __init__(self, app: str, queue: bytes = b"") -> None:
        super().__init__(f"no app {app!r} reads the queue")
        self.app = app
        self.queue = queue


class AppGone(NoSuchApp):
    """The app was there, and somebody waited for messages of it."""


class KeepsNothing(Refused):
    """A domain has no history to look at."""

    def __init__(self, domain: str) -> None:
        super().__init__(
            f"the domain {domain!r} keeps nothing: read by a group, or set keep_messages"
        )
        self.domain = domain


class NoMessage(Refused):
    """The queue has no message."""

    def __init__(self, queue: bytes) -> None:
        super().__init__("no message to confirm")
        self.queue = queue


class Prohibited(Refused):
    """Not on this session, or not in this mode of the queue."""


class NoRight(Refused):
    """The domain does not have the client on its list."""

    def __init__(self, client: str, verb: str, domain: str) -> None:
        who = f"client {client}" if client else "a client that has not proved its name"
        list = {"read": "readers", "write to": "writers", "create": "creators"}[verb]
        super().__init__(
            f"{who} may not {verb} queues of the domain {domain}:"
            f" it is not among the {list} in the configuration of the domain"
        )
        self.client = client
        self.verb = verb


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


class RequestRefused(Refused):
    """A router refused what a client asked. `error` is the router's, as it came."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class LinkUsed(Refused):
    """Somebody else used the address or the link first. Only a new one helps."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"somebody else has used {what} already, or it was deleted: ask its owner for a new one"
        )


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
    """A bound of `headgate.core.model.limits` was reached."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"limit {name} of {limit} reached")
        self.name = name
        self.limit = limit


class TooLong(HeadgateError):
    """What was to be sent has no room in a message: nothing was changed."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, and a message has room for {limit}")
        self.size = size
        self.limit = limit


class TooFrequent(Overloaded):
    """Something was asked for more often than it is done."""


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


class RouterError(HeadgateError):
    """A router that was asked, over its admin port or a wire, did not do it. `status` and `why`
    are those of the admin port's answer, if there was one."""

    def __init__(self, text: str, status: int | None = None, why: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.why = why


class NoRouter(RouterError):
    """No router answers."""


class NotConnected(NoRouter):
    """A client has no connection with a router, or lost it."""


class HostNotFound(NotConnected):
    """Nobody knows the name of the router's host."""


class NotAllowed(RouterError):
    """The router wants its token, or does not talk to whoever asks."""


class NotARouter(RouterError):
    """What answers is not a router."""


class TimedOut(HeadgateError, TimeoutError):
    """A client waited in vain for so many seconds. What it asked may have happened or not."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} took longer than {seconds:g} seconds")
        self.seconds = seconds


class Closed(HeadgateError):
    """What was asked was closed before, by its owner. Nothing was done."""
