"""What the sessions of a listener share: channels, keys, users, slots, settings and each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Protocol

from headgate import errors
from headgate.core.access import Access
from headgate.core.audience import Kind
from headgate.core.broker import Broker
from headgate.core.facts import (
    ChannelSubscribed,
    ChannelUnsubscribed,
    Fact,
    LimitReached,
    PublisherWaited,
)
from headgate.core.keys import Keys
from headgate.core.names import SessionId
from headgate.core.slots import Cluster
from headgate.wire.resp.commands import COMMANDS
from headgate.wire.resp.forms import FORMS
from headgate.wire.resp.outlet import Outlet
from headgate.wire.resp.replies import Push
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.settings import Settings


class Shell(Protocol):
    """What the hub asks of the process it is in."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call it at the end of this pass of the loop."""
        ...

    def announce(self, facts: Sequence[Fact]) -> None: ...

    def clock(self) -> float: ...

    def evict(self, session: SessionId, reason: str) -> None:
        """Close a slow session, now."""
        ...

    def memory(self) -> int:
        """Resident bytes of the process."""
        ...


class Hub:
    def __init__(
        self,
        shell: Shell,
        broker: Broker,
        settings: Settings,
        access: Access,
        cluster: Cluster | None = None,
    ) -> None:
        self.shell = shell
        self.broker = broker
        self.channels = broker.channels
        self.budget = broker.budget
        self.table = COMMANDS
        self.settings = settings
        self.access = access
        self.cluster = cluster
        """Who owns which slots; nothing outside of cluster mode."""
        self.keys = Keys(broker.limits)
        self.waiting = broker.waiting
        self.sessions: dict[SessionId, RespSession] = {}
        self.monitors: dict[SessionId, RespSession] = {}
        self._deliver: dict[SessionId, Callable[[bytes, int], None]] = {}
        self._flushing = False
        self.began = shell.clock()
        self.input_bytes = 0
        """Of requests that are not whole, of all sessions."""
        self.connections = 0
        """Sessions since the start."""
        self.commands = 0
        """Commands carried out since the start."""
        self.expired = 0
        """Keys that died by time since the start."""

    # Sessions.

    def connect(self, id: SessionId, outlet: Outlet, peer: str, local: str) -> RespSession:
        session = RespSession(self, id, outlet, peer, local)
        self.sessions[id] = session
        self._deliver[id] = outlet.deliver
        self.connections += 1
        return session

    def may_hold(self, session: RespSession, held: int) -> bool:
        """Note how much a session has sent that is not carried out yet. Beyond the limit of all
        together, who has most of it is closed; false if that is this one."""
        self.input_bytes += held - session.held
        is_more = held > session.held
        session.held = held
        limit = self.broker.limits.input_bytes
        if is_more and self.input_bytes > limit:
            most = max(self.sessions.values(), key=attrgetter("held"))
            self.tell_limit(most.id, errors.LimitReached("input_bytes", limit))
            most.close("over the limit input_bytes", at_once=True)
            return most is not session
        return True

    def disconnect(self, id: SessionId) -> None:
        """The session is gone; the broker forgot it already."""
        session = self.sessions.pop(id)
        self.input_bytes -= session.held
        session.let_go()
        del self._deliver[id]
        self.monitors.pop(id, None)
        self.waiting.forget(id)
        self.wake()

    # Subscribing.

    def subscribe(self, session: RespSession, kind: Kind, names: list[bytes]) -> list[int]:
        """Subscribe a session; return how many subscriptions it has after each name."""
        held, now = session.interests.of(kind), self.shell.clock()
        new = [name for name in dict.fromkeys(names) if name not in held]
        counts = self.channels.subscribe(session.id, kind, names, FORMS[session.protocol])
        self.shell.announce([ChannelSubscribed(now, session.id, kind.value, n) for n in new])
        return counts

    def unsubscribe(
        self, session: RespSession, kind: Kind, names: list[bytes] | None
    ) -> list[tuple[bytes | None, int]]:
        """Take a session off names, or off all; return each with how many it then has."""
        held, now = session.interests.of(kind), self.shell.clock()
        gone = list(held) if names is None else [n for n in dict.fromkeys(names) if n in held]
        told = self.channels.unsubscribe(session.id, kind, names)
        self.shell.announce([ChannelUnsubscribed(now, session.id, kind.value, n) for n in gone])
        if gone and self.waiting:
            self.wake_all()
        return told

    def evict(self, names: list[bytes]) -> None:
        """Sharded channels moved to another node: who was subscribed is told so, after what was
        published before."""
        lost = self.channels.evict(Kind.SHARDED, names)
        self.flush()
        self.wake_all()
        for id, name, left in lost:
            session = self.sessions.get(id)
            if session is not None:
                session.push(Push((b"sunsubscribe", name, left)))

    def tell_limit(self, session: SessionId, reached: errors.LimitReached) -> None:
        fact = LimitReached(self.shell.clock(), reached.name, reached.limit, session)
        self.shell.announce([fact])

    # Publishing.

    def flush_soon(self) -> None:
        """Have what was published written at the end of this pass."""
        if not self._flushing:
            self._flushing = True
            self.shell.soon(self.flush)

    def flush(self) -> None:
        """Write what was published."""
        self._flushing = False
        deliver = self._deliver
        for blob, sessions, messages in self.channels.take():
            for session in sessions:
                if session in deliver:
                    deliver[session](blob, messages)

    def wait(self, publisher: SessionId, blocker: SessionId) -> None:
        self.waiting.wait(publisher, blocker)
        self.shell.announce([PublisherWaited(self.shell.clock(), publisher, blocker)])

    def wake(self) -> None:
        """Something left a mailbox, or a session is gone: have those who waited for it go on."""
        self._wake(self.waiting.wake(self.budget))

    def wake_all(self) -> None:
        """Who hears what, or the policy, is another: have everybody who waits ask again."""
        self._wake(self.waiting.wake_all())

    def _wake(self, publishers: list[SessionId]) -> None:
        """Not from here: whoever wakes them is in the middle of something."""
        for publisher in publishers:
            self.shell.soon(partial(self._go_on, publisher))

    def go_on_soon(self, id: SessionId) -> None:
        self.shell.soon(partial(self._go_on, id))

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

    def sweep(self) -> None:
        """Let keys die whose time is over, and tell who wants to know."""
        self.keys.sweep(self.shell.clock())
        self.tell_expired()

    def tell_expired(self) -> None:
        """Publish the keys that died since the last time, all at once."""
        expired = self.keys.take_expired()
        self.expired += len(expired)
        if expired and self.settings.notifies_expired:
            events = [(b"__keyevent@%d__:expired" % db, key) for db, key in expired]
            for channel in {channel for channel, _ in events}:
                for session in list(self.channels.hearing(Kind.EXACT, channel, self.budget.stuck)):
                    if self.budget.is_blocking(session):
                        # Time cannot be made to wait for who does not read.
                        self.shell.evict(session, "over its limit")
            self.channels.publish(Kind.EXACT, events)
            self.flush_soon()
