"""A hub with no process around it, and guests that talk to it in bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from headgate.core.commands import Command, Disconnect
from headgate.core.delivery.mailbox import ANSWER
from headgate.core.facts import Fact
from headgate.core.model.domain import Domain
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.core.reader_commands import Block
from headgate.core.redis.acl import AccessControl
from headgate.core.redis.cluster import Cluster
from headgate.core.turn.handouts import handouts
from headgate.core.turn.inbox import Inbox
from headgate.errors import LimitReached
from headgate.server.net.pump import deliver_all
from headgate.testing.rig import Rig
from headgate.wire.resp.codec.replies import bulk
from headgate.wire.resp.hub import Hub
from headgate.wire.resp.settings import Settings


class Later:
    """A call that comes later."""

    def __init__(
        self,
        calls: list[tuple[float, Callable[[], None]]],
        item: tuple[float, Callable[[], None]],
    ) -> None:
        self._calls = calls
        self._item = item

    def cancel(self) -> None:
        if self._item in self._calls:
            self._calls.remove(self._item)


class House:
    """The shell of the hub: a clock that stands still until it is set, and a list of calls."""

    def __init__(
        self,
        password: str | None = None,
        limits: Limits | None = None,
        cluster: Cluster | None = None,
        domains: Sequence[Domain] = (),
    ) -> None:
        self.now = 1_000_000_000.25
        self.step = 0.0
        """So much later it is each time somebody asks."""
        self.calls: list[Callable[[], None]] = []
        self.deliver_all = deliver_all
        self.facts: list[Fact] = []
        self.known_sessions: list[SessionId] = []
        self.suspects: list[SessionId] = []
        self.delayed: list[tuple[float, Callable[[], None]]] = []
        self.drawn = -1
        """How often something was drawn before."""
        self.rig = Rig(*domains, limits=limits, now=self.now)
        self.submitted: list[Command | Block] = []
        """Commands on queues that wait for a turn."""
        self.has_room = True
        """Whether more of them are taken."""
        broker = self.rig.broker
        self.hub = Hub(self, broker, Settings(port=6379), AccessControl(password), cluster)

    def soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def next_pass(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def announce(self, facts: Sequence[Fact]) -> None:
        self.facts += facts

    def facts_of(self, kind: str) -> list[Any]:
        return [fact for fact in self.facts if type(fact).__name__ == kind]

    def clock(self) -> float:
        self.now += self.step
        return self.now

    def known(self, session: SessionId) -> None:
        self.known_sessions.append(session)

    def suspect(self, session: SessionId) -> None:
        self.suspects.append(session)

    def later(self, seconds: float, call: Callable[[], None]) -> Later:
        item = (seconds, call)
        if seconds:
            self.delayed.append(item)
        else:
            self.soon(call)
        return Later(self.delayed, item)

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        if not self.has_room:
            raise LimitReached("inbox_commands", 1)
        self.submitted += commands

    def take_turns(self) -> None:
        """Carry out what was submitted, and what the core asks for itself."""
        inbox = Inbox(Limits(), is_near=False)
        while self.submitted or inbox:
            inbox.insist(self.submitted)
            self.submitted = []
            self.rig.now = self.now
            outcome = self.rig.turn(inbox.take())
            inbox.insist(outcome.again)
            if outcome.spoken:
                self.hub.speak(outcome.spoken)
            for session, part in handouts(outcome.effects):
                if session in self.hub.sessions:
                    self.hub.write_effects(part)

    def pass_time(self) -> list[float]:
        """Have everything done that waits; how long it had to."""
        delayed, self.delayed = self.delayed, []
        for _, call in delayed:
            call()
        return [seconds for seconds, _ in delayed]

    def draw(self, length: int) -> bytes:
        """Other bytes each time."""
        self.drawn += 1
        return bytes((self.drawn >> 8 * (place % 4) ^ place) & 255 for place in range(length))

    def memory(self) -> int:
        return 3 * 1024 * 1024

    def end_pass(self) -> None:
        """What is to be done soon, and the turns that were asked for."""
        while self.calls or self.submitted:
            calls, self.calls = self.calls, []
            for call in calls:
                call()
            if self.submitted:
                self.take_turns()
            else:
                break

    def relieve(self, session: SessionId) -> None:
        """Something left the mailbox of a session, or it is gone."""
        self.hub.write_effects(self.hub.broker.relieved(session))

    def guest(self, protocol: int = 2) -> Guest:
        guest = Guest(self)
        if protocol == 3:
            guest.ask("HELLO", "3")
        return guest


class Guest:
    """One client, and the shell's end of its session."""

    def __init__(self, house: House) -> None:
        self.house = house
        opened, _ = house.hub.broker.open_session("resp", "", house.now)
        self.id = opened.id
        self.mailbox = opened.mailbox
        self.peer = f"127.0.0.1:{50_000 + self.id}"
        self.is_stuck = False
        """Takes nothing; what it is sent waits in its mailbox."""
        self.answers_max = 1 << 20
        self.paused = False
        """Its commands are not read."""
        self.ended = ""
        """Why its session is over."""
        self.received = b""
        self.session = house.hub.connect(self.id, self, self.peer, "127.0.0.1:6379")

    # What it does.

    def raw(self, *words: str | bytes | int) -> bytes:
        """Send a command; return what came of it, in bytes."""
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.session.receive(b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts)))
        self.house.end_pass()
        received, self.received = self.received, b""
        return received

    def ask(self, *words: str | bytes | int) -> Any:  # noqa: ANN401
        """Send a command; return its reply. An error is returned as its text."""
        reader = hiredis.Reader(encoding="utf-8", errors="surrogateescape")
        reader.feed(self.raw(*words))
        reply = reader.gets()
        assert reader.gets() is False, "one reply to one command"
        return str(reply) if isinstance(reply, hiredis.ReplyError) else reply

    def take(self, but: int = 0) -> None:
        """Take what is next in its mailbox, but so many bytes of it."""
        if but:
            self.mailbox.shorten(b"." * but, but, self.house.now)
        else:
            self.mailbox.take(self.house.now)
        self.house.relieve(self.id)

    # What the session asks of the shell.

    def write(self, blob: bytes) -> None:
        self.deliver(blob, ANSWER)

    def deliver(self, blob: bytes, messages: int) -> None:
        if self.is_stuck:
            self.mailbox.offer(blob, len(blob), self.house.now, messages=messages)
        elif not self.ended:
            self.received += blob

    @property
    def is_full(self) -> bool:
        return self.mailbox.answers > self.answers_max

    def pause(self, *, may_leave: bool = True) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self, reason: str, *, at_once: bool = False) -> None:
        if not self.ended:
            self.ended = reason
            self.house.hub.broker.close_session(self.id, reason, self.house.now)
            self.house.hub.disconnect(self.id)
            if self.house.rig.shard.domains:
                self.house.submitted.append(Disconnect(self.id))
            self.house.relieve(self.id)
