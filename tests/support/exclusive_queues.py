"""A desk to test exclusive queues at: short commands, and what came of them as lines of text.

A line begins with the name of the session. A star marks what nobody asked for: `a SOK q` is the
answer to a request of a, `a * END q` an event for a. `a MSG q m1` answers a confirm or a get,
`a * MSG q m1` is pushed.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import count
from operator import itemgetter
from types import FrameType
from typing import Any, get_args

from headgate.core import effects as e
from headgate.core.broker import Broker
from headgate.core.commands import (
    Amend,
    Command,
    Confirm,
    Create,
    Delete,
    Disconnect,
    Drained,
    Get,
    Identify,
    Inspect,
    Request,
    Send,
    Subscribe,
    SubscribeService,
    Watch,
)
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, Seq, ServiceId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import NOTIFY, Message
from headgate.core.model.parties import (
    Address,
    Change,
    Link,
    Notifier,
    Parties,
    Party,
    Proof,
    Purpose,
    ReadLink,
    Secure,
    SetNotifier,
)
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Batch, Head, Load, Page, TurnOutcome
from headgate.errors import StoreError
from headgate.store.base import Store
from headgate.testing.rig import Rig, at_once

SMP = Domain("smp", Mode.EXCLUSIVE, max_messages=128)
Q, Q1, Q2, Q3, Q4 = (QueueId(name) for name in (b"q", b"q1", b"q2", b"q3", b"q4"))
S, T = ServiceId(b"S"), ServiceId(b"T")
NOWHERE = QueueId(b"")
"""Where a command names its queue by another id."""

_refs = count(1)


# The words of SMP, as commands of the core.


def new(
    session: SessionId,
    queue: QueueId,
    *,
    subscribe: bool = False,
    service: ServiceId | None = None,
    parties: Parties | None = None,
) -> Create:
    return Create(session, next(_refs), queue, "smp", subscribe, service, parties)


def sub(session: SessionId, queue: QueueId, service: ServiceId | None = None) -> Subscribe:
    return Subscribe(session, next(_refs), queue, service)


def get(session: SessionId, queue: QueueId) -> Get:
    return Get(session, next(_refs), queue)


def send(session: SessionId, queue: QueueId, message: str, body: bytes | None = None) -> Send:
    content = message.encode() if body is None else body
    return Send(session, next(_refs), queue, Message(mid(message), content, 1000.0))


def ack(session: SessionId, queue: QueueId, message: str = "") -> Confirm:
    """Without a message it is the ACK with an empty id."""
    return Confirm(session, next(_refs), queue, (mid(message),) if message else ())


def delete(session: SessionId, queue: QueueId) -> Delete:
    return Delete(session, next(_refs), queue)


def subs(session: SessionId, service: ServiceId, expected: Tally | None = None) -> SubscribeService:
    return SubscribeService(session, next(_refs), service, expected)


# The same of queues that strangers share. The ids of the other parties of a queue begin with its
# own, so that a line says which queue is meant.


def parties(
    queue: QueueId,
    purpose: Purpose | None = Purpose.MESSAGING,
    *,
    link: Link | None = None,
    notifier: Notifier | None = None,
) -> Parties:
    return Parties(
        (b"rcv key",), b"secret", queue + b".snd", purpose=purpose, link=link, notifier=notifier
    )


def link(queue: QueueId, user: bytes = b"user") -> Link:
    return Link(queue + b".lnk", b"fixed", user)


def notifier(queue: QueueId, number: int = 1) -> Notifier:
    return Notifier(b"%s.ntf%d" % (queue, number), b"ntf key", b"ntf secret")


def post(
    session: SessionId,
    queue: QueueId,
    message: str,
    *,
    notify: bool = False,
    at: float = 1000.0,
    proof: Proof | None = None,
) -> Send:
    """SEND: the queue is named by its sender's id."""
    properties = {NOTIFY: True} if notify else {}
    content = Message(mid(message), message.encode(), at, properties)
    via = Address(Party.SENDER, queue + b".snd")
    return Send(session, next(_refs), NOWHERE, content, via, proof)


