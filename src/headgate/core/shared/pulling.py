"""Pulls: a reader gets messages when it asks for some, and only then.

The gate of a reader is held shut. A pull opens it for so many messages, has its apps looked at, and
ends when any was given, or at once if it does not wait. A waiting pull ends with the turn that
gives it a message. Timeouts and other clients end it by a command, so a turn decides which came
first, and no message is lost in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.core.facts import Confirmed, Interested
from headgate.core.model.ids import Seq, SessionId
from headgate.core.model.interest import Interest
from headgate.core.model.limits import Limits
from headgate.core.model.stream_id import StreamId, id_of
from headgate.core.reader_commands import MakeReader, Pull, TakeOver, Want, Withdraw
from headgate.core.reader_effects import Counted, Pulled
from headgate.core.shared.app import App
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.dispatch import Subscription
from headgate.core.shared.expiry import Expiry
from headgate.core.shared.handing_over import HandingOver
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.read_share import share_of
from headgate.core.shared.reader import EVERYTHING, OpenPull, Reader, Readers
from headgate.core.shared.releasing import Releasing
from headgate.core.shared.subscriptions import SubscriptionCompiler
from headgate.core.turn.turn import Turn
from headgate.errors import AppGone, HeadgateError, LimitReached, Prohibited
from headgate.expr.predicate import Predicate

LEAVE_WORK = 2
"""Work of forgetting a reader, in looks."""

HELD_PER_LOOK = 10
"""Messages that somebody holds whose time is looked at, for a look."""


class Pulling:
    """Carries out `Pull` and `Withdraw`, and makes readers for other commands.

    A session whose pull waits has no other request. After a turn, no pull that was given a message
    still waits.
    """

    def __init__(
        self,
        context: SharedContext,
        readers: Readers,
        delivery: SharedDelivery,
        catalog: Catalog,
        expiry: Expiry,
        releasing: Releasing,
        handing: HandingOver,
    ) -> None:
        self._context = context
        self._handing = handing
        self.readers = readers
        self._delivery = delivery
        self._catalog = catalog
        self._expiry = expiry
        self._releasing = releasing
        self._compiler = SubscriptionCompiler(context.limits)

    @property
    def limits(self) -> Limits:
        return self._context.limits

    def pull(self, command: Pull, turn: Turn) -> Iterator[None]:
        session = command.session
        if turn.sent_bytes > self._context.limits.range_bytes:
            turn.again.append(command)
            return
        share = share_of(self._context.limits, len(command.wants))
        if self._context.session_states.take(session, turn.undo) is None:
            return
        try:
            if session in self.readers.pulls:
                raise Prohibited("the session waits for messages already")
            known = [self._check(want, command, turn) for want in command.wants]
            predicate = self.predicate(command, known, turn)
            if predicate is None:
                turn.again.append(command)
                return
            # All readers before any message is given: an error must leave nothing pending.
            readers = [
                reader or self._reader(want, command, turn)
                for want, reader in zip(command.wants, known, strict=True)
            ]
            # Earlier messages go to the pulls that waited before.
            if self._delivery.is_due:
                yield from self._expiry.offering_now(turn)
            count = min(command.count or share.messages, share.messages)
            pull = OpenPull(
                session,
                command.ref,
                count,
                share.bytes,
                confirms=command.confirms,
                claims=command.claims,
            )
            for want, reader in zip(command.wants, readers, strict=True):
                yield from self._pulling(want, reader, command, predicate[0], pull, turn)
        except HeadgateError as error:
            turn.fail(session, command.ref, command.wants[0].queue, error)
            return
        yield from self._expiry.offering_now(turn)
        asks_again = any(want.after is not None for want in command.wants)
        if pull.given or asks_again or not command.waits:
            is_cut_off = turn.looks <= 0 and not pull.given and not asks_again
            self._end(pull, turn)
            if is_cut_off:
                turn.again.append(command)  # the messages in line were not looked at
            else:
                turn.effects.append(Pulled(session, command.ref, pull.past))
        else:
            turn.undo.put(self.readers.pulls, session, pull)

    def predicate(
        self, command: Pull | TakeOver, readers: Iterable[Reader | None], turn: Turn
    ) -> tuple[Predicate | None] | None:
        """The predicate of the reader's expression, if it has one, in a tuple; None alone if the
        turn has no room to compile it. Raise if it is wrong. `readers` are those of its name that
        are there already: every pull brings its expression, and compiling one costs as much as a
        dozen messages."""
        text = command.interest.expression
        if text is None:
            return (None,)
        for reader in readers:
            if reader is not None and reader.subscription.text == text:
                return (reader.subscription.predicate,)
        found = command.compiled.get(text)
        if found is None:
            if turn.expression_bytes <= 0:
                return None
            found = command.compiled[text] = self._compiler.compile(text, turn)
        return (found,)

    def withdraw(self, command: Withdraw, turn: Turn) -> None:
        pull = self.readers.pulls.get(command.session)
        if pull is None or pull.ref != command.ref or pull.given:
            return  # it has ended, or will with this turn
        turn.undo.pop(self.readers.pulls, command.session)
        self._end(pull, turn)
        turn.effects.append(Pulled(command.session, command.ref))

    def tick(self, turn: Turn) -> None:
        """Give those who wait and claim what readers have held for long enough by now."""
        for pull in list(self.readers.pulls.values()):
            if pull.claims is None:
                continue
            for reader in pull.readers:
                if reader.pull is pull:
                    for _ in self._claiming(reader, pull, pull.claims, turn):
                        pass

    def finish(self, turn: Turn) -> None:
        """End the waiting pulls that were given messages."""
        served, self.readers.served = self.readers.served, {}
        for session, pull in served.items():
            if turn.undo.pop(self.readers.pulls, session) is not None:
                self._end(pull, turn)
                turn.effects.append(Pulled(session, pull.ref, pull.past))
        self._delivery.put_off(turn)

    def disconnect(self, session: SessionId, turn: Turn) -> None:
        """Withdraw the pulls of a session that is gone. Its readers keep what they hold for a
        while."""
        pull = turn.undo.pop(self.readers.pulls, session)
        if pull is not None:
            self._end(pull, turn)
        if session in self.readers.by_session:
            self.readers.leave(session, turn.now, turn.undo)

    def drained(self, session: SessionId, turn: Turn) -> None:
        """Note that the session has room for an answer again."""
        pull = self.readers.pulls.get(session)
        for reader in pull.readers if pull is not None else ():
            if reader.pull is pull:
                self._delivery.hold_reader(reader, held=False, turn=turn)

    def make_reader(self, command: MakeReader, turn: Turn) -> None:
        try:
            queue, app = self.find(command, command.client, turn)
            before = self.readers.find(queue.id, app.id, command.reader)
            if before is None:
                self.ensure(command.reader, queue, app, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        turn.effects.append(Counted(command.session, command.ref, int(before is None)))

    # Calls of other parts.

    def find(self, named: Want | MakeReader, client: str, turn: Turn) -> tuple[SharedQueue, App]:
        """An app to read, whose queue is made if needed; raise if it may not be read."""
        domain = self._catalog.of_reader(named, client, "read")
        self._catalog.check_app(named, domain, turn)
        queue = self._catalog.find_or_make(named, client, turn)
        return queue, queue.apps[named.app]

    def ensure(self, name: bytes, queue: SharedQueue, app: App, turn: Turn) -> Reader:
        """The reader of a name, made if it is new."""
        reader = self.readers.find(queue.id, app.id, name)
        if reader is None:
            most = self._context.limits.readers_per_app
            if len(self.readers.of_app(queue.id, app.id)) >= most:
                raise LimitReached("readers_per_app", most)
            most = self._context.limits.readers
            if len(self.readers.by_number) >= most:
                raise LimitReached("readers", most)
            reader = self.readers.make(name, queue, app, turn)
            self._use(queue, 1, turn)
        return reader

    def ungroup(self, reader: Reader, turn: Turn) -> Iterator[None]:
        """Stop seeking this reader for messages. It keeps what it holds."""
        if reader.is_grouped:
            yield from self._expiry.offering_now(turn)
            yield from reader.app.subscribing(reader.number, None, (), turn.undo)
            turn.undo.assign(reader, "is_grouped", False)
            turn.undo.pop(self.readers.idle, reader.number)
            self._delivery.touch(reader.queue, reader.app)

    def forget(self, reader: Reader, turn: Turn) -> None:
        """Remove a reader that is in no group. Waiting pulls by its name get no messages."""
        for pull in list(reader.pulls):
            turn.undo.pop(self.readers.pulls, pull.session)
            self._end(pull, turn)
            turn.effects.append(Pulled(pull.session, pull.ref))
        self.readers.forget(reader, turn.undo)
        self._use(reader.queue, -1, turn)

    def leave_queue(self, queue: SharedQueue, turn: Turn) -> None:
        """End the reading of an empty queue that is removed."""
        for app in queue.apps.values():
            for _ in self.leaving_app(queue, app, turn):
                pass

    def leaving_app(self, queue: SharedQueue, app: App, turn: Turn) -> Iterator[None]:
        """Remove the readers of an app that is gone. Waiting pulls are refused; no reader holds its
        messages any more."""
        for reader in list(self.readers.of_app(queue.id, app.id).values()):
            turn.work += LEAVE_WORK
            if turn.take_breath():
                yield
            yield from self.ungroup(reader, turn)
            for pull in list(reader.pulls):
                turn.undo.pop(self.readers.pulls, pull.session)
                self._end(pull, turn)
                turn.fail(pull.session, pull.ref, queue.id, AppGone(app.id, queue.id))
            self.forget(reader, turn)

    # Inside.

    def _check(self, want: Want, command: Pull, turn: Turn) -> Reader | None:
        """The reader of a pull, if it is there; raise before any is made."""
        domain = self._catalog.of_reader(want, command.client, "read")
        self._catalog.check_app(want, domain, turn)
        queue = self._catalog.find(want, turn)
        app = queue.apps.get(want.app) if queue is not None else None
        reader = self.readers.find(want.queue, want.app, command.reader)
        if app is not None and reader is None:
            self._compiler.check(app, SessionId(0), (command.interest,))
        return reader

    def _reader(self, want: Want, command: Pull, turn: Turn) -> Reader:
        queue, app = self.find(want, command.client, turn)
        return self.ensure(command.reader, queue, app, turn)

    def _pulling(
        self,
        want: Want,
        reader: Reader,
        command: Pull,
        predicate: Predicate | None,
        pull: OpenPull,
        turn: Turn,
    ) -> Iterator[None]:
        """Let a reader get its messages of one queue."""
        undo = turn.undo
        self.readers.speak(command.session, reader, undo)
        undo.assign(reader, "pulled", turn.now)
        group = reader.queue.joined.get(reader.app.id)
        if group is not None and turn.now - group.used > 1.0:
            undo.assign(group, "used", turn.now)
        if want.after is not None:
            yield from self._repeat_held(reader, want.after, pull, turn)
            return
        if not (reader.is_grouped and _is_same(command.interest, reader.interest)):
            yield from self._grouping(reader, command.interest, predicate, turn)
        if pull not in reader.pulls:
            pull.readers.append(reader)
            reader.pulls.append(pull)
            undo.note(reader.pulls.remove, pull)
        undo.pop(self.readers.idle, reader.number)
        if reader.pull is pull:
            self._open(reader, pull, turn)
            if pull.claims is not None:
                yield from self._claiming(reader, pull, pull.claims, turn)

    def _claiming(
        self, reader: Reader, pull: OpenPull, seconds: float, turn: Turn
    ) -> Iterator[None]:
        """Have a reader given what readers have held for so long, by a pull that claims: first what
        was given first. A message that a session of another wire holds is not taken from it."""
        queue, app, predicate = reader.queue, reader.app, reader.subscription.predicate
        turn.work += len(app.outstanding) // HELD_PER_LOOK
        for at, seq in _held_since(app, turn.now - seconds):
            if reader.left <= 0 or reader.bytes_left <= 0:
                self._delivery.hold_reader(reader, held=True, turn=turn)
                return
            turn.work += 1
            if turn.take_breath():
                yield
            entry = queue.entries[seq]
            if predicate is not None and not predicate.matches(entry.properties):
                continue
            if self._handing.hand_over(reader, entry, turn.now, turn):
                app.redelivery.count(seq, turn.undo)
                self.readers.give(reader, entry, turn.undo, turn.now - at)
                self._delivery.show(queue, app, entry, pull.session, pull.ref, turn)

    def _open(self, reader: Reader, pull: OpenPull, turn: Turn) -> None:
        """Open the gate of a reader for a pull."""
        turn.undo.assign(reader, "left", pull.count)
        turn.undo.assign(reader, "bytes_left", pull.bytes)
        self._delivery.hold_reader(reader, held=False, turn=turn)

    def _grouping(
        self, reader: Reader, interest: Interest, predicate: Predicate | None, turn: Turn
    ) -> Iterator[None]:
        """Add the reader to the group of its present expression, to be sought for messages."""
        undo, before = turn.undo, reader.interest
        wanted = Interest(interest.expression, interest.priority, EVERYTHING)
        subscription = reader.subscription
        if interest.expression != before.expression:
            subscription = Subscription(reader.number, 0, predicate, interest.priority, reader.gate)
        yield from self._expiry.offering_now(turn)
        app = reader.app
        yield from app.subscribing(reader.number, (subscription,), (wanted,), undo)
        undo.assign(reader, "subscription", subscription)
        undo.assign(reader, "interest", wanted)
        undo.assign(reader, "is_grouped", True)
        self._delivery.touch(reader.queue, app)
        turn.facts.append(
            Interested(
                turn.now,
                reader.queue.id,
                app.id,
                reader.number,
                0,
                1,
                interest.expression,
                interest.priority,
            )
        )

    def _repeat_held(
        self, reader: Reader, after: StreamId, pull: OpenPull, turn: Turn
    ) -> Iterator[None]:
        """Show the messages that a reader holds once more, from the oldest. It counts as a
        delivery."""
        queue, app, undo = reader.queue, reader.app, turn.undo
        count, room = pull.count, pull.bytes
        for seq in reader.held:
            turn.work += 1
            if turn.take_breath():
                yield
            entry = queue.entries[seq]
            if id_of(entry) <= after:
                continue
            if count <= 0 or room <= 0:
                break
            count -= 1
            room -= entry.size
            undo.put(reader.gate.outstanding, seq, (entry.size, turn.now))
            app.redelivery.count(seq, undo)
            self._delivery.show(queue, app, entry, pull.session, pull.ref, turn)

    def _end(self, pull: OpenPull, turn: Turn) -> None:
        """Shut the gates again, and confirm the given messages if that was asked for."""
        undo = turn.undo
        for reader in pull.readers:
            place = reader.pulls.index(pull)
            del reader.pulls[place]
            undo.note(reader.pulls.insert, place, pull)
            if place:
                continue  # earlier pulls by the same name
            self._delivery.hold_reader(reader, held=True, turn=turn)
            undo.assign(reader, "left", 0)
            if reader.pull is not None:
                self._open(reader, reader.pull, turn)
            elif reader.is_grouped:
                undo.put(self.readers.idle, reader.number, turn.now)
        for reader, seq in pull.gave:
            queue, app = reader.queue, reader.app
            entry = queue.entries.get(seq)
            if entry is None or app.outstanding.get(seq) is None:
                continue
            self._delivery.take_back(queue, app, seq, turn)
            age = turn.now - entry.arrived
            fact = Confirmed(turn.now, queue.id, app.id, entry.id, reader.number, 0.0, age)
            turn.facts.append(fact)
            self._releasing.dereference(queue, entry, app, turn)

    def _use(self, queue: SharedQueue, readers: int, turn: Turn) -> None:
        """Note that a queue with readers is in use."""
        turn.undo.assign(queue, "opens", queue.opens + readers)
        turn.undo.assign(queue, "used", turn.now)
        if not queue.opens:
            self._context.chores.put(turn.now + queue.domain.queue_ttl, (queue.id, Chore.UNUSED))


def _is_same(one: Interest, other: Interest) -> bool:
    """Whether a change from one to the other changes nothing: expressions are compared as text."""
    return one.expression == other.expression and one.priority == other.priority


def _held_since(app: App, until: float) -> list[tuple[float, Seq]]:
    """Messages that readers have held since then or longer, the longest first."""
    held = (
        (s.gate.outstanding[seq][1], seq) for seq, s in app.outstanding.items() if s.session < 0
    )
    return sorted((at, seq) for at, seq in held if at <= until)
