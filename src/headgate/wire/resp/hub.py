"""The hub shared by the sessions of a listener: channels, keys, users, slots, settings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

from headgate import errors
from headgate.core.broker import Broker
from headgate.core.channels.audience import Kind
from headgate.core.channels.publish_pass import Blob
from headgate.core.effects import Effect, GoOn
from headgate.core.facts import (
    ChannelSubscribed,
    ChannelUnsubscribed,
    LimitReached,
    MessagesDiscarded,
    PublisherWaited,
)
from headgate.core.model.binding import Spoken
from headgate.core.model.domain import Domain
from headgate.core.model.ids import SessionId
from headgate.core.redis.acl import AccessControl
from headgate.core.redis.cluster import Cluster
from headgate.core.redis.keyspace import Keyspace
from headgate.wire.resp.codec.message_frames import FORMS
from headgate.wire.resp.codec.publish_runs import NAME_BYTES
from headgate.wire.resp.codec.replies import NOTHING, PushReply, Reply
from headgate.wire.resp.command_cost import portions
from headgate.wire.resp.commands.acl import UserFile
from headgate.wire.resp.commands.all_commands import COMMANDS
from headgate.wire.resp.commands.at_once import AT_ONCE
from headgate.wire.resp.logins import Logins
from headgate.wire.resp.plain import FLUSHED, PlainHub
from headgate.wire.resp.port import HubPort, RespPort
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.settings import Settings
from headgate.wire.resp.streams.bodies import BodyReader
from headgate.wire.resp.streams.feeds import ChannelFeeds
from headgate.wire.resp.streams.keys import StreamKeys
from headgate.wire.resp.streams.queue_channels import QueueChannels
from headgate.wire.resp.streams.spoken import spoken_body

COUNT_SECONDS = 1.0
"""Seconds between two records of the counts."""
FLUSH_SECONDS = 0.001
"""Seconds until they go on. Without a pause it would be in the same pass of the loop."""


class Unwritten:
    """Messages for many sessions, and the sessions that did not get them yet."""

    __slots__ = ("blob", "early", "messages", "sessions")

    def __init__(self, blob: bytes, sessions: Sequence[SessionId], messages: int) -> None:
        self.blob = blob
        self.sessions = sessions
        self.messages = messages
        self.early: set[SessionId] = set()
        """Sessions among them that got the messages early."""


class Hub(PlainHub):
    """The state that all Redis sessions of a router share: channels, keys, users, settings.

    The server makes one for its listener. Sessions use it for everything that is not their own.
    """

    def __init__(
        self,
        shell: HubPort,
        broker: Broker,
        settings: Settings,
        access: AccessControl,
        cluster: Cluster | None = None,
        user_file: UserFile | None = None,
    ) -> None:
        self.shell = shell
        self.broker = broker
        self.channels = broker.channels
        self.budget = broker.limit_apart("resp")
        self.stuck = self.budget.stuck
        self.table = COMMANDS
        self.at_once = AT_ONCE
        self.settings = settings
        self.access = access
        self.cluster = cluster
        self.user_file = user_file
        self.logins = Logins(self)
        self.keys = Keyspace(broker.limits)
        self.stream_keys = StreamKeys(broker.shard.domains)
        self.bodies = BodyReader(broker.limits)
        self.feeds = ChannelFeeds(broker.shard.domains, broker.limits.name_bytes)
        self.queue_channels = QueueChannels(self)
        broker.speaker = self.speak
        self.names_fit = broker.limits.name_bytes >= NAME_BYTES
        self.waiting = broker.waiting
        self.sessions: dict[SessionId, RespSession] = {}
        self.monitors = {}
        self._deliver = {}
        self._links: dict[SessionId, None] = {}
        """The sessions that stand for other workers."""
        self.is_flushing = self._flushing_on = False
        self.flushed_most = FLUSHED
        self.left: deque[Unwritten] = deque()
        self._held: dict[SessionId, None] = {}
        """Sessions that wait for that."""
        self._when_written: list[Callable[[], None]] = []
        self.elsewhere = None
        self._sweeping = self._clearing = False
        self._counted_at = shell.clock()
        """When the counts of bodies were last recorded."""
        self.began = shell.clock()
        self.input_bytes = 0
        """Bytes of incomplete requests of all sessions."""
        self.connections = 0
        """Sessions opened since the start."""
        self.commands = 0
        self.expired = 0
        """Keys expired since the start."""

    def know_domains(self, domains: Mapping[str, Domain]) -> None:
        """Take over the domains of worker 0: which keys are streams, and which channels feed
        them."""
        self.stream_keys = StreamKeys(domains)
        self.feeds = ChannelFeeds(domains, self.broker.limits.name_bytes)

    # Sessions.

    def connect(self, id: SessionId, outlet: RespPort, peer: str, local: str) -> RespSession:
        session = RespSession(self, id, outlet, peer, local)
        self.sessions[id] = session
        self._deliver[id] = outlet.deliver
        self.connections += 1
        return session

    def may_hold(self, session: RespSession, held: int) -> bool:
        """Note the bytes of a session's requests that are not carried out yet. If all sessions
        together exceed the limit, the one with the most is closed; return false if that is this
        one."""
        if session.id not in self.sessions:
            return False
        self.input_bytes += held - session.held
        is_more = held > session.held
        session.held = held
        limit = self.broker.limits.input_bytes
        if is_more and self.input_bytes > limit:
            most = max(self.sessions.values(), key=attrgetter("held"))
            self.record_limit(most.id, errors.LimitReached("input_bytes", limit))
            most.close("over the limit input_bytes", at_once=True)
            return most is not session
        return True

    def look_at_answers(self) -> None:
        """Called when a session leaves answers unread: check that all sessions together leave no
        more than they may."""
        if self.budget.answers > self.broker.limits.answers_bytes:
            self.shed_answers()

    def shed_answers(self) -> None:
        """Close the sessions with the most unread answers while all together exceed the limit.
        Other wires have bounds of their own."""
        limit = self.broker.limits.answers_bytes
        left = {id: box.answers for id, box in self.budget.stuck.items() if id in self.sessions}
        total = sum(left.values())
        for id in sorted(left, key=left.__getitem__, reverse=True):
            if total <= limit:
                break
            total -= left[id]
            self.record_limit(id, errors.LimitReached("answers_bytes", limit))
            self.sessions[id].close("over the limit answers_bytes", at_once=True)

    def disconnect(self, id: SessionId) -> None:
        """Remove a session that is gone; the broker has removed it already."""
        session = self.sessions.pop(id)
        self.input_bytes -= session.held
        session.let_go()
        self.queue_channels.forget(id)
        del self._deliver[id]
        self._held.pop(id, None)
        self.monitors.pop(id, None)
        if self.elsewhere is not None:
            self.elsewhere.disconnect(id)
        self._clear_away()

    # Links to other workers.

    def add_link(self, id: SessionId, deliver: Callable[[bytes, int], None]) -> None:
        """Add a link to another worker, which gets messages like this one's sessions."""
        self._deliver[id] = deliver
        self._links[id] = None

    def remove_link(self, id: SessionId) -> None:
        self._deliver.pop(id, None)
        self._links.pop(id, None)

    def call_when_written(self, call: Callable[[], None]) -> None:
        """Call it when the unwritten messages are written."""
        self._when_written.append(call)

    # Subscribing.

    def subscribe(self, session: RespSession, kind: Kind, names: Sequence[bytes]) -> list[int]:
        """Subscribe a session; return how many subscriptions it has after each name."""
        held, now = session.interests.of(kind), self.shell.clock()
        new = [name for name in dict.fromkeys(names) if name not in held]
        counts = self.channels.subscribe(session.id, kind, names, FORMS[session.protocol])
        self.shell.announce([ChannelSubscribed(now, session.id, kind.value, n) for n in new])
        return counts

    def unsubscribe(
        self, session: RespSession, kind: Kind, names: Sequence[bytes] | None
    ) -> list[tuple[bytes | None, int]]:
        """Remove a session from names, or from all; return each with the number that is left."""
        held, now = session.interests.of(kind), self.shell.clock()
        gone = list(held) if names is None else [n for n in dict.fromkeys(names) if n in held]
        left = self.channels.unsubscribe(session.id, kind, names)
        self.shell.announce([ChannelUnsubscribed(now, session.id, kind.value, n) for n in gone])
        if kind is Kind.EXACT:
            self.queue_channels.unsubscribed(session.id, gone)
        if gone and self.waiting:
            self.wake_all()
        return left

    def leave_all(self, session: RespSession) -> Iterator[Reply]:
        """Remove all subscriptions of a session that stays, in parts of an empty answer."""
        for kind in Kind:
            for names in portions(list(session.interests.of(kind))):
                self.channels.unsubscribe(session.id, kind, names)
                if kind is Kind.EXACT:
                    self.queue_channels.unsubscribed(session.id, names)
                yield NOTHING
        self.wake_all()

    def evict(self, names: list[bytes]) -> None:
        """Notify the subscribers of sharded channels that moved to another node, after all earlier
        messages."""
        lost = self.channels.evict(Kind.SHARDED, names)
        self.flush()
        self.wake_all()
        for id, name, left in lost:
            session = self.sessions.get(id)
            # S002-76: sessions that are gone by then are skipped.
            if session is not None:
                # S002-54, S002-73, RESP-75: behind all earlier messages.
                session.push(PushReply((b"sunsubscribe", name, left)))

    def record_limit(self, session: SessionId, reached: errors.LimitReached) -> None:
        fact = LimitReached(self.shell.clock(), reached.name, reached.limit, session)
        self.shell.announce([fact])

    # Publishing.

    def flush(self) -> None:
        """Write all published messages."""
        while self.left:
            self._write_some()
        deliver = self._deliver
        for blob, sessions, messages in self.channels.take():
            for session in sessions:
                # S002-9: a session that is gone is skipped.
                if session in deliver:
                    deliver[session](blob, messages)

    def flush_for(self, sessions: Collection[SessionId]) -> None:
        """Write published messages to these sessions at least, and to the others if they are
        few."""
        self._take()
        for unwritten in self.left:
            hearing = {id for id in unwritten.sessions if id in sessions} - unwritten.early
            unwritten.early |= hearing
            for id in hearing:
                if id in self._deliver:
                    self._deliver[id](unwritten.blob, unwritten.messages)

    def hold(self, session: RespSession) -> None:
        """Have a session wait until published messages are written."""
        session.outlet.pause(may_leave=False)
        self._held[session.id] = None

    def _take(self) -> None:
        """Write published messages, or leave them for later if there are many receivers."""
        rest: Iterable[Blob] = self.channels.take()
        if not self.left:
            rest = self.shell.deliver_all(rest, self._deliver, self.flushed_most)
        self._leave(rest)

    def _leave(self, rest: Iterable[Blob]) -> None:
        """Leave what is not written for later."""
        for blob, sessions, messages in rest:
            self.left.append(Unwritten(blob, sessions, messages))
            self.flush_soon()

    def _write_later(self, rest: Iterable[Blob]) -> None:
        self._leave(rest)
        if self.left and not self._flushing_on:
            self._flush_on()

    def _flush_on(self) -> None:
        """Go on with unwritten messages, a part of them in each pass."""
        self._flushing_on = False
        self._write_some()
        if self.left:
            self._flushing_on = True
            self.shell.later(FLUSH_SECONDS, self._flush_on)
            return
        held, self._held = self._held, {}
        for id in held:
            self.go_on_soon(id)
        calls, self._when_written = self._when_written, []
        for call in calls:
            self.shell.soon(call)

    def _write_some(self) -> None:
        deliver, left, room = self._deliver, self.left, self.flushed_most
        while left and room > 0:
            unwritten = left[0]
            blob, early, messages = unwritten.blob, unwritten.early, unwritten.messages
            some = unwritten.sessions[:room]
            room -= len(some)
            unwritten.sessions = unwritten.sessions[len(some) :]
            if not unwritten.sessions:
                left.popleft()
            for session in some:
                if session in deliver and session not in early:
                    deliver[session](blob, messages)

    def waited_for(self) -> Collection[SessionId]:
        """Mailboxes with output that publishers may have to wait for. Where slow sessions are
        closed, or lose messages, that are links alone: behind one are sessions that read."""
        stuck = self.budget.stuck
        if self.settings.slow_session == "wait":
            return stuck
        # RESP-64: nobody waits for a slow session, and who is not slow misses nothing.
        return [link for link in self._links if link in stuck]

    def blocker(self, kind: Kind, channel: bytes) -> SessionId | None:
        """The session that publishers to a channel wait for, if there is one."""
        return self.channels.blocker(kind, channel, self.budget, self.waited_for())

    def wait(self, publisher: SessionId, blocker: SessionId) -> None:
        self.waiting.wait(publisher, blocker, self.budget)
        self.shell.announce([PublisherWaited(self.shell.clock(), publisher, blocker)])

    def write_effects(self, effects: Sequence[Effect]) -> None:
        """Pass the core's effects to their session: that it may go on, answers to its stream
        commands, and messages of broadcast queues."""
        for effect in effects:
            if type(effect) is not GoOn:
                session = self.sessions.get(effect.session)
                if session is not None:
                    session.answer_awaited(effects)
                    self.queue_channels.tell(session, effects)
                break
        for effect in effects:
            if type(effect) is GoOn:
                self.go_on_soon(effect.session)

    def ask_again(self, id: SessionId) -> None:
        """Submit commands of a session again: the inbox had no room."""
        session = self.sessions.get(id)
        if session is not None and session.awaited is not None:
            session.awaited.begin()

    def wake_all(self) -> None:
        """Subscriptions or the rule for slow sessions changed: let blocked publishers try again."""
        for publisher in self.waiting.wake_all():
            self.go_on_soon(publisher)

    def go_on_soon(self, id: SessionId) -> None:
        """Not at once: the caller is in the middle of something."""
        self.shell.soon(partial(self._go_on, id))

    def go_on_later(self, id: SessionId) -> None:
        """Let a session go on when others had a turn."""
        self.shell.next_pass(partial(self._go_on, id))

    def _go_on(self, id: SessionId) -> None:
        session = self.sessions.get(id)
        if session is None:
            return
        try:
            session.go_on()
        except Exception:
            session.close("internal error", at_once=True)
            raise

    # Keys.

    def streams_among(self, db: int, keys: Sequence[bytes]) -> int:
        """Number of these keys that are streams used since the router started."""
        now, queues = self.shell.clock(), self.broker.shard.shared.queues
        found = 0
        for key in self.stream_keys.candidates(keys):
            try:
                stream = self.stream_keys.get(key)
            except errors.Refused:
                continue  # no queue can have that name
            if stream is not None and stream.queue in queues and not self.keys.has(db, key, now):
                found += 1
        return found

    def tick(self) -> None:
        """Do the regular work: expire keys, and record counts."""
        self.sweep()
        self.feeds.look()
        now = self.shell.clock()
        if not 0 <= now - self._counted_at < COUNT_SECONDS:
            self._counted_at = now
            counted = self.bodies.counted(now)
            if counted:
                self.shell.announce(counted)

    def sweep(self) -> None:
        """Expire keys, and notify listeners. If there are more than one sweep handles, it goes on
        as soon as others had a turn."""
        now = self.shell.clock()
        self.keys.sweep(now)
        self.publish_expired()
        if self.keys.is_behind(now) and not self._sweeping:
            self._sweeping = True
            self.shell.soon(self._sweep_on)

    def _clear_away(self) -> None:
        """Remove the subscriptions of closed sessions, a part of them in each pass."""
        if self.channels.is_leaving and not self._clearing:
            self._clearing = True
            self.shell.soon(self._clear_on)

    def _clear_on(self) -> None:
        self._clearing = False
        self.channels.clear_away()
        self._clear_away()

    def _sweep_on(self) -> None:
        self._sweeping = False
        self.sweep()

    def publish_expired(self) -> None:
        """Publish the events of all keys that expired since the last call."""
        expired = self.keys.take_expired()
        self.expired += len(expired)
        # S002-80: only if a setting asks for it.
        if expired and self.settings.notifies_expired:
            # S002-78, S002-79, RESP-68: all of a sweep together, on their databases' channels.
            events = [(b"__keyevent@%d__:expired" % db, key) for db, key in expired]
            if self.waited_for():
                self.flush()
                self.channels.publish(Kind.EXACT, events)
                self.flush_with_room()
            else:
                self.channels.publish(Kind.EXACT, events)
                self.flush_soon()

    def speak(self, spoken: Sequence[Spoken]) -> None:
        """Publish the messages that a turn has for channels, in order. They feed no domain. A
        publisher on a channel that feeds one has waited for slow sessions already; no publisher
        waits for a domain's own messages, so sessions without room lose them."""
        has_own = any(not each.is_fed for each in spoken)
        is_careful = has_own and self.waited_for()
        if is_careful:
            self.flush()
        for each in spoken:
            kind = Kind.SHARDED if each.is_sharded else Kind.EXACT
            self.channels.publish_one(kind, each.channel, spoken_body(each))
        if is_careful:
            self.flush_with_room()
        else:
            self.flush_soon()

    def flush_with_room(self) -> None:
        """Write what was published to those who have room. Time cannot be made to wait for the
        others: they lose it, which is counted and told."""
        deliver, now, waited = self._deliver, self.shell.clock(), self.waited_for()
        for blob, sessions, messages in self.channels.take():
            for session in sessions:
                # S002-81: who is over its limit loses the event, and that is counted.
                if session in waited and self.budget.is_blocking(session):
                    alive = self.broker.sessions.get(session)
                    name = "" if alive is None else alive.name
                    self.shell.announce([MessagesDiscarded(now, session, name, messages)])
                elif session in deliver:
                    deliver[session](blob, messages)
