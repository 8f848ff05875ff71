"""A shard: durable queues and their turns.

A shard takes one turn at a time. A turn is a batch of commands: it loads what is not in memory,
decides everything in memory as if the commands came one by one, applies all changes in one
transaction, and only then sends its effects. Commands that arrive meanwhile are the next turn, so a
slow store makes larger batches, not longer queues of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from headgate.core.commands import (
    Amend,
    Close,
    Command,
    Configure,
    Confirm,
    CountDomain,
    Create,
    Delete,
    Disconnect,
    Drained,
    Expire,
    ExpireUnopened,
    ForgetSink,
    Get,
    GiveBack,
    Identify,
    Inspect,
    Land,
    Look,
    LookAgain,
    Notify,
    Open,
    Prune,
    Purge,
    Reconfigure,
    RememberBatch,
    RemoveUnused,
    Request,
    Sealed,
    Send,
    Subscribe,
    SubscribeService,
    Sweep,
    Tick,
    Watch,
)
from headgate.core.delivery.sessions import Sessions
from headgate.core.effects import Deliver, Effect, Failed
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.queue_cache import QueueCache
from headgate.core.exclusive.queues import ExclusiveQueues
from headgate.core.facts import Fact, QueueDamaged, TurnFailed
from headgate.core.load_plan import LoadPlan
from headgate.core.model.domain import Domain
from headgate.core.model.ids import Seq
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.reader_commands import (
    Acknowledge,
    Add,
    Browse,
    DropGroup,
    DropReader,
    Feed,
    ListPending,
    MakeGroup,
    MakeQueue,
    MakeReader,
    MoveGroup,
    Pull,
    Range,
    RemoveMessages,
    Survey,
    TakeOver,
    Trim,
    Withdraw,
)
from headgate.core.shared.queues import SharedQueues
from headgate.core.shared.statistics import Statistics
from headgate.core.turn.outbox import FactTuple, Outbox
from headgate.core.turn.sequence import NumberSequence
from headgate.core.turn.session_state import SessionStates
from headgate.core.turn.slices import parts
from headgate.core.turn.store_requests import (
    BREATH,
    Breath,
    Load,
    Loaded,
    Parts,
    Step,
    TurnOutcome,
)
from headgate.core.turn.turn import BREATH_WORK, COMMAND_WORK, Turn
from headgate.errors import HeadgateError, QueueExists, StoreError


class Shard:
    """All queues, durable or not, and the turn that changes them.

    The broker owns it; the server's driver, a test or the simulator runs the generator that `turn`
    returns. A turn changes memory exactly as its batch changes the store, or not at all.
    """

    def __init__(
        self,
        sessions: Sessions,
        domains: Mapping[str, Domain],
        limits: Limits,
        last: Seq,
        last_fact: int = 0,
        *,
        journal: bool = False,
    ) -> None:
        self.limits = limits
        self.domains = dict(domains)
        self.session_states = SessionStates(sessions)
        self.cache = QueueCache(limits)
        numbers = NumberSequence(last)
        self.exclusive = ExclusiveQueues(
            ExclusiveContext(self.domains, limits, self.session_states, self.cache, numbers)
        )
        self.shared = SharedQueues(self.domains, self.session_states, numbers, limits)
        self._shared_queues = self.shared.queues
        self.statistics = Statistics()
        self.journal = journal
        """Whether facts go to the outbox."""
        self.outbox = Outbox(last_fact, limits, self.cache.name_of, self.shared.queues)
        exclusive, shared = self.exclusive, self.shared
        self._handlers: dict[type[Any], Callable[[Any, Turn], Parts | Iterator[None] | None]] = {
            Create: self._create,
            Delete: exclusive.creating.delete,
            Subscribe: exclusive.subscribing.subscribe,
            Get: exclusive.subscribing.get,
            Send: self._send,
            Confirm: self._confirm,
            Amend: exclusive.amending.amend,
            Inspect: exclusive.amending.inspect,
            Watch: exclusive.notifiers.watch,
            Notify: exclusive.notifiers.notify,
            Identify: exclusive.services.identify,
            SubscribeService: exclusive.subscribe_service,
            Sweep: exclusive.sweeping.sweep,
            Open: shared.opening.open,
            Configure: shared.opening.configure,
            Close: shared.opening.close,
            Land: shared.sinks.land,
            RememberBatch: shared.sinks.remember,
            ForgetSink: shared.sinks.forget,
            Purge: shared.purging.purge,
            Reconfigure: shared.reconfiguring.reconfigure,
            Drained: self._drained,
            Look: shared.opening.look_on,
            LookAgain: shared.opening.look_again,
            GiveBack: shared.returning.give_back,
            Prune: shared.prune,
            Disconnect: self._disconnect,
            Sealed: self._sealed,
            Expire: self._expire_last,
            ExpireUnopened: shared.expiry.expire_unopened,
            CountDomain: shared.catalog.judge,
            RemoveUnused: shared.upkeep.remove_unused,
            Tick: self._tick,
            Add: shared.surveying.add,
            Feed: shared.feeding.feed,
            MakeQueue: shared.surveying.make_queue,
            Survey: shared.surveying.survey,
            ListPending: shared.surveying.list_pending,
            Pull: shared.pulling.pull,
            Withdraw: self._withdraw,
            Browse: shared.browsing.browse,
            Range: shared.browsing.range,
            Trim: shared.browsing.trim,
            MakeGroup: shared.open_groups.make,
            DropGroup: shared.open_groups.drop,
            MoveGroup: shared.open_groups.move,
            MakeReader: shared.pulling.make_reader,
            Acknowledge: shared.claiming.acknowledge,
            TakeOver: shared.claiming.claim,
            RemoveMessages: shared.claiming.remove,
            DropReader: shared.claiming.drop,
        }
        self._load_plan = LoadPlan(self.exclusive, self.shared)

    def turn(self, commands: Sequence[Command], now: float, sure: float | None = None) -> Step:
        """Carry out a batch of commands: all of it, or, if the store fails, none of it. `sure` is a
        time that has certainly passed, if that is not now."""
        limits = self.limits
        turn = Turn(
            now,
            now if sure is None else sure,
            self.outbox.is_full,
            looks=limits.turn_looks,
            expression_bytes=limits.turn_expression_bytes,
            expiries=limits.expiries,
            returns=limits.turn_returns,
        )
        try:
            load = self._load_plan.missing(commands, turn)
            if load:
                turn.loaded = _answer((yield load))
                self._adopt(turn)
            for command in commands:
                if turn.work >= BREATH_WORK and turn.take_breath():
                    yield BREATH
                turn.work += COMMAND_WORK
                # S000-8, S004-42, S004-43: one by one, each sees the changes of those before it.
                parts = self._handlers[type(command)](command, turn)
                if parts is not None:
                    yield from _carrying_out(parts)
            if turn.doomed:
                yield from _carrying_out(self.shared.dead_letters.burying(turn))
            for _ in self.shared.expiry.offering(turn):
                yield BREATH
            if self.shared.pulling.readers.served:
                self.shared.pulling.finish(turn)
            if self.shared.browsing.waiting:
                yield from _carrying_out(self.shared.browsing.waking(turn))
            if self.shared.feeding.waiting:
                self.shared.feeding.waking(turn)
            if turn.expires:
                self.exclusive.expire(turn)
            if turn.bodiless:
                bodies = _answer((yield Load(bodies={seq for _, seq in turn.bodiless})))
                self._fill_in(bodies, turn)
            turn.leave_out_needless()
            for _ in self._journal(commands, turn):
                yield BREATH
            if turn.batch:
                yield turn.batch
        except StoreError as error:
            self._take_back(turn)
            return self.failed(commands, error, now)
        except BaseException:
            self._take_back(turn)
            raise
        outcome = TurnOutcome(turn.effects, turn.facts, turn.again, turn.spoken)
        try:
            for _ in self._settle(turn):
                yield BREATH
        except Exception as mistake:
            # It is committed: reported as a failure, it would be carried out once more.
            outcome.mistake = mistake
        return outcome

    @staticmethod
    def failed(commands: Sequence[Command], error: HeadgateError, now: float) -> TurnOutcome:
        """The outcome of a failed turn: every request is answered with the error; commands without
        an answer are tried again, silent confirms too, since their senders rely on them."""
        effects: list[Effect] = []
        again: list[Command] = []
        for command in commands:
            is_silent = isinstance(command, Confirm) and command.ref is None
            if is_silent or not isinstance(command, Request):
                again.append(command)
            elif command.ref is not None:
                # S004-36: a failure of the store is the answer to each command of the turn.
                effects.append(Failed(command.session, command.ref, error))
        return TurnOutcome(effects, [TurnFailed(now, len(commands), str(error))], again)

    def record(self, facts: Sequence[Fact]) -> None:
        """Record facts from outside of a turn for the journal."""
        if self.journal:
            self.outbox.record(facts)

    def _adopt(self, turn: Turn) -> None:
        for queue, head in turn.loaded.heads.items():
            self.cache.adopt(head)
            turn.used[queue] = None
        for queue in turn.loaded.unreadable:
            turn.facts.append(QueueDamaged(turn.now, queue))
        self.shared.catalog.adopt(turn.loaded, turn)

    # Commands for more than one part.

    def _create(self, command: Create, turn: Turn) -> None:
        if command.queue in self.shared.queues:
            error = QueueExists(command.queue)
            turn.fail(command.session, command.ref, command.queue, error)
        else:
            self.exclusive.creating.create(command, turn)

    def _send(self, command: Send, turn: Turn) -> None:
        # Whoever has something to prove is a stranger to shared queues, and may have guessed the
        # name of one.
        if command.proof is None and command.queue in self._shared_queues:
            self.shared.accepting.send(command, turn)
        else:
            self.exclusive.sending.send(command, turn)

    def _confirm(self, command: Confirm, turn: Turn) -> Iterator[None] | None:
        if command.proof is None and command.queue in self._shared_queues:
            return self.shared.releasing.confirm(command, turn)
        self.exclusive.confirming.confirm(command, turn)
        return None

    def _expire_last(self, command: Expire, turn: Turn) -> None:
        """Expire after all else: later commands of the turn need the messages that were loaded for
        them."""
        turn.expires = True

    def _drained(self, command: Drained, turn: Turn) -> None:
        state = self.session_states.find(command.session)
        if state is None or not self.session_states.sessions.has_room(command.session):
            return
        self.exclusive.drained(command.session, state, turn)
        self.shared.opening.drained(command.session, state, turn)
        self.shared.pulling.drained(command.session, turn)

    def _withdraw(self, command: Withdraw, turn: Turn) -> None:
        self.shared.pulling.withdraw(command, turn)
        self.shared.browsing.withdraw(command, turn)
        self.shared.feeding.withdraw(command, turn)

    def _disconnect(self, command: Disconnect, turn: Turn) -> Iterator[None]:
        state = self.session_states.kept(command.session)
        if state is None:
            return
        yield from self.exclusive.disconnect(command.session, state, turn)
        self.shared.pulling.disconnect(command.session, turn)
        self.shared.browsing.disconnect(command.session, turn)
        self.shared.feeding.disconnect(command.session, turn)
        if state.lost is None:
            turn.undo.assign(state, "lost", command.lost)
        # Last: until its consumers are gone, its state holds their gates shut.
        if (yield from self.shared.opening.disconnect(command.session, state, turn)):
            self.session_states.leave(command.session, turn.undo)
            turn.gated.add(command.session)
        else:
            turn.again.append(command)

    def _tick(self, command: Tick, turn: Turn) -> Iterator[None]:
        return self.shared.tick(turn)

    def _sealed(self, command: Sealed, turn: Turn) -> None:
        turn.batch.sealed = command.last

    # The end of a turn.

    def _journal(self, commands: Sequence[Command], turn: Turn) -> Iterator[None]:
        """Store the facts of a turn with its changes. Without changes they wait for a turn with
        some, or for the next tick: a subscribe alone is not worth a transaction."""
        if not self.journal:
            return
        if turn.batch or any(type(command) is Tick for command in commands):
            tuples: list[FactTuple] = []
            for part in parts(turn.facts):
                if tuples:
                    yield
                tuples += self.outbox.tuples(part)
            turn.batch.outbox = self.outbox.row(tuples)

    def _fill_in(self, loaded: Loaded, turn: Turn) -> None:
        for place, seq in turn.bodiless:
            delivery = turn.effects[place]
            assert isinstance(delivery, Deliver), "only deliveries lack a body"
            body = loaded.bodies.get(seq)
            if body is None:
                raise StoreError(f"message {seq} is not in the store")
            empty = delivery.message
            message = Message(empty.id, body, empty.arrived, empty.properties)
            turn.effects[place] = replace(delivery, message=message)
            self.shared.bodies.keep(seq, body)

    def _take_back(self, turn: Turn) -> None:
        self.shared.abandon()
        turn.undo.take_back()

    def _settle(self, turn: Turn) -> Iterator[None]:
        """The turn has happened: keep the caches true and within their bounds."""
        self.shared.settle(turn)
        self.session_states.settle(turn.gated)
        if turn.batch.outbox is not None:
            self.outbox.committed(turn.batch.outbox)
        elif self.journal:
            for number, part in enumerate(parts(turn.facts)):
                if number:
                    yield
                self.outbox.record(part)
        if turn.batch.sealed is not None:
            self.outbox.sealed(turn.batch.sealed)
        self.cache.settle(turn.used)
        for number, part in enumerate(parts(turn.facts)):
            if number:
                yield
            self.statistics.observe(part)
        yield from turn.undo.forget()


def _carrying_out(parts: Parts | Iterator[None]) -> Generator[Load | Breath, Loaded | None, None]:
    """Carry out a command in parts; it may ask the store for missing data."""
    answer: Loaded | None = None
    with suppress(StopIteration):
        while True:
            # Only requests get an answer.
            asked = next(parts) if answer is None else cast(Parts, parts).send(answer)
            answer = None
            if asked is None:
                yield BREATH
            else:
                answer = _answer((yield asked))


def _answer(loaded: Loaded | None) -> Loaded:
    assert loaded is not None, "a Load is answered with what was loaded"
    return loaded
