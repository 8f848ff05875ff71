"""Publishing, as a session does it: in runs, alone, or one by one where somebody does not read.

A run of PUBLISHes, the usual content of a busy read, is one call to the core. While a session that
hears one of them is stuck and could not hold them all, each message is judged for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.core.audience import Kind
from headgate.wire.resp.answers import Answers
from headgate.wire.resp.replies import integer_reply, integers
from headgate.wire.resp.runs import PUBLISH, run_in
from headgate.wire.resp.table import Entry

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

KINDS = {"publish": Kind.EXACT, "spublish": Kind.SHARDED}
FRAME_BYTES = 128
"""About what a frame has besides the body, for channels with names of usual length."""


def is_plain(session: RespSession) -> bool:
    """Whether nothing stands between a session and the channels."""
    hub, user = session.hub, session.user
    return (
        user is not None
        and user.is_unrestricted
        and session.queued is None
        and session.answers is Answers.ON
        and hub.cluster is None
        and not hub.monitors
        and not hub.channels.has(session.id)
    )


def run_of_publishes(commands: list[list[bytes]], start: int) -> list[list[bytes]]:
    """The well-formed PUBLISHes that follow one another from here."""
    end = start
    while end < len(commands) and commands[end][0] in PUBLISH and len(commands[end]) == 3:
        end += 1
    return commands[start:end]


def publish(session: RespSession, run: Sequence[Sequence[bytes]]) -> int:
    """Publish a run of messages; return how many did not have to wait."""
    hub = session.hub
    _, names, bodies = zip(*run, strict=True)
    if hub.budget.stuck and not _has_room(hub, names, bodies):
        return _publish_carefully(session, run)
    session.out.append(_published(hub, names, bodies))
    return len(run)


def publish_at_once(session: RespSession, data: bytes) -> int:
    """Publish what a read has at its start, if nothing is in its way: the short way of those who
    do little else. Return how many bytes that was."""
    hub = session.hub
    if session.held or session.is_closing:
        return 0
    if not session.requests.is_idle(len(data)) or not is_plain(session):
        return 0
    run = run_in(data)
    if run is None:
        return 0
    names, bodies, end = run
    if hub.budget.stuck and not _has_room(hub, names, bodies):
        return 0
    hub.commands += len(names)
    session.outlet.write(_published(hub, names, bodies))
    return end


def _has_room(hub: Hub, names: Sequence[bytes], bodies: Sequence[bytes]) -> bool:
    """Whether every stuck session that hears these could hold them all."""
    if hub.channels.is_unwritten:
        hub.flush()  # what is not charged yet would not count
    size = sum(map(len, bodies)) + FRAME_BYTES * len(bodies)
    return hub.channels.has_room(Kind.EXACT, {*names}, size, hub.budget)


def _published(hub: Hub, names: Sequence[bytes], bodies: Sequence[bytes]) -> bytes:
    """Publish, and return the answers."""
    channels = hub.channels
    if len(names) == 1:
        answers = integer_reply(channels.publish_one(Kind.EXACT, names[0], bodies[0]))
    elif names.count(names[0]) == len(names):
        answers = integer_reply(channels.publish_all(Kind.EXACT, names[0], bodies)) * len(names)
    else:
        answers = integers(channels.publish(Kind.EXACT, zip(names, bodies, strict=True)))
    if channels.is_unwritten:
        hub.flush_soon()
    return answers


def _publish_carefully(session: RespSession, run: Sequence[Sequence[bytes]]) -> int:
    """Judge each message for itself. What somebody stuck hears is charged before the next one is
    judged, so a mailbox goes over its limit by one message at most."""
    hub, channels = session.hub, session.hub.channels
    for done, (_, channel, body) in enumerate(run):
        if not _may_publish(session, Kind.EXACT, channel):
            return done
        session.out.append(integer_reply(channels.publish_one(Kind.EXACT, channel, body)))
        if any(True for _ in channels.hearing(Kind.EXACT, channel, hub.budget.stuck)):
            hub.flush()
    if channels.is_unwritten:
        hub.flush_soon()
    return len(run)


def may_run(session: RespSession, entry: Entry, command: list[bytes]) -> bool:
    """Whether nobody who hears what a command publishes keeps its publishers waiting."""
    if entry.name == "exec":
        return all(
            _may_publish(session, KINDS[each.name], queued[1])
            for each, queued in session.queued or ()
            if each.name in KINDS
        )
    return entry.name not in KINDS or _may_publish(session, KINDS[entry.name], command[1])


def _may_publish(session: RespSession, kind: Kind, channel: bytes) -> bool:
    hub = session.hub
    if not hub.budget.stuck or hub.settings.slow_session != "wait":
        return True
    blocker = hub.channels.blocker(kind, channel, hub.budget)
    if blocker is None:
        return True
    # It may wait for itself: its mailbox is written while its commands are not read.
    hub.wait(session.id, blocker)
    session.outlet.pause()
    return False
