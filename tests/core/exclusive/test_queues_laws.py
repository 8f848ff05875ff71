"""Random histories of exclusive queues and services, against a model that does one command at a
time with dictionaries and lists.

The shard gets the same commands in batches, with a roomy or a tiny memory, with a store that
fails now and then, with sessions that hang up and mailboxes that are full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest

from headgate.core import facts as f
from headgate.core.commands import (
    Command,
    Confirm,
    Create,
    Delete,
    Disconnect,
    Drained,
    Get,
    Send,
    Subscribe,
    SubscribeService,
    Sweep,
)
from headgate.core.effects import Deliver, Effect, Failed
from headgate.core.exclusive.queue_cache import QueueCache
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, ServiceId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.tally import Tally
from headgate.core.shared.body_cache import BodyCache
from headgate.core.shared.statistics import Statistics
from headgate.core.turn.sequence import NumberSequence
from headgate.core.turn.store_requests import TurnOutcome
from headgate.errors import StoreError
from tests.support.exclusive_queues import (
    Desk,
    S,
    T,
    ack,
    delete,
    get,
    hashed,
    new,
    send,
    snapshot,
    sub,
    subs,
)

pytestmark = pytest.mark.once

QUOTA = 6
DOMAIN = Domain("smp", Mode.EXCLUSIVE, max_messages=QUOTA)


class Book:
    """A queue of the model."""

    def __init__(self, service: ServiceId | None) -> None:
        self.service = service
        self.messages: list[MessageId] = []


class Client:
    """A session of the model."""

    def __init__(self, name: str, service: ServiceId | None) -> None:
        self.name = name
        self.service = service
        self.in_flight: dict[QueueId, MessageId] = {}
        self.got: dict[QueueId, MessageId | None] = {}
        self.waiting: list[QueueId] = []
        self.full = False
        self.counted: set[QueueId] = set()
        self.swept = False
        self.sweep: Sweep | None = None
        self.heard: list[str] = []


class Model:
    """At most one subscriber, one message in flight, one command at a time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Queues in a page of a sweep."""
        self.queues: dict[QueueId, Book] = {}
        self.subscriber: dict[QueueId, SessionId] = {}
        self.service_subscriber: dict[ServiceId, SessionId] = {}
        self.clients: dict[SessionId, Client] = {}
        self.pages: dict[int, list[QueueId]] = {}
        self.pushed: set[tuple[SessionId, QueueId, MessageId]] = set()

    def members(self, service: ServiceId) -> list[QueueId]:
        return sorted(q for q, book in self.queues.items() if book.service == service)

    def holder(self, queue: QueueId) -> SessionId | None:
        service = self.queues[queue].service
        if service is not None:
            return self.service_subscriber.get(service)
        return self.subscriber.get(queue)

    def count(self, session: SessionId) -> Tally:
        """What the session is counted for as its service's subscriber."""
        client = self.clients[session]
        if client.swept and client.service is not None:
            return Tally.of(self.members(client.service))
        return Tally.of(client.counted)

    # A turn is one command after the other. Sweeps go page by page, and a page is what the
    # service had when the turn began.

    def begin(self, again: list[Command]) -> None:
        self.pushed.clear()
        self.pages = {
            id(sweep): [q for q in self.members(sweep.service) if q > sweep.after][: self.limit]
            for sweep in again
            if isinstance(sweep, Sweep)
        }

    def end(self, again: list[Command]) -> None:
        """The next pages, of which only the last of a session is of its present subscription."""
        for sweep in again:
            client = self.clients.get(sweep.session) if isinstance(sweep, Sweep) else None
            if isinstance(sweep, Sweep) and client is not None and client.swept:
                client.sweep = sweep

    def do(self, command: Command) -> None:
        match command:
            case Create():
                self.create(command)
            case Delete():
                self.delete(command)
            case Subscribe():
                self.subscribe(command)
            case Get():
                self.get(command)
            case Send():
                self.send(command)
            case Confirm():
                self.confirm(command)
            case SubscribeService():
                self.subscribe_service(command)
            case Drained():
                self.drained(command)
            case Sweep():
                self.sweep(command)
            case Disconnect():
                pass  # it had left when it hung up
            case _:
                raise AssertionError(command)

    def drained(self, command: Drained) -> None:
        client = self.clients.get(command.session)
        if client is not None and not client.full:
            waiting, client.waiting = client.waiting, []
            for queue in waiting:
                self.offer(command.session, queue)

    def sweep(self, command: Sweep) -> None:
        client = self.clients.get(command.session)
        if client is None or client.sweep is not command:
            return
        client.sweep = None
        page = self.pages[id(command)]
        for queue in page:
            if queue in self.queues and self.queues[queue].service == command.service:
                self.offer(command.session, queue)
        if len(page) < self.limit:
            client.heard.append(f"* ALLS {command.service.decode()}")

    def create(self, command: Create) -> None:
        queue, session = command.queue, command.session
        if queue in self.queues:
            self.record(session, "ERR QueueExists")
            return
        if command.subscribe and command.service is not None:
            self.take_service(session, command.service)
        self.queues[queue] = Book(command.service)
        if command.subscribe:
            self.register(session, queue)
        self.granted(session, queue)

    def delete(self, command: Delete) -> None:
        queue, session = command.queue, command.session
        if queue not in self.queues:
            self.record(session, "ERR NoSuchQueue")
            return
        holder = self.holder(queue)
        self.lose(queue)
        if holder is not None and holder != session:
            self.record(holder, f"* DELD {queue.decode()}")
        del self.queues[queue]
        self.record(session, "OK")

    def subscribe(self, command: Subscribe) -> None:
        queue, session = command.queue, command.session
        if queue not in self.queues:
            self.record(session, "ERR NoSuchQueue")
        elif session not in self.clients:
            holder = self.holder(queue)
            self.lose(queue)
            if holder is not None:
                self.record(holder, f"* END {queue.decode()}")
        elif queue in self.clients[session].got:
            self.record(session, "ERR Prohibited")
        else:
            book = self.queues[queue]
            if command.service is not None:
                self.take_service(session, command.service)
            if book.service is None or book.service != command.service:
                holder = self.holder(queue)
                if holder != session:
                    self.lose(queue)
                    if holder is not None:
                        self.record(holder, f"* END {queue.decode()}")
                book.service = command.service
            self.register(session, queue)
            self.granted(session, queue)
            self.clients[session].in_flight.pop(queue, None)
            self.offer(session, queue)

    def get(self, command: Get) -> None:
        queue, session = command.queue, command.session
        if queue not in self.queues:
            self.record(session, "ERR NoSuchQueue")
        elif self.holder(queue) == session:
            self.record(session, "ERR Prohibited")
        else:
            messages = self.queues[queue].messages
            self.clients[session].got[queue] = messages[0] if messages else None
            self.record(session, self.message(queue) if messages else "OK")

    def send(self, command: Send) -> None:
        queue, message = command.queue, command.message.id
        if queue not in self.queues:
            self.record(command.session, "ERR NoSuchQueue")
            return
        messages = self.queues[queue].messages
        if len(messages) >= QUOTA:
            self.record(command.session, "ERR QuotaReached")
            return
        messages.append(message)
        self.record(command.session, f"RECEIPT {queue.decode()} {message.decode()}")
        holder = self.holder(queue)
        if len(messages) == 1 and holder is not None:
            self.offer(holder, queue)

    def confirm(self, command: Confirm) -> None:
        queue, session = command.queue, command.session
        wanted = command.messages[0] if command.messages else None
        if queue not in self.queues:
            self.record(session, "ERR NoSuchQueue")
            return
        client, messages = self.clients[session], self.queues[queue].messages
        by_get = queue in client.got
        had = client.got[queue] if by_get else client.in_flight.get(queue)
        if had is None or (wanted is not None and wanted != had):
            self.record(session, "ERR NoMessage")
            return
        if wanted is not None and messages[:1] == [wanted]:
            del messages[0]
        if by_get:
            client.got[queue] = None
        else:
            del client.in_flight[queue]
            if wanted is not None and (session, queue, wanted) in self.pushed:
                self.unsay(session, queue, wanted)
        if messages and not by_get:
            client.in_flight[queue] = messages[0]
            self.record(session, self.message(queue))
        else:
            self.record(session, "OK")

    def subscribe_service(self, command: SubscribeService) -> None:
        session, service = command.session, command.service
        client = self.clients[session]
        self.record(session, f"SOKS {service.decode()} {hashed(*self.members(service))}")
        if not client.swept:
            self.take_service(session, service)
            client.swept = True

    def leave(self, session: SessionId) -> None:
        del self.clients[session]
        for queue in [q for q, s in self.subscriber.items() if s == session]:
            del self.subscriber[queue]
        for service in [v for v, s in self.service_subscriber.items() if s == session]:
            del self.service_subscriber[service]

    # What the commands share.

    def register(self, session: SessionId, queue: QueueId) -> None:
        service = self.queues[queue].service
        if service is None:
            self.subscriber[queue] = session
        else:
            self.clients[session].counted.add(queue)

    def take_service(self, session: SessionId, service: ServiceId) -> None:
        other = self.service_subscriber.get(service)
        if other == session:
            return
        if other is not None:
            tally = self.count(other)
            client = self.clients[other]
            client.heard.append(f"* ENDS {service.decode()} {tally.count} {tally.hash.hex()}")
            client.in_flight.clear()
            self.pushed = {push for push in self.pushed if push[0] != other}
            client.waiting.clear()
            client.counted.clear()
            client.swept = False
            client.sweep = None
        self.service_subscriber[service] = session

    def lose(self, queue: QueueId) -> None:
        """Nobody holds the queue any more."""
        holder = self.holder(queue)
        self.subscriber.pop(queue, None)
        if holder is not None:
            client = self.clients[holder]
            client.in_flight.pop(queue, None)
            self.pushed = {push for push in self.pushed if push[:2] != (holder, queue)}
            client.counted.discard(queue)
            client.waiting = [q for q in client.waiting if q != queue]

    def offer(self, session: SessionId, queue: QueueId) -> None:
        client, messages = self.clients[session], self.queues[queue].messages
        if not messages or queue in client.in_flight:
            return
        if client.full:
            if queue not in client.waiting:
                client.waiting.append(queue)
            return
        client.waiting = [q for q in client.waiting if q != queue]
        client.in_flight[queue] = messages[0]
        # The first of two differences to doing everything one by one: a turn says the same once,
        # unless the queue was lost in between.
        if (session, queue, messages[0]) not in self.pushed:
            self.pushed.add((session, queue, messages[0]))
            client.heard.append("* " + self.message(queue))

    def unsay(self, session: SessionId, queue: QueueId, message: MessageId) -> None:
        """The second: who confirms a message in the turn that would push it is not told of it."""
        self.pushed.remove((session, queue, message))
        heard = self.clients[session].heard
        line = f"* MSG {queue.decode()} {message.decode()}"
        del heard[len(heard) - 1 - heard[::-1].index(line)]

    def message(self, queue: QueueId) -> str:
        return f"MSG {queue.decode()} {self.queues[queue].messages[0].decode()}"

    def granted(self, session: SessionId, queue: QueueId) -> None:
        service = self.queues[queue].service
        identity = f" as {service.decode()}" if service is not None else ""
        self.record(session, f"SOK {queue.decode()}{identity}")

    def record(self, session: SessionId, words: str) -> None:
        if session in self.clients:
            self.clients[session].heard.append(words)


