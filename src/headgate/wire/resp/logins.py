"""Wrong passwords and missing rights of Redis clients: recorded, logged, and slowed down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.facts import AuthenticationFailed
from headgate.core.login.failed_logins import FailedLogins
from headgate.core.login.pending_logins import network_of_peer
from headgate.core.redis.acl_log import AclLog
from headgate.wire.resp.commands.client import line

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession


class Logins:
    """The denials of ACL LOG, and the delays after failures of each network.

    The hub owns it. A session asks it how long an answer is delayed, and is released by it.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._suspects = FailedLogins()
        self.denials = AclLog()

    def note_denial(self, session: RespSession, reason: str, object: bytes, user: str) -> None:
        context = "multi" if session.is_executing else "toplevel"
        now = self._hub.shell.clock()
        self.denials.add(reason, context, object, user, line(session, now), now)

    def note_failure(self, session: RespSession, command: bytes, name: bytes) -> float:
        """Count a failed authentication; return the seconds by which its answer is delayed. A name
        that no user has is not logged: it may be a password in the wrong place."""
        known = self._hub.access.get(name)
        user = "" if known is None else known.name
        now = self._hub.shell.clock()
        fact = AuthenticationFailed(now, session.id, "resp", session.peer, user)
        self._hub.shell.announce([fact])
        self.note_denial(session, "auth", command, user)
        return self._suspects.failed(network_of_peer(session.peer), now)

    def release_later(self, session: RespSession, seconds: float) -> None:
        """Let a session go on after so many seconds. If it is gone by then, its place stays taken
        until then: hanging up must not save time."""
        hub = self._hub

        def release() -> None:
            if session.id in hub.sessions:
                session.release()
            else:
                hub.shell.known(session.id)

        hub.shell.suspect(session.id)
        hub.shell.later(seconds, release)
