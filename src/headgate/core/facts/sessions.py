"""Facts of sessions: who came and went, who reads too slowly, who was not allowed."""

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
    """A session ended, and why."""

    at: float
    session: SessionId
    wire: str
    name: str
    reason: str
    peer: str = ""
    """Its address, where the wire keeps it. The name is these two, for lines of a log."""
    called: str = ""
    """What it calls itself."""
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
    """A client and the router did not agree on TLS: there was no session, and why."""

    at: float
    wire: str
    reason: str


@fact(
    FactCounter("sessions_slowed", "Times a session's mailbox went over its soft limit."),
    rare=True,
    log="warning",
)
class SessionSlowed:
    """A session reads more slowly than it is sent to: its mailbox went over the soft limit."""

    at: float
    session: SessionId
    name: str
    size: int
    peer: str = ""
    """Its address, where the wire keeps it. The name is these two, for lines of a log."""
    called: str = ""
    """What it calls itself."""
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
    """Its address, where the wire keeps it. The name is these two, for lines of a log."""
    called: str = ""
    """What it calls itself."""
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
    """A session that publishes has to wait for one that hears it and does not read."""

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
    """Its address, where the wire keeps it. The name is these two, for lines of a log."""
    called: str = ""
    """What it calls itself."""
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
    """A slow session, or one that was closed, did not get so many messages."""

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
    """A user asked for what its access rules do not allow."""

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
    """Somebody did not show who it is: a wrong password or token, or none. The user is told only
    if there is such a user or client; what else was said is nobody's business. The name is the
    client's address."""

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