class History:
    """Draws commands, has them done by model and shard, and compares."""

    def __init__(self, seed: int, limits: Limits, *, services: bool, failures: bool) -> None:
        self.random = Random(seed)
        self.desk = Desk(limits=limits, domain=DOMAIN)
        self.model = Model(limits.sweep_queues)
        self.again: list[Command] = []
        self.services = services
        self.failures = failures
        self.names = count()
        self.slots: list[QueueId] = []
        self.sent: dict[QueueId, list[MessageId]] = defaultdict(list)
        self.first: dict[QueueId, list[MessageId]] = defaultdict(list)
        self.confirmed: set[tuple[QueueId, MessageId]] = set()
        for _ in range(3):
            self.slots.append(self.fresh())
        for _ in range(3):
            self.arrive(None)
        if services:
            for service in (S, S, T):
                self.arrive(service)

    def fresh(self) -> QueueId:
        return QueueId(f"q{next(self.names)}".encode())

    def arrive(self, service: ServiceId | None) -> None:
        name = f"{'p' if service is None else service.decode().lower()}{next(self.names)}"
        self.model.clients[self.desk.session(name)] = Client(name, service)

    def run(self, batches: int) -> None:
        for _ in range(batches):
            self.batch()

    def batch(self) -> None:
        gone = self.hang_up() if self.random.random() < 0.15 else None
        self.press()
        self.model.begin(self.again)
        commands: list[Command] = []
        for command in self.draw(self.random.choice((1, 1, 2, 5, 12, 30)), gone):
            self.model.do(command)
            commands.append(command)
        outcome = self.turn(commands)
        self.again = outcome.again
        assert all(isinstance(command, Sweep | Drained) for command in self.again)
        self.model.end(self.again)
        self.compare(outcome.effects)
        if gone is not None:
            self.arrive(self.random.choice((None, S, T) if self.services else (None,)))

    # Drawing.

    def hang_up(self) -> SessionId:
        session = self.random.choice(list(self.model.clients))
        self.desk.hang_up(session)
        self.model.leave(session)
        return session

    def press(self) -> None:
        """Plain sessions are sometimes short of room."""
        for session, client in self.model.clients.items():
            if client.service is None and not client.full and self.random.random() < 0.1:
                client.full = True
                self.desk.fill(session)

    def draw(self, number: int, gone: SessionId | None) -> Iterator[Command]:
        """New commands, and between them what the core and the shell ask for."""
        others: list[Command] = [*self.again]
        if gone is not None:
            others.append(Disconnect(gone))
        for session, client in self.model.clients.items():
            if client.full and self.random.random() < 0.4:
                client.full = False
                self.desk.drain(session)
                others.append(Drained(session))
        turns = [True] * number + [False] * len(others)
        self.random.shuffle(turns)
        for is_new in turns:
            yield self.one(gone) if is_new else others.pop(0)

    def one(self, gone: SessionId | None) -> Command:
        model, random = self.model, self.random
        if gone is not None and random.random() < 0.2:
            plain = [q for q in self.slots if q in model.queues and not model.queues[q].service]
            if plain and random.random() < 0.7:
                return sub(gone, random.choice(plain))
            return send(gone, random.choice(self.slots), f"m{next(self.names)}")
        session = random.choice(list(model.clients))
        client = model.clients[session]
        place = random.randrange(len(self.slots))
        queue = self.slots[place]
        if queue not in model.queues and random.random() < 0.7:
            return new(session, queue, subscribe=random.random() < 0.5, service=client.service)
        kind = random.random()
        if kind < 0.30:
            return send(session, queue, f"m{next(self.names)}")
        if kind < 0.50:
            return sub(session, queue, client.service)
        if kind < 0.84:
            return self.confirming(session, client, queue)
        if kind < 0.94:
            if client.service is not None:
                return subs(session, client.service)
            return get(session, queue)
        if kind < 0.97:
            self.slots[place] = self.fresh() if queue in model.queues else queue
            return delete(session, queue)
        return new(session, queue, service=client.service)

    def confirming(self, session: SessionId, client: Client, queue: QueueId) -> Command:
        had = client.got[queue] if queue in client.got else client.in_flight.get(queue)
        kind = self.random.random()
        if kind < 0.75 and had is not None:
            return ack(session, queue, had.decode())
        if kind < 0.85 and queue not in client.got:
            return ack(session, queue)
        book = self.model.queues.get(queue)
        others = [m.decode() for m in book.messages] if book is not None else []
        return ack(session, queue, self.random.choice([*others, "wrong"]))

    # Doing.

    def turn(self, commands: list[Command]) -> TurnOutcome:
        """One turn that happens, after one that perhaps did not and left no trace."""
        desk = self.desk
        if not self.failures or self.random.random() < 0.5:
            return desk.turn(commands)
        before = snapshot(desk.shard, CACHES), len(desk.facts)
        desk.fail_at = self.random.randrange(2)
        outcome = desk.turn(commands)
        if desk.fail_at is not None:
            desk.fail_at = None
            return outcome
        failed = desk.facts.pop()
        assert isinstance(failed, f.TurnFailed)
        assert (snapshot(desk.shard, CACHES), len(desk.facts)) == before
        for effect in outcome.effects:
            assert isinstance(effect, Failed)
            assert isinstance(effect.error, StoreError)
        assert len(outcome.effects) + len(outcome.again) == len(commands)
        return desk.turn(commands)

    # Comparing.

    def compare(self, effects: list[Effect]) -> None:
        heard: dict[SessionId, list[str]] = defaultdict(list)
        for effect in effects:
            if effect.session in self.model.clients:
                line = self.desk.line(effect)
                heard[effect.session].append(
                    line.removeprefix(self.desk.names[effect.session] + " ")
                )
            else:
                assert not isinstance(effect, Deliver), "a delivery to a session that is gone"
        for session, client in self.model.clients.items():
            assert tidy(heard[session]) == tidy(client.heard), client.name
            client.heard.clear()
        self.check_facts()
        self.check_state()

    def check_facts(self) -> None:
        """Order, and nothing after its confirm, by the shard's own account."""
        for fact in self.desk.facts:
            match fact:
                case f.Accepted(queue=queue, message=message):
                    self.sent[queue].append(message)
                case f.Delivered(queue=queue, message=message):
                    assert (queue, message) not in self.confirmed, "delivered after its confirm"
                    if message not in self.first[queue]:
                        self.first[queue].append(message)
                case f.Confirmed(queue=queue, message=message):
                    assert (queue, message) not in self.confirmed, "confirmed twice"
                    self.confirmed.add((queue, message))
                    if message not in self.first[queue]:  # pushed and confirmed in one turn
                        self.first[queue].append(message)
        for queue, messages in self.first.items():
            assert messages == self.sent[queue][: len(messages)], "not in the order of sending"
        self.desk.facts.clear()

    def check_state(self) -> None:
        """At most one subscriber, the store as the model, every tally as a recount."""
        model, desk = self.model, self.desk
        assert set(desk.shard.exclusive.holders.subscribers) == set(model.subscriber)
        for queue, book in model.queues.items():
            assert desk.stored(queue) == [message.decode() for message in book.messages]
            assert desk.associated(queue) == book.service
            subscriber = model.subscriber.get(queue)
            assert desk.subscriber(queue) == ([] if subscriber is None else [subscriber])
        for service in (S, T):
            subscriber = model.service_subscriber.get(service)
            assert desk.service_subscriber(service) == ([] if subscriber is None else [subscriber])
            members = Tally.of(model.members(service))
            assert desk.tally(service) == desk.recount(service) == members
        for session in model.clients:
            assert desk.share(session) == model.count(session)
        assert desk.total() == sum(model.count(session).count for session in model.clients)


