"""Publishing by a session: in runs, singly, or checked one by one when a receiver does not read.

A run of PUBLISHes, the usual content of a busy read, is one call to the core. While a receiver of
one of them is stuck and could not hold them all, each message is checked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from headgate.core.channels.audience import Kind
from headgate.core.model.ids import SessionId
from headgate.errors import LimitReached
from headgate.wire.resp.codec.publish_runs import PUBLISH, run_in
from headgate.wire.resp.codec.replies import CommandError, error, integer_reply, integers
from headgate.wire.resp.command_cost import refusal
from headgate.wire.resp.commands.table import CommandEntry
from headgate.wire.resp.reply_mode import ReplyMode

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.plain import PurePlainSession
    from headgate.wire.resp.session import RespSession
    from headgate.wire.resp.streams.feeds import ChannelFeeds

SLICE_SECONDS = 0.005
"""Seconds of publishing to new channels before others get a turn."""
PUBLISHING = {b"PUBLISH": Kind.EXACT, b"SPUBLISH": Kind.SHARDED}
FRAME_BYTES = 128
"""Bytes of a frame besides the body, for channel names of usual length."""


def is_plain(session: RespSession) -> bool:
    """Whether nothing stands between a session's commands and the channels."""
    hub, user = session.hub, session.user
    return (
        user is not None
        and user.is_unrestricted
        and session.queued is None
        and session.answers is ReplyMode.ON
        and hub.cluster is None
        and not hub.monitors
        and not hub.channels.has(session.id)
    )


def is_fed(hub: Hub, command: list[bytes]) -> bool:
    """Whether a command publishes on a channel that feeds a domain, and so needs a turn."""
    if not hub.feeds.is_used or len(command) != 3:
        return False
    kind = PUBLISHING.get(command[0].upper())
    return kind is not None and bool(hub.feeds.of(kind, command[1]))


def run_of_publishes(
    commands: list[list[bytes]], start: int, feeds: ChannelFeeds
) -> list[list[bytes]]:
    """The well-formed PUBLISHes in a row from here, up to one on a channel that feeds a domain, or
    is a queue."""
    end = start
    is_used = feeds.is_used
    while end < len(commands) and commands[end][0] in PUBLISH and len(commands[end]) == 3:
        if is_used and not feeds.has_none((commands[end][1],)):
            break
        end += 1
    return commands[start:end]


def publish(session: RespSession, run: Sequence[Sequence[bytes]]) -> int:
    """Publish a run of messages; return how many were published without waiting."""
    hub = session.hub
    if hub.left:
        hub.hold(session)
        return 0
    _, names, bodies = zip(*run, strict=True)
    is_one = names.count(names[0]) == len(names)
    longest = len(names[0]) if is_one else max(map(len, names))
    is_long = longest > hub.broker.limits.name_bytes
    # RESP-62: stuck receivers are checked for room before publishing.
    if is_long or (hub.budget.stuck and not _has_room(hub, names, bodies)):
        return _publish_carefully(session, run)
    answers, done = _published(session, names, bodies, is_one)
    session.out.blobs.append(answers)
    return done


def publish_at_once(session: PurePlainSession, data: bytes) -> int:
    """Publish what a read has at its start, if nothing is in its way: the short way of those who
    do little else. Return how many bytes that was; what others get their turn before is among
    the session's commands then."""
    hub = session.hub
    if session.held or session.is_closing or hub.left:
        return 0
    user = session.user
    if not (
        # The checks of `is_plain`, without a call.
        user is not None
        and user.is_unrestricted
        and session.queued is None
        and session.answers is ReplyMode.ON
        and hub.cluster is None
        and not hub.monitors
        and hub.names_fit
        and not hub.channels.has(session.id)
        and session.requests.is_idle(len(data))
    ):
        return 0
    run = run_in(data)
    if run is None:
        return 0
    names, bodies, end = run
    is_one = len(names) == 1 or names.count(names[0]) == len(names)
    feeds = hub.feeds
    # One channel, the usual read, is looked for without a call.
    if feeds.is_used and not (is_one and names[0] in feeds.unfed) and not feeds.has_none(names):
        return 0
    budget = hub.budget
    if budget.stuck and not _has_room(hub, names, bodies):
        return 0
    if len(names) == 1:
        # A publisher that waits for each answer takes this path, and each call less shortens its
        # wait.
        channels, done = hub.channels, 1
        answers = integer_reply(channels.publish_one(Kind.EXACT, names[0], bodies[0]))
        if channels.is_unwritten:
            hub.flush_soon()
    else:
        answers, done = _published(session, names, bodies, is_one)
    hub.commands += done
    session.outlet.write(answers)
    if done < len(names):
        rest = zip(names[done:], bodies[done:], strict=True)
        session.pending = [[b"PUBLISH", name, body] for name, body in rest]
    if budget.stuck:
        hub.look_at_answers()
    return end


def _has_room(hub: Hub, names: Sequence[bytes], bodies: Sequence[bytes]) -> bool:
    """Whether every stuck receiver could hold all of these messages."""
    if hub.channels.is_unwritten:
        hub.flush_for(hub.budget.stuck)  # uncharged data would not count
    size = sum(map(len, bodies)) + FRAME_BYTES * len(bodies)
    return hub.channels.has_room(Kind.EXACT, {*names}, size, hub.budget)


