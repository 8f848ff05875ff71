"""What is checked before a command is carried out: who may run it, and where and when.

The order is that of Redis: authentication, access rules, slots, subscriber mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.wire.resp.codec.replies import CommandError
from headgate.wire.resp.commands.acl import check_access
from headgate.wire.resp.commands.cluster import check_slots
from headgate.wire.resp.commands.table import CommandEntry

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession


def check(session: RespSession, entry: CommandEntry, command: list[bytes]) -> None:
    """Raise if a session may not run a command now, or not on this node of a cluster."""
    name = entry.name
    check_rights(session, entry, command)
    if session.hub.cluster is not None:
        check_slots(session, entry, command)
    # RESP-32: a subscriber of RESP2 may do little else.
    if session.is_subscriber and not entry.while_subscribed:
        raise CommandError(
            f"ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING /"
            " QUIT / RESET are allowed in this context"
        )


def check_rights(session: RespSession, entry: CommandEntry, command: list[bytes]) -> None:
    """Check that the client has authenticated, if needed, and may run this command."""
    if not entry.needs_login:
        return
    if session.user is None:
        # RESP-16: only authentication is allowed.
        raise CommandError("NOAUTH Authentication required.")
    if not session.user.is_unrestricted:
        check_access(session, session.user, entry, command)