def amend(session: SessionId, queue: QueueId, change: Change, proof: Proof | None = None) -> Amend:
    """KEY, RKEY, LSET, LDEL, NKEY, NDEL, OFF: as the recipient."""
    return Amend(session, next(_refs), queue, change, proof=proof)


def nkey(session: SessionId, queue: QueueId, number: int = 1) -> Amend:
    return amend(session, queue, SetNotifier(notifier(queue, number)))


def skey(session: SessionId, queue: QueueId, key: bytes) -> Amend:
    via = Address(Party.SENDER, queue + b".snd")
    return Amend(session, next(_refs), NOWHERE, Secure(key, by_sender=True), via)


def lget(session: SessionId, queue: QueueId, key: bytes | None = None) -> Amend:
    """With a key it is LKEY."""
    via = Address(Party.LINK, queue + b".lnk")
    return Amend(session, next(_refs), NOWHERE, ReadLink(key), via)


def que(session: SessionId, queue: QueueId) -> Inspect:
    return Inspect(session, next(_refs), queue)


def nsub(
    session: SessionId, queue: QueueId, service: ServiceId | None = None, number: int = 1
) -> Watch:
    return Watch(session, next(_refs), notifier(queue, number).id, service)


def nsubs(
    session: SessionId, service: ServiceId, expected: Tally | None = None
) -> SubscribeService:
    return SubscribeService(session, next(_refs), service, expected, sweeps=False)


def identify(session: SessionId, fingerprint: bytes, role: str, service: ServiceId) -> Identify:
    return Identify(session, next(_refs), fingerprint, role, service)


def mid(message: str) -> MessageId:
    return MessageId(message.encode())


def queues(number: int, prefix: str = "n") -> list[QueueId]:
    return [QueueId(f"{prefix}{i:05}".encode()) for i in range(number)]


