"""What the documents promise of queues, services and notifiers, as one small machine.

The model reads a block of commands as if they came one by one, and says what every session is
answered and told. It has names where the wire has ids: a queue is ``q0``, its second notifier
``q0~2``, a session ``p1`` or ``a2``. It knows nothing of bytes, keys, time or the router's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["M", "N"]
"""Of a service: for messages, or for notifications."""


@dataclass(frozen=True)
class Cmd:
    """One command of a block."""

    verb: str
    queue: str = ""
    key: str = ""
    """The key that signs, or that is set: ``k1`` and ``k2`` are a sender's, ``wrong`` nobody's."""
    text: str = ""
    """The body of SEND, the mode of NEW, which message an ACK means, what else is wrong."""
    notify: bool = False

    def __str__(self) -> str:
        words = [self.verb, self.queue, self.key and f"key={self.key}", self.text]
        return " ".join(word for word in words if word) + (" notify" if self.notify else "")


@dataclass(frozen=True)
class Act:
    """What one session does in one step: a block of commands, or leaving when there is none."""

    session: str
    commands: tuple[Cmd, ...] = ()

    def __str__(self) -> str:
        return f"{self.session}: {', '.join(map(str, self.commands)) or 'leaves'}"


BYE = Cmd("BYE")
"""The last of a block whose session hangs up without waiting for the answers."""


@dataclass(eq=False)
class Message:
    """What was stored, or the marker that stands for what was too many. The router draws `id`;
    whoever reads the first copy fills it in, and every other copy has to have the same."""

    queue: str
    body: str | None
    id: bytes | None = None
    sealed: bytes | None = None

    def __repr__(self) -> str:
        return "marker" if self.body is None else repr(self.body)


@dataclass(frozen=True)
class Said:
    """An answer or an event; `about` is a queue, a notifier, a service, or nothing."""

    word: str
    about: str = ""
    what: object = None
    instead: tuple[str, ...] = ()
    """Other words that would be as good."""

    def __str__(self) -> str:
        what = sorted(self.what) if isinstance(self.what, frozenset) else self.what
        known = "" if what is None else f" {what}"
        return f"{self.word}{known} of {self.about or 'nothing'}"


@dataclass
class Sub:
    kind: Literal["SUB", "GET"]
    delivered: Message | None = None
    stale: bool = False
    """A GET that found nothing after one that found something: which of them an ACK means, no
    document says."""


@dataclass
class Notifier:
    name: str
    service: str | None = None
    waiting: list[Message] = field(default_factory=list)


@dataclass
class Queue:
    name: str
    service: str | None = None
    messages: list[Message] = field(default_factory=list)
    last: Message | None = None
    """The one that was acknowledged last."""
    is_open: bool = True
    is_off: bool = False
    is_gone: bool = False
    key: str | None = None
    notifier: Notifier | None = None
    notifiers: int = 0


@dataclass
class Session:
    name: str
    service: str | None = None
    role: Role | None = None
    subs: dict[str, Sub] = field(default_factory=dict)
    tally: set[str] = field(default_factory=set)
    """Queues or notifiers that are counted for this session of a service."""
    is_whole: bool = False
    """Whether it subscribed the service as a whole, and was not displaced since."""


@dataclass
class Outcome:
    answers: list[Said] = field(default_factory=list)
    events: dict[str, list[Said]] = field(default_factory=dict)


def service_of(session: str) -> tuple[str | None, Role | None]:
    """``p`` and ``r`` are plain; ``a`` and ``b`` have services for messages, ``m`` and ``n`` for
    notifications. The digit is the session's."""
    letter = session[0]
    if letter in "ab":
        return letter.upper(), "M"
    return (letter.upper(), "N") if letter in "mn" else (None, None)


AUTH = Said("ERR", what="AUTH")
NO_MSG = Said("ERR", what="NO_MSG")
QUOTA = Said("ERR", what="QUOTA")
SERVICE = Said("ERR", what="SERVICE")
PROHIBITED = Said("ERR", what="CMD PROHIBITED")
EMPTY = "empty"


