"""The caller of a command that another worker carries out: the state of its session that the
command may read or change, and the session that stands in for it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headgate.core.model.ids import SessionId
from headgate.wire.resp.codec.replies import text_of
from headgate.wire.resp.reply_mode import ReplyMode
from headgate.wire.resp.session import RespSession

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub


class Caller(msgspec.Struct, array_like=True):
    """A session's state, as another worker needs it."""

    id: int
    peer: str
    local: str
    user: str | None
    db: int
    protocol: int
    name: bytes
    answers: str
    failures: int
    delayed: float = -1.0


class Call(msgspec.Struct, array_like=True):
    """A command, or the commands of a transaction with the keys that must not have changed."""

    caller: Caller
    commands: list[list[bytes]]
    watched: list[tuple[int, bytes, int]] | None = None
    """Databases, keys and their stamps; None outside of a transaction."""


class Outcome(msgspec.Struct, array_like=True):
    """The outcome of a call."""

    blobs: list[bytes]
    """The answer. For a transaction there is a piece for each command; a `mark` stands for those of
    the session's own worker."""
    caller: Caller
    """The state of the session after the call."""
    is_decided: bool = False
    """Whether it is answered regardless of CLIENT REPLY, which was applied to each piece."""
    is_closing: bool = False
    """Whether the session lost its own user, so that it is answered and closed."""

    @property
    def blob(self) -> bytes:
        return b"".join(self.blobs)


class NoOutlet:
    """The client of a session that stands in for one of another worker: it is not here."""

    is_full = False

    def write(self, blob: bytes) -> None:
        pass

    def deliver(self, blob: bytes, messages: int) -> None:
        pass

    def pause(self, *, may_leave: bool = True) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self, reason: str, *, at_once: bool = False) -> None:
        pass


def caller_of(session: RespSession) -> Caller:
    return Caller(
        session.id,
        session.peer,
        session.local,
        None if session.user is None else session.user.name,
        session.db,
        session.protocol,
        session.name,
        session.answers.value,
        session.failures,
        session.delayed,
    )


def stand_in(hub: Hub, caller: Caller) -> RespSession:
    """A session that stands in for the caller."""
    session = RespSession(hub, SessionId(caller.id), NoOutlet(), caller.peer, caller.local)
    session.user = None if caller.user is None else hub.access.get(caller.user.encode())
    session.db, session.protocol, session.name = caller.db, caller.protocol, caller.name
    session.answers, session.failures = ReplyMode(caller.answers), caller.failures
    return session


def take_over(session: RespSession, after: Caller) -> None:
    """Give a session the state of its stand-in after a transaction."""
    session.db, session.answers = after.db, ReplyMode(after.answers)
    session.failures = after.failures
    if session.name != after.name:
        session.rename(after.name)
    if session.protocol != after.protocol:
        session.speak(after.protocol)
    if after.user is not None and (session.user is None or session.user.name != after.user):
        user = session.hub.access.get(after.user.encode())
        if user is not None:
            session.become(user)
    if after.delayed >= 0:
        session.delay(after.delayed)


class Mark(NamedTuple):
    """A placeholder for the answer to a command of a transaction that is carried out elsewhere: its
    place, and the reply mode of the client at that point. No answer of Redis begins like this."""

    place: int
    protocol: int
    is_silent: bool

    def __bytes__(self) -> bytes:
        return b"\0%d %d %d" % self


def marked(blob: bytes) -> Mark | None:
    """The mark, if this is one."""
    if not blob.startswith(b"\0"):
        return None
    place, protocol, is_silent = map(int, blob[1:].split())
    return Mark(place, protocol, bool(is_silent))


def bulk_text(blob: bytes) -> str | None:
    """The text of a bulk reply; None for another reply."""
    if not blob.startswith(b"$") or blob.startswith(b"$-"):
        return None
    return text_of(blob.partition(b"\r\n")[2][:-2])