class Desk(Rig):
    """A rig for SMP that speaks in lines and checks that every request is answered once."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        store: Store | None = None,
        domain: Domain = SMP,
        others: tuple[Domain, ...] = (),
        now: float = 1000.0,
    ) -> None:
        super().__init__(domain, *others, limits=limits, store=store, now=now)
        self.names: dict[SessionId, str] = {}

    def session(self, name: str = "") -> SessionId:
        session = super().session(name)
        self.names[session] = name or f"session{session}"
        return session

    def sessions(self, names: str) -> list[SessionId]:
        return [self.session(name) for name in names.split()]

    def restarted(self) -> Desk:
        """Another router on the same store."""
        domain, *others = self.shard.domains.values()
        return Desk(
            limits=self.broker.limits,
            store=self.store,
            domain=domain,
            others=tuple(others),
            now=self.now,
        )

    # Doing.

    def say(self, *commands: Command) -> list[str]:
        """One turn, and those that the core asks for itself."""
        effects = self.do(*commands)
        self._check_replies(commands, effects)
        return self.lines(effects)

    def say_one(self, *commands: Command) -> tuple[list[str], list[Command]]:
        """Exactly one turn, and what the core would like to do next."""
        outcome = self.turn(list(commands))
        self._check_replies(commands, outcome.effects)
        return self.lines(outcome.effects), outcome.again

    def hang_up(self, session: SessionId) -> None:
        """The connection is gone; its clean-up has not run yet."""
        fact = self.broker.close_session(session, "x", self.now)
        if fact is not None:
            self.facts.append(fact)

    def clean_up(self, session: SessionId) -> list[str]:
        return self.say(Disconnect(session))

    def fill(self, session: SessionId) -> None:
        """Leave no room in the mailbox of a session."""
        alive = self.broker.sessions.get(session)
        assert alive is not None, "only a session that is alive has a mailbox"
        alive.mailbox.offer("stuff", self.broker.limits.mailbox_bytes_soft + 1, self.now)

    def drain(self, session: SessionId) -> None:
        """Make room in the mailbox, without telling the shard."""
        alive = self.broker.sessions.get(session)
        assert alive is not None, "only a session that is alive has a mailbox"
        while alive.mailbox.take(self.now) is not None:
            pass

    def drained(self, session: SessionId) -> list[str]:
        """Make room and tell the shard."""
        self.drain(session)
        return self.say(Drained(session))

    # Looking.

    def lines(self, effects: Iterable[e.Effect]) -> list[str]:
        return [self.line(effect) for effect in effects]

    def line(self, effect: e.Effect) -> str:
        return f"{self.names[effect.session]} {_words(effect)}"

    def heard_by(self, session: SessionId, lines: Iterable[str]) -> list[str]:
        """What one session heard, without its name."""
        name = self.names[session] + " "
        return [line.removeprefix(name) for line in lines if line.startswith(name)]

    def stored_head(self, queue: QueueId) -> Head | None:
        return at_once(self.store.load(Load(heads={queue: 10_000}))).heads.get(queue)

    def stored(self, queue: QueueId) -> list[str]:
        """The ids of the messages in the store."""
        head = self.stored_head(queue)
        assert head is not None, "the queue exists"
        assert head.messages == len(head.first)
        return [stored.message.id.decode() for stored in head.first]

    def associated(self, queue: QueueId) -> ServiceId | None:
        head = self.stored_head(queue)
        assert head is not None, "the queue exists"
        return head.record.service

    def tally(self, service: ServiceId) -> Tally:
        """The tally that the store keeps."""
        return at_once(self.store.load(Load(services={service}))).services.get(service, NOTHING)

    def recount(self, service: ServiceId) -> Tally:
        """The tally of the queues that the store says are the service's."""
        page = Page(service, QueueId(b""), 100_000)
        found = at_once(self.store.load(Load(pages={page}))).pages[page]
        return Tally.of(found.queues)

    def stored_parties(self, queue: QueueId) -> Parties:
        head = self.stored_head(queue)
        assert head is not None, "the queue exists"
        assert head.record.parties is not None, "the queue has parties"
        return head.record.parties

    def stored_owner(self, address: Address) -> QueueId | None:
        """The queue that the store finds under an address."""
        return at_once(self.store.load(Load(addresses={address: 0}))).addresses.get(address)

    def recount_notifiers(self, service: ServiceId, members: Iterable[QueueId]) -> Tally:
        """The tally of those notifiers of these queues that the store says are the service's."""
        heads = at_once(self.store.load(Load(heads=dict.fromkeys(members, 0)))).heads.values()
        found = [head.record.parties.notifier for head in heads if head.record.parties is not None]
        return Tally.of(
            QueueId(one.id) for one in found if one is not None and one.service == service
        )

    def check_backlogs(self) -> None:
        """What the core remembers of queues is what the store has."""
        kept = self.shard.cache._cache
        heads = at_once(self.store.load(Load(heads=dict.fromkeys(kept, 10_000)))).heads
        owners: dict[Address, QueueId] = {}
        for queue, cached in kept.items():
            head = heads[queue]
            assert cached.record == head.record
            assert cached.messages == head.messages
            assert tuple(cached.first) == head.first[: len(cached.first)]
            if head.record.parties is not None:
                owners |= dict.fromkeys(head.record.parties.addresses(), queue)
        assert self.shard.cache._owners == owners
        found = at_once(self.store.load(Load(addresses=dict.fromkeys(owners, 0)))).addresses
        assert found == owners

    def watcher(self, queue: QueueId, number: int = 1) -> list[SessionId]:
        """Who is told of the queue's messages by itself."""
        return list(self.shard.exclusive.notifiers.subscribers.roster(notifier(queue, number).id))

    def share(self, session: SessionId) -> Tally:
        """The queues a session is counted for as its service's subscriber."""
        for other, state in self.shard.session_states.items():
            if other == session and state.membership is not None:
                return state.membership.tally
        return NOTHING

    def total(self) -> int:
        """Service-subscribed queues in the whole router."""
        return self.shard.exclusive.services.queues

    def subscriber(self, queue: QueueId) -> list[SessionId]:
        """Who subscribed the queue by itself."""
        return list(self.shard.exclusive.holders.subscribers.roster(queue))

    def waiting(self, session: SessionId) -> list[QueueId]:
        """The queues whose heads wait for room in the mailbox of a session."""
        return list(dict(self.shard.session_states.items())[session].waiting)

    def service_subscriber(self, service: ServiceId) -> list[SessionId]:
        return list(self.shard.exclusive.services.subscribers.roster(service))

    def trips(self, *commands: Command) -> list[Load | Batch]:
        """What one turn with these commands asks of the store."""
        before = len(self.asked)
        self.turn(list(commands))
        return self.asked[before:]

    def _check_replies(self, commands: Iterable[Command], effects: Iterable[e.Effect]) -> None:
        """Every request of a living session is answered once, in the order it was asked."""
        asked: dict[SessionId, list[object]] = {}
        for command in commands:
            if isinstance(command, get_args(Request)):
                request: Any = command
                if request.session in self.broker.sessions:
                    asked.setdefault(request.session, []).append(request.ref)
        answered: dict[SessionId, list[object]] = {}
        for effect in effects:
            ref = getattr(effect, "ref", None)
            if ref is not None and effect.session in self.broker.sessions:
                answered.setdefault(effect.session, []).append(ref)
        assert answered == asked, "every request is answered once, from front to back"