class Model:
    """The state of a router with one quota, as far as clients can know it."""

    def __init__(self, quota: int) -> None:
        self.quota = quota
        self.queues: dict[str, Queue] = {}
        self.sessions: dict[str, Session] = {}
        self.subscribers: dict[str, str] = {}
        """Plain sessions by queue."""
        self.watchers: dict[str, str] = {}
        """Plain sessions by notifier."""
        self.holders: dict[str, str] = {}
        """Sessions by service."""
        self._outcome = Outcome()
        self._is_sweeping = False

    # Steps.

    def join(self, session: str) -> None:
        self.sessions.setdefault(session, Session(session, *service_of(session)))

    def leave(self, name: str) -> Outcome:
        """Everything of a session ends with it; messages and associations remain."""
        self._outcome = Outcome()
        self.sessions.pop(name, None)
        for places in (self.subscribers, self.watchers, self.holders):
            for place in [place for place, session in places.items() if session == name]:
                del places[place]
        return self._outcome

    def means(self, act: Act) -> list[Message | str]:
        """Which message each ACK of a block names, and which notifier each NSUB, as far as its
        client knows before the block."""
        return [self._meant(act.session, cmd) for cmd in act.commands]

    def block(self, act: Act, means: list[Message | str]) -> Outcome:
        self._outcome = Outcome()
        session = self.sessions[act.session]
        for cmd, meant in zip(act.commands, means, strict=True):
            self._outcome.answers.append(self._answer(session, cmd, meant))
        if self._is_sweeping:
            self._sweep(session)
        self._tell_notices()
        return self._outcome

    def vanish(self, act: Act, means: list[Message | str]) -> Outcome:
        """A block of subscriptions whose session is gone, perhaps before they are carried out:
        whoever had the places is told all the same, and nobody has them."""
        outcome = self.block(act, means)
        self.leave(act.session)
        outcome.answers.clear()
        outcome.events.pop(act.session, None)
        return outcome

    # What can be counted.

    def owned(self, service: str) -> frozenset[str]:
        """The queues, or the notifiers, that are associated with a service."""
        live = [queue for queue in self.queues.values() if not queue.is_gone]
        queues = {queue.name for queue in live if queue.service == service}
        notifiers = {
            queue.notifier.name
            for queue in live
            if queue.notifier is not None and queue.notifier.service == service
        }
        return frozenset(queues | notifiers)

    def gauges(self) -> Mapping[str, int]:
        return {
            "services_subscribed": len(self.holders),
            "service_queues_subscribed": sum(len(s.tally) for s in self.sessions.values()),
            "queues_subscribed": len(self.subscribers),
            "notifiers_subscribed": len(self.watchers),
            "deliveries_unconfirmed": sum(
                sub.kind == "SUB" and sub.delivered is not None
                for session in self.sessions.values()
                for sub in session.subs.values()
            ),
        }

    def live(self) -> Iterable[Queue]:
        return (queue for queue in self.queues.values() if not queue.is_gone)

    # Commands.

    def _answer(self, session: Session, cmd: Cmd, meant: Message | str) -> Said:
        if cmd.verb == "PING":
            return Said("PONG")
        if cmd.verb in ("SUBS", "NSUBS"):
            return self._subs(session, cmd)
        if cmd.verb == "NEW":
            return self._new(session, cmd)
        queue = self.queues[cmd.queue]
        if queue.is_gone:
            return AUTH
        if cmd.verb == "NSUB" and (queue.notifier is None or queue.notifier.name != meant):
            return AUTH
        if session.role is not None and (cmd.verb == "NSUB") != (session.role == "N"):
            return PROHIBITED
        if cmd.verb == "NSUB":
            assert queue.notifier is not None
            return self._nsub(session, queue.notifier, cmd)
        if cmd.verb == "SUB":
            return self._sub(session, queue, cmd)
        if cmd.verb == "SEND":
            return self._send(queue, cmd)
        if cmd.text == "forged":
            return AUTH
        match cmd.verb:
            case "GET":
                return self._get(session, queue)
            case "ACK":
                return self._ack(session, queue, meant)
            case "KEY" | "SKEY":
                if queue.key is None:
                    queue.key = cmd.key
                about = queue.name if cmd.verb == "KEY" else f"sender of {queue.name}"
                return Said("OK", about) if queue.key == cmd.key else AUTH
            case "OFF":
                queue.is_off = True
                return Said("OK", queue.name)
            case "NKEY":
                self._forget_notifier(session, queue)
                queue.notifiers += 1
                queue.notifier = Notifier(f"{queue.name}~{queue.notifiers}")
                return Said("NID", queue.name, queue.notifier.name)
            case "NDEL":
                self._forget_notifier(session, queue)
                return Said("OK", queue.name)
            case "DEL":
                return self._delete(session, queue)
        raise AssertionError(f"no such command: {cmd}")

    def _new(self, session: Session, cmd: Cmd) -> Said:
        subscribes = "S" in cmd.text
        if session.role == "N" or (session.role == "M" and not subscribes):
            return PROHIBITED
        queue = self.queues[cmd.queue] = Queue(cmd.queue, session.service)
        if "N" in cmd.text:
            queue.notifiers = 1
            queue.notifier = Notifier(f"{queue.name}~1")
        if session.service is not None:
            self._hold(session)
            session.tally.add(queue.name)
        elif subscribes:
            self.subscribers[queue.name] = session.name
        if subscribes:
            session.subs[queue.name] = Sub("SUB")
        return Said("IDS", queue.name, session.service)

    def _sub(self, session: Session, queue: Queue, cmd: Cmd) -> Said:
        if cmd.text == "unsigned" and session.service is not None:
            return SERVICE
        if cmd.text == "forged":
            return AUTH
        sub = session.subs.get(queue.name)
        if sub is not None and sub.kind == "GET":
            return PROHIBITED
        if queue.service != session.service:
            self._lose(self.holders.get(queue.service or ""), queue.name)
        if session.service is None:
            before = self.subscribers.get(queue.name)
            if before != session.name:
                self._lose(before, queue.name)
            self.subscribers[queue.name] = session.name
        else:
            self._lose(self.subscribers.pop(queue.name, None), queue.name)
            self._hold(session)
            session.tally.add(queue.name)
        queue.service = session.service
        session.subs[queue.name] = Sub("SUB")
        self._offer(session, queue)
        return Said("SOK", queue.name, session.service)

    def _nsub(self, session: Session, notifier: Notifier, cmd: Cmd) -> Said:
        if cmd.text == "unsigned" and session.service is not None:
            return SERVICE
        if cmd.text == "forged":
            return AUTH
        if notifier.service != session.service:
            self._lose(self.holders.get(notifier.service or ""), notifier.name)
        if session.service is None:
            before = self.watchers.get(notifier.name)
            if before != session.name:
                self._lose(before, notifier.name)
            self.watchers[notifier.name] = session.name
        else:
            self._lose(self.watchers.pop(notifier.name, None), notifier.name)
            self._hold(session)
            session.tally.add(notifier.name)
        notifier.service = session.service
        return Said("SOK", notifier.name, session.service)

    def _subs(self, session: Session, cmd: Cmd) -> Said:
        role = "M" if cmd.verb == "SUBS" else "N"
        if session.service is None or cmd.text == "forged":
            return SERVICE if session.role in (None, role) else PROHIBITED
        if session.role != role:
            return PROHIBITED
        owned = self.owned(session.service)
        if not session.is_whole:
            self._hold(session)
            session.is_whole = True
            session.tally = set(owned)
            self._is_sweeping = role == "M"
        return Said("SOKS", session.service, owned)

    def _sweep(self, session: Session) -> None:
        """After its block, as a task of its own would: heads of queues with no delivery out."""
        self._is_sweeping = False
        for name in sorted(self.owned(session.service or "")):
            sub = session.subs.setdefault(name, Sub("SUB"))
            if sub.delivered is None:
                self._offer(session, self.queues[name])
        self._tell(session.name, Said("ALLS"))

    def _get(self, session: Session, queue: Queue) -> Said:
        sub = session.subs.setdefault(queue.name, Sub("GET"))
        if sub.kind == "SUB":
            return PROHIBITED
        if not queue.messages:
            sub.stale = sub.delivered is not None
            return Said("OK", queue.name)
        sub.delivered, sub.stale = queue.messages[0], False
        return Said("MSG", queue.name, sub.delivered)

    def _ack(self, session: Session, queue: Queue, meant: Message | str) -> Said:
        sub = session.subs.get(queue.name)
        if sub is None or sub.delivered is None:
            return NO_MSG
        if meant == EMPTY and sub.kind == "SUB":
            sub.delivered = None
            return self._next(queue, sub)
        if meant is not sub.delivered:
            return NO_MSG
        if queue.messages and queue.messages[0] is meant:
            queue.last = queue.messages.pop(0)
        acknowledged, sub.delivered = sub.delivered, None
        if sub.kind == "SUB":
            self._take_back(session, queue, acknowledged)
        if sub.kind == "GET":
            stale, sub.stale = sub.stale, False
            return Said("OK", queue.name, instead=("NO_MSG",) if stale else ())
        return self._next(queue, sub)

    def _next(self, queue: Queue, sub: Sub) -> Said:
        if not queue.messages:
            return Said("OK", queue.name)
        sub.delivered = queue.messages[0]
        return Said("MSG", queue.name, sub.delivered)

    def _send(self, queue: Queue, cmd: Cmd) -> Said:
        if cmd.key != (queue.key or "") or queue.is_off:
            return AUTH
        was_empty = not queue.messages
        if not queue.is_open and not was_empty:
            return QUOTA
        queue.is_open = len(queue.messages) < self.quota
        message = Message(queue.name, cmd.text if queue.is_open else None)
        queue.messages.append(message)
        if queue.is_open and cmd.notify and queue.notifier is not None:
            queue.notifier.waiting.append(message)
        if was_empty:
            self._push(queue)
        return Said("OK", f"sender of {queue.name}") if queue.is_open else QUOTA

    def _delete(self, session: Session, queue: Queue) -> Said:
        queue.is_gone = True
        if queue.service is not None:
            told = self.holders.get(queue.service)
        else:
            told = self.subscribers.pop(queue.name, None)
        if told is not None:
            self.sessions[told].tally.discard(queue.name)
            if told != session.name:
                self._tell(told, Said("DELD", queue.name))
        self._forget_notifier(session, queue)
        queue.messages.clear()
        for other in self.sessions.values():
            other.subs.pop(queue.name, None)
        return Said("OK", queue.name)

    def _forget_notifier(self, session: Session, queue: Queue) -> None:
        notifier, queue.notifier = queue.notifier, None
        if notifier is None:
            return
        if notifier.service is not None:
            told = self.holders.get(notifier.service)
        else:
            told = self.watchers.pop(notifier.name, None)
        if told is not None:
            self.sessions[told].tally.discard(notifier.name)
            if told != session.name:
                self._tell(told, Said("DELD", notifier.name))

    # Subscribers.

    def _hold(self, session: Session) -> None:
        """The session has its service from now on, and whoever had it is told what it lost."""
        assert session.service is not None
        before = self.holders.get(session.service)
        self.holders[session.service] = session.name
        if before is not None and before != session.name:
            old = self.sessions[before]
            self._tell(before, Said("ENDS", session.service, frozenset(old.tally)))
            old.tally, old.is_whole, old.subs = set(), False, {}

    def _lose(self, session: str | None, name: str) -> None:
        """END, of a queue or of a notifier."""
        if session is not None:
            self.sessions[session].subs.pop(name, None)
            self.sessions[session].tally.discard(name)
            self._tell(session, Said("END", name))

    def _push(self, queue: Queue) -> None:
        if queue.service is not None:
            name = self.holders.get(queue.service)
        else:
            name = self.subscribers.get(queue.name)
        if name is not None:
            session = self.sessions[name]
            sub = session.subs.setdefault(queue.name, Sub("SUB"))
            if sub.kind == "SUB" and sub.delivered is None:
                self._offer(session, queue)

    def _offer(self, session: Session, queue: Queue) -> None:
        """The head, if there is one; once, however often a block asks for it."""
        if queue.messages:
            head = session.subs[queue.name].delivered = queue.messages[0]
            told = [s for s in self._outcome.events.get(session.name, ()) if s.about == queue.name]
            if not told or told[-1] != Said("MSG", queue.name, head):
                self._tell(session.name, Said("MSG", queue.name, head))

    def _take_back(self, session: Session, queue: Queue, message: Message) -> None:
        """What a block delivers and acknowledges does not come after its acknowledgement."""
        told = self._outcome.events.get(session.name, [])
        for at in reversed(range(len(told))):
            if told[at] == Said("MSG", queue.name, message):
                del told[at]
                return

    def _tell(self, session: str, said: Said) -> None:
        self._outcome.events.setdefault(session, []).append(said)

    def _tell_notices(self) -> None:
        for queue in self.live():
            notifier = queue.notifier
            if notifier is not None and notifier.waiting:
                if notifier.service is not None:
                    told = self.holders.get(notifier.service)
                else:
                    told = self.watchers.get(notifier.name)
                if told is not None:
                    for message in notifier.waiting:
                        self._tell(told, Said("NMSG", notifier.name, message))
                    notifier.waiting.clear()

    def _meant(self, session: str, cmd: Cmd) -> Message | str:
        """A message whose id is known, the name of a notifier, or ``empty`` or ``random``."""
        if cmd.verb == "NSUB":
            return f"{cmd.queue}~{self.queues[cmd.queue].notifiers}"
        if cmd.verb != "ACK" or cmd.queue not in self.queues:
            return ""
        queue, known = self.queues[cmd.queue], self.sessions.get(session)
        found: Message | None = None
        if cmd.text == "current" and known is not None and cmd.queue in known.subs:
            found = known.subs[cmd.queue].delivered
        elif cmd.text == "last":
            found = queue.last
        elif cmd.text == "head" and queue.messages:
            found = queue.messages[0]
        elif cmd.text == EMPTY:
            return EMPTY
        return "random" if found is None or found.id is None else found
