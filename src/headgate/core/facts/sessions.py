"""Facts of sessions: opened and closed ones, slow ones, refused ones."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import SessionId


@fact(FactCounter("sessions_opened", "Sessions that began.", ("wire",)), rare=True, log="debug")
class SessionOpened:
    """A session began."""

    at: float
    session: SessionId
    wire: str
    name: str


@fact(
    FactCounter(
        "sessions_closed",
        "Sessions that ended, and why.",
        ("wire", "reason"),
    ),
    rare=True,
    log="debug",
)
class SessionClosed:
    """A session ended, with the reason."""

    at: float
    session: SessionId
    wire: str
    name: str
    reason: str
    peer: str = ""
    """Its address, if the wire keeps it. The name combines it and `called`, for lines of a log."""
    called: str = ""
    """The name that it chose."""
    agent: str = ""
    user: str = ""


@fact(
    FactCounter(
        "handshakes_failed",
        "Clients with whom TLS was not agreed on, and why.",
        ("wire", "reason"),
    ),
    rare=True,
    log=None,
)
class HandshakeFailed:
    """A TLS handshake with a client failed, with the reason: there was no session."""

    at: float
    wire: str
    reason: str


@fact(
    FactCounter("sessions_slowed", "Times a session's mailbox went over its soft limit."),
    rare=True,
    log="warning",
)
class SessionSlowed:
    """A session reads more slowly than data is sent to it: its mailbox exceeded the soft limit."""

    at: float
    session: SessionId
    name: str
    size: int
    peer: str = ""
    """Its address, if the wire keeps it. The name combines it and `called`, for lines of a log."""
    called: str = ""
    """The name that it chose."""
    agent: str = ""
    user: str = ""


@fact(FactCounter("sessions_eased", "Slow sessions that caught up."), rare=True, log="info")
class SessionEased:
    """A slow session caught up; it was slow for `seconds`."""

    at: float
    session: SessionId
    name: str
    seconds: float
    peer: str = ""
    """Its address, if the wire keeps it. The name combines it and `called`, for lines of a log."""
    called: str = ""
    """The name that it chose."""
    agent: str = ""
    user: str = ""


@fact(
    FactCounter(
        "publisher_waits", "Times a session had to wait for one that hears it and does not read."
    ),
    rare=True,
    log=None,
)
class PublisherWaited:
    """A publishing session has to wait for a receiver that does not read."""

    at: float
    session: SessionId
    by: SessionId


@fact(FactCounter("sessions_evicted", "Slow sessions that were closed."), rare=True, log="warning")
class SessionEvicted:
    """A slow session was closed, with so many bytes in its mailbox."""

    at: float
    session: SessionId
    name: str
    reason: str
    size: int
    peer: str = ""
    """Its address, if the wire keeps it. The name combines it and `called`, for lines of a log."""
    called: str = ""
    """The name that it chose."""
    agent: str = ""
    user: str = ""


@fact(
    FactCounter(
        "messages_discarded",
        "Messages of channels that slow or closed sessions did not get.",
        adds="count",
    ),
    rare=True,
    log="warning",
)
class MessagesDiscarded:
    """So many messages for a slow session, or one that was closed, were discarded."""

    at: float
    session: SessionId
    name: str
    count: int


@fact(
    FactCounter("access_denials", "Commands that access rules did not allow."),
    rare=True,
    log="warning",
)
class AccessDenied:
    """A user was denied something by its access rules."""

    at: float
    session: SessionId
    user: str
    command: str


@fact(
    FactCounter("authentications_failed", "Clients that did not show who they are.", ("wire",)),
    rare=True,
    log="warning",
)
class AuthenticationFailed:
    """A client failed to authenticate: with a wrong password or token, or none. The user is
    recorded only if it exists; other input may be a secret. The name is the client's address."""

    at: float
    session: SessionId
    wire: str
    name: str
    user: str


SessionFact: TypeAlias = (
    SessionOpened
    | SessionClosed
    | HandshakeFailed
    | SessionSlowed
    | SessionEased
    | PublisherWaited
    | SessionEvicted
    | MessagesDiscarded
    | AccessDenied
    | AuthenticationFailed
)