def _words(effect: e.Effect) -> str:
    match effect:
        case e.Done():
            return "OK"
        case e.PurgeDone(queue=queue, messages=messages):
            return f"PURGED {queue.decode()} {messages}"
        case e.Removed(queue=queue):
            return f"* REMOVED {queue.decode()}"
        case e.Failed(error=error):
            return f"ERR {type(error).__name__}"
        case e.Granted(queue=queue, service=None):
            return f"SOK {queue.decode()}"
        case e.Granted(queue=queue, service=service):
            return f"SOK {queue.decode()} as {(service or b'').decode()}"
        case e.Receipt(queue=queue, message=message):
            return f"RECEIPT {queue.decode()} {message.decode()}"
        case e.Deliver(queue=queue, message=message, ref=ref):
            star = "* " if ref is None else ""
            return f"{star}MSG {queue.decode()} {message.id.decode()}"
        case e.End(queue=queue):
            return f"* END {queue.decode()}"
        case e.Deleted(queue=queue):
            return f"* DELD {queue.decode()}"
        case e.ServiceGranted(service=service, tally=tally):
            return f"SOKS {service.decode()} {tally.count} {tally.hash.hex()}"
        case e.ServiceEnd(service=service, tally=tally):
            return f"* ENDS {service.decode()} {tally.count} {tally.hash.hex()}"
        case e.Damaged(queue=queue):
            return f"* ERR {queue.decode()}"
        case e.SweepDone(service=service):
            return f"* ALLS {service.decode()}"
        case e.Amended(queue=queue):
            return f"AMENDED {queue.decode()}"
        case e.Inspected(queue=queue, messages=messages, standing=standing):
            return f"INFO {queue.decode()} {messages} {standing.value}"
        case e.Watching(notifier=known, service=None):
            return f"NSOK {known.decode()}"
        case e.Watching(notifier=known, service=service):
            return f"NSOK {known.decode()} as {(service or b'').decode()}"
        case e.Noticed(notice=notice):
            return f"* NMSG {notice.notifier.decode()} {notice.message.decode()}"
        case e.WatchEnd(notifier=known):
            return f"* NEND {known.decode()}"
        case e.WatchDeleted(notifier=known):
            return f"* NDELD {known.decode()}"
        case e.Identified(service=service):
            return f"IDENTIFIED {service.decode()}"
        case e.GoOn():
            return "* GO ON"
        case e.Revoked(domain=domain):
            return f"* REVOKED {domain}"
        case _:
            raise AssertionError(f"{effect} is for readers of shared queues")


def desk_with(*messages: str, limits: Limits | None = None) -> tuple[Desk, list[SessionId]]:
    """A desk with a queue q that holds these messages, sessions a, b, c, and the sender x."""
    desk = Desk(limits=limits)
    a, b, c, x = desk.sessions("a b c x")
    desk.say(new(x, Q), *(send(x, Q, message) for message in messages))
    desk.facts.clear()
    desk.asked.clear()
    return desk, [a, b, c, x]