def tidy(lines: list[str]) -> list[str]:
    """What the rules leave open does not count: where receipts stand among the deliveries, and
    in which order pushes of different queues follow one another."""
    tidied: list[str] = []
    pushes: list[str] = []
    for line in lines:
        if line.startswith("* MSG"):
            pushes.append(line)
        elif not line.startswith("RECEIPT"):
            tidied += [*sorted(pushes), line]
            pushes = []
    receipts = [line for line in lines if line.startswith("RECEIPT")]
    return [*tidied, *sorted(pushes), *receipts]


CACHES = (QueueCache, BodyCache, Statistics, NumberSequence)
MEMORIES = {
    "roomy": Limits(),
    "tiny": Limits(heads=1, heads_bytes=1, backlogs=1, sweep_queues=1),
    "small": Limits(heads=2, backlogs=2, sweep_queues=2),
}


@pytest.mark.parametrize("failures", [False, True], ids=["sound store", "failing store"])
@pytest.mark.parametrize("limits", MEMORIES.values(), ids=MEMORIES.keys())
def test_any_history_of_plain_queues_is_that_of_the_model(limits: Limits, failures: bool) -> None:
    """S000-1, S000-8, S000-17, S000-28, S004-42, S004-43, S004-53, SMP-1, SMP-2, SMP-4..SMP-8,
    SMP-10, SMP-11, SMP-13, SMP-14, SMP-17..SMP-20: batches do what the commands would do one by
    one."""
    for seed in range(5 if failures else 20):
        try:
            History(seed, limits, services=False, failures=failures).run(40)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("failures", [False, True], ids=["sound store", "failing store"])
@pytest.mark.parametrize("limits", MEMORIES.values(), ids=MEMORIES.keys())
def test_any_history_with_services_is_that_of_the_model(limits: Limits, failures: bool) -> None:
    """S001-27, S001-34, S001-40, S001-44, S001-45, S004-13, SMP-24..SMP-32, SMP-34, SMP-35: also
    who is the subscriber of a service; and every tally equals a recount at any moment."""
    for seed in range(5 if failures else 20):
        try:
            History(seed, limits, services=True, failures=failures).run(40)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
