"""Every exception of Headgate.

* HeadgateError
    * ProtocolError              the peer broke the protocol; the session closes
        * Malformed              the bytes are not what they should be
            * NotDecrypted       a message that the ratchet does not open
                * AlreadyDecrypted
                * TooManySkipped
        * NotThisRouter          the answering router did not prove to be the expected one
        * NoCommonVersion        a router that does not speak the versions of its client
        * UnexpectedReply        an answer that does not fit its request
    * Refused                    the peer asked for something it may not have
        * NoSuchQueue
        * QueueExists
        * NoSuchApp              the queue is not read by an app of this name
        * NoMessage              there is no unconfirmed message to confirm
        * Prohibited             not on this session, or not in this mode
        * NoRight                the client does not have the right
        * Unauthorised           the wrong key, or no such queue: the reply does not say which
        * BadService             the session's identity, or its signature, is not right
        * BadMessage             a message that no queue could accept
        * BadSubscription        a subscription of the request has a wrong expression
        * RequestRefused         a router refused a client's request; carries its error
        * LinkUsed               the address or the link was used before
    * Overloaded                 a limit was reached; later it may work
        * QuotaReached           a queue or a domain is full
        * LimitReached           a named bound of the router
    * TooLong                the data does not fit into a message
        * TooFrequent            a request was repeated too often
    * ExpressionError            an expression is wrong; carries a code and the byte offset
    * ConfigError                the configuration is wrong; says where and what is near
    * StoreError                 the store failed; the turn did not happen
    * PipelineError              the pipeline cannot go on; says what to do
    * RouterError            a router did not carry out a request
        * NoRouter               no router answers
            * NotConnected       a client has no connection, or lost it
                * HostNotFound   the name of the router's host is not known
        * NotAllowed             it requires a token or a password, or refuses this address
        * NotARouter             another program answers there
    * Closed                     it is closed; nothing was done
    * TimedOut                   a `TimeoutError`, too; the request may have been carried out or not

Errors that a peer may cause are exceptions of this tree. Errors of our own are an ``assert``,
written as the sentence it checks.
"""

from __future__ import annotations


class HeadgateError(Exception):
    """The root: ``except HeadgateError`` catches all exceptions that Headgate raises, and no
    others."""


class ProtocolError(HeadgateError):
    """The peer broke the protocol; the session closes."""


class Malformed(ProtocolError):
    """The bytes are not what they should be."""


class NotDecrypted(Malformed):
    """A message that the ratchet cannot open. The ratchet is unchanged."""


class AlreadyDecrypted(NotDecrypted):
    """The key of this message was used before, or is no longer kept: most likely a repetition."""


class TooManySkipped(NotDecrypted):
    """More messages are missing before this one than keys would be kept for."""


class NotThisRouter(ProtocolError):
    """The answering router did not prove to be the expected one. Nothing was sent to it."""


class NoCommonVersion(ProtocolError):
    """The router and its client have no version of the protocol in common. Nothing was sent to
    it."""


class UnexpectedReply(ProtocolError):
    """An answer that does not fit its request, or that cannot be read."""


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
    """The app was removed while a session waited for its messages."""


class KeepsNothing(Refused):
    """A domain keeps no history."""

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
    """The client is not on the domain's list for this."""

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
    """The wrong key, or a queue that is not in a state for it. The reply does not say more."""

    def __init__(self) -> None:
        super().__init__("not authorised")


class BadService(Refused):
    """The session's identity as a service, or its signature, is not the one that the command
    needs."""


class BadMessage(Refused):
    """A message that no queue could accept, whatever its state."""


class BadSubscription(Refused):
    """A subscription of the request has a wrong expression; nothing of the request was done."""

    def __init__(self, error: ExpressionError) -> None:
        super().__init__(str(error))
        self.error = error


class RequestRefused(Refused):
    """A router refused a client's request. `error` is the router's, unchanged."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class LinkUsed(Refused):
    """The address or the link was used before. Only a new one helps."""

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
    """A limit of `headgate.core.model.limits` was reached."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"limit {name} of {limit} reached")
        self.name = name
        self.limit = limit


class TooLong(HeadgateError):
    """The data does not fit into a message: nothing was changed."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, and a message has room for {limit}")
        self.size = size
        self.limit = limit


class TooFrequent(Overloaded):
    """A request was repeated too often."""


class ExpressionError(HeadgateError):
    """An expression cannot be used. `code` names the reason, `offset` the byte where it shows."""

    def __init__(self, code: str, message: str, text: str, offset: int) -> None:
        super().__init__(f"{message} at offset {offset}")
        self.code = code
        self.message = message
        self.text = text
        self.offset = offset


class ConfigError(HeadgateError):
    """The configuration is wrong; the text gives the place and, for a name, similar ones."""


class StoreError(HeadgateError):
    """The store failed; the turn did not happen."""


class PipelineError(HeadgateError):
    """The pipeline cannot go on; the text says what to do."""


class RouterError(HeadgateError):
    """A router did not carry out a request over its admin port or a wire. `status` and `why` are
    those of the admin port's answer, if there was one."""

    def __init__(self, text: str, status: int | None = None, why: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.why = why


class NoRouter(RouterError):
    """No router answers."""


class NotConnected(NoRouter):
    """A client has no connection with a router, or lost it."""


class HostNotFound(NotConnected):
    """The name of the router's host is not known."""


class NotAllowed(RouterError):
    """The router requires its token, or refuses this address."""


class NotARouter(RouterError):
    """The answering program is not a router."""


class TimedOut(HeadgateError, TimeoutError):
    """A client waited in vain for so many seconds. The request may have been carried out or not."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} took longer than {seconds:g} seconds")
        self.seconds = seconds


class Closed(HeadgateError):
    """The object is closed, by its owner. Nothing was done."""