def desk_of(
    *members: QueueId, pending: int = 0, limits: Limits | None = None
) -> tuple[Desk, SessionId]:
    """A router that just started: these queues are the service's, each with so many messages;
    and a session that sends."""
    desk = Desk(limits=limits)
    owner, x = desk.sessions("owner x")
    desk.do(*(new(owner, queue, service=S) for queue in members))
    desk.do(*(send(x, queue, f"m{k}") for queue in members for k in range(1, pending + 1)))
    desk = desk.restarted()
    return desk, desk.session("x")


def messages(lines: list[str]) -> list[str]:
    """The deliveries among them."""
    return [line for line in lines if "MSG" in line]


def soks(service: ServiceId, *members: QueueId) -> str:
    return f"SOKS {service.decode()} {hashed(*members)}"


def ends(service: ServiceId, *members: QueueId) -> str:
    return f"* ENDS {service.decode()} {hashed(*members)}"


def hashed(*members: QueueId) -> str:
    """Count and hash of these queues, as they are written in a line."""
    tally = Tally.of(members)
    return f"{tally.count} {tally.hash.hex()}"


# Cost, without a clock.


def calls(action: Callable[[], object]) -> int:
    """How many functions were called, those of the interpreter included: a measure of work
    that is the same on every machine."""
    counted: Counter[str] = Counter()

    def see(frame: FrameType, event: str, argument: object) -> None:
        counted[event] += 1

    before = sys.getprofile()
    gc.disable()  # a collection in between calls back into others
    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return counted["call"] + counted["c_call"]


async def drive(broker: Broker, store: Store, commands: list[Command], now: float) -> TurnOutcome:
    """One turn with a store that has to be waited for."""
    step = broker.shard.turn(commands, now)
    try:
        asked = next(step)
        while True:
            try:
                loaded = None
                if isinstance(asked, Load):
                    loaded = await store.load(asked)
                elif isinstance(asked, Batch):
                    await store.apply(asked)
            except StoreError as error:
                asked = step.throw(error)
            else:
                asked = step.send(loaded)
    except StopIteration as done:
        outcome: TurnOutcome = done.value
        return outcome


def broker_of(last: Seq, limits: Limits | None = None) -> Broker:
    return Broker({SMP.name: SMP}, limits or Limits(), last)


# Everything that is in an object.


def snapshot(root: object, leave_out: tuple[type[Any], ...] = ()) -> object:
    """A picture of an object and all it holds, to be compared with a later one.

    Caches are left out by their type; functions, and what is met on the way to itself, are only
    named. What many hold, and is itself and not its value, is pictured where it is met first. The
    order of dictionaries and sets does not count.
    """
    return _picture(root, leave_out, (), set())


def _picture(
    item: object, leave_out: tuple[type[Any], ...], above: tuple[int, ...], met: set[int]
) -> object:
    if item is None or isinstance(item, bool | int | float | str | bytes):
        return item
    if isinstance(item, leave_out) or id(item) in above or id(item) in met:
        return f"<{type(item).__name__}>"
    above = (*above, id(item))
    if isinstance(item, dict):
        named = sorted(((repr(k), v) for k, v in item.items()), key=itemgetter(0))
        return (type(item).__name__, [(k, _picture(v, leave_out, above, met)) for k, v in named])
    if isinstance(item, set | frozenset):
        return (type(item).__name__, sorted(repr(member) for member in item))
    if isinstance(item, list | tuple | deque):
        return (type(item).__name__, [_picture(member, leave_out, above, met) for member in item])
    if callable(item):
        return f"<{getattr(item, '__qualname__', type(item).__name__)}>"
    if type(item).__eq__ is object.__eq__:
        met.add(id(item))
    fields: dict[str, object] = dict(getattr(item, "__dict__", {}))
    for cls in type(item).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(item, name):
                fields[name] = getattr(item, name)
    pictured = [(name, _picture(fields[name], leave_out, above, met)) for name in sorted(fields)]
    return (type(item).__name__, pictured)