def _published(
    session: PurePlainSession, names: Sequence[bytes], bodies: Sequence[bytes], is_one: bool
) -> tuple[bytes, int]:
    """Publish on one channel or on several; return the answers and their number. If there are new
    channels among them, it may stop early to let others get a turn."""
    hub, done = session.hub, len(names)
    channels = hub.channels
    if done == 1:
        answers = integer_reply(channels.publish_one(Kind.EXACT, names[0], bodies[0]))
    elif is_one:
        answers = integer_reply(channels.publish_all(Kind.EXACT, names[0], bodies)) * len(names)
    else:
        clock = hub.shell.clock
        end = clock() + SLICE_SECONDS
        counts = channels.publish_run(Kind.EXACT, names, bodies, lambda: clock() > end)
        answers = integers(counts)
        if len(counts) < done:
            done = len(counts)
            _give_way(session)
    if channels.is_unwritten:
        hub.flush_soon()
    return answers, done


def _give_way(session: PurePlainSession) -> None:
    """Others get their turn; then it goes on."""
    session.outlet.pause(may_leave=False)
    session.hub.go_on_later(session.id)


def _publish_carefully(session: RespSession, run: Sequence[Sequence[bytes]]) -> int:
    """Check each message by itself. Messages for stuck receivers are charged before the next one is
    checked, so a mailbox exceeds its limit by one message at most."""
    hub, channels = session.hub, session.hub.channels
    longest = hub.broker.limits.name_bytes
    end = hub.shell.clock() + SLICE_SECONDS
    for done, (_, channel, body) in enumerate(run):
        if hub.left:
            hub.hold(session)
            return done
        if done and hub.shell.clock() > end:
            _give_way(session)
            return done
        if len(channel) > longest:
            session.out.append(error(str(refusal(session, LimitReached("name_bytes", longest)))))
            continue
        if not _may_publish(session, Kind.EXACT, channel):
            return done
        session.out.blobs.append(integer_reply(channels.publish_one(Kind.EXACT, channel, body)))
        if any(True for _ in channels.hearing(Kind.EXACT, channel, hub.budget.stuck)):
            hub.flush_for(hub.budget.stuck)
    if channels.is_unwritten:
        hub.flush_soon()
    return len(run)


def may_run(session: RespSession, entry: CommandEntry, command: list[bytes]) -> bool:
    """Whether no receiver of this command's messages is blocking its publishers."""
    if session.hub.left and (entry.name == "exec" or entry.publishes is not None):
        session.hub.hold(session)
        return False
    if entry.name == "exec":
        return not session.queued or session.broken or _may_execute(session)
    return entry.publishes is None or _may_publish(session, entry.publishes, command[1])


def _may_execute(session: RespSession) -> bool:
    """Whether the receivers of a transaction could hold all of its messages, since it cannot wait
    in the middle. A mailbox exceeds its limit by one message at most, as by any other PUBLISH.

    A mailbox that is not slow always has room for a transaction, so it waits only for sessions that
    read on or are closed in time.
    """
    hub, budget = session.hub, session.hub.budget
    sizes: dict[tuple[Kind, bytes], int] = {}
    largest = 0
    for entry, queued in session.queued or ():
        if entry.publishes is not None:
            of, size = (entry.publishes, queued[1]), len(queued[1]) + len(queued[2]) + FRAME_BYTES
            sizes[of] = sizes.get(of, 0) + size
            largest = max(largest, size)
    if hub.settings.slow_session != "wait":
        return all(_may_publish(session, kind, channel) for kind, channel in sizes)
    easy = min(budget.mailbox_soft, budget.mailbox_hard // 2)
    if sum(sizes.values()) - largest > budget.mailbox_hard - easy:
        _discard(session, LimitReached("mailbox_hard", budget.mailbox_hard))
    if not sizes or not budget.stuck:
        return True
    if hub.channels.is_unwritten:
        hub.flush_for(budget.stuck)  # uncharged data would not count
    more: dict[SessionId, int] = {}
    for (kind, channel), size in sizes.items():
        for each in hub.channels.hearing(kind, channel, budget.stuck):
            more[each] = more.get(each, 0) + size
    for each, size in more.items():
        held = budget.stuck[each].bytes
        if budget.is_blocking(each) or (held > easy and held + size > budget.mailbox_hard):
            _wait(session, each)
            return False
    return True


def _discard(session: RespSession, reached: LimitReached) -> NoReturn:
    """Refuse to carry out a transaction."""
    session.queued, session.watched = None, {}
    session.hub.record_limit(session.id, reached)
    raise CommandError(
        f"EXECABORT Transaction discarded because of: {reached}: publish less in one transaction"
    )


def _may_publish(session: RespSession, kind: Kind, channel: bytes) -> bool:
    hub = session.hub
    if not hub.budget.stuck:
        return True
    channels, waited = hub.channels, hub.waited_for()
    if not waited:
        return True
    if channels.is_unwritten and any(True for _ in channels.hearing(kind, channel, waited)):
        hub.flush_for(waited)  # what is not charged yet would not count
    # S002-58, S002-64: looked at anew each time, also after a wait.
    blocker = hub.blocker(kind, channel)
    if blocker is None:
        return True
    _wait(session, blocker)
    return False


def _wait(session: RespSession, blocker: SessionId) -> None:
    """Have a session wait for another one, or for itself: its mailbox is written while its commands
    are not read."""
    session.hub.wait(session.id, blocker)
    # S002-60, RESP-59: only publishers are not read.
    session.outlet.pause()
