"""A shard: durable queues and their turns.

A shard takes one turn at a time. A turn is a batch of commands: it loads what is not in
memory, decides everything in memory as if the commands came one by one, applies all changes
in one transaction, and only then lets anybody know. Whatever arrives meanwhile is the next
turn, so a slow store makes larger batches, not longer queues of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.core.admission import Admission, Guarded, address_of
from headgate.core.amending import Amending
from headgate.core.backlogs import Backlog, Backlogs
from headgate.core.commands import (
    Amend,
    Close,
    Command,
    Configure,
    Confirm,
    Create,
    Delete,
    Disconnect,
    Drained,
    Expire,
    ForgetSink,
    Get,
    Identify,
    Inspect,
    Land,
    Look,
    Notify,
    Open,
    Reconfigure,
    RememberBatch,
    Request,
    Sealed,
    Send,
    Subscribe,
    SubscribeService,
    Sweep,
    Tick,
    Watch,
)
from headgate.core.domain import Domain, Mode
from headgate.core.effects import Damaged, Deliver, Effect, Failed, SweepDone
from headgate.core.facts import Fact, QueueDamaged, SweepEnded, TurnFailed
from headgate.core.limits import Limits
from headgate.core.message import Message
from headgate.core.names import QueueId, Seq
from headgate.core.numbers import Numbers
from headgate.core.outbox import Outbox
from headgate.core.parties import Address, Party, SetLink
from headgate.core.posting import Posting
from headgate.core.queues import Queues
from headgate.core.seats import Seat, Seats
from headgate.core.services import Services
from headgate.core.sessions import Sessions
from headgate.core.sharing import Sharing
from headgate.core.sinks import Sinks
from headgate.core.statistics import Statistics
from headgate.core.steps import Aged, Load, Loaded, Outcome, Page, Step
from headgate.core.turn import Turn
from headgate.core.watching import Watchers
from headgate.errors import HeadgateError, QueueExists, StoreError


class Shard:
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
        self.seats = Seats(sessions)
        self.backlogs = Backlogs(limits)
        self.services = Services(self.seats)
        numbers = Numbers(last)
        admission = Admission(self.domains, self.backlogs)
        self.watchers = Watchers(admission, self.seats, self.services, self.backlogs, limits)
        self.queues = Queues(
            self.domains,
            admission,
            self.seats,
            self.services,
            self.watchers,
            self.backlogs,
            limits,
        )
        self.posting = Posting(
            self.domains, admission, self.queues, self.watchers, self.backlogs, numbers, limits
        )
        self.amending = Amending(admission, self.seats, self.queues, self.watchers, self.backlogs)
        self.sharing = Sharing(self.domains, self.seats, numbers, limits)
        self.sinks = Sinks(self.sharing, limits)
        self.statistics = Statistics()
        self.journal = journal
        """Whether facts go to the outbox."""
        self.outbox = Outbox(last_fact, limits, self.backlogs.name_of, self.sharing.queues)
        self._handlers: dict[type[Any], Callable[[Any, Turn], None]] = {
            Create: self._create,
            Delete: self.queues.delete,
            Subscribe: self.queues.subscribe,
            Get: self.queues.get,
            Send: self._send,
            Confirm: self._confirm,
            Amend: self.amending.amend,
            Inspect: self.amending.inspect,
            Watch: self.watchers.watch,
            Notify: self.watchers.notify,
            Identify: self.services.identify,
            SubscribeService: self._subscribe_service,
            Sweep: self._sweep,
            Open: self.sharing.open,
            Configure: self.sharing.configure,
            Close: self.sharing.close,
            Land: self.sinks.land,
            RememberBatch: self.sinks.remember,
            ForgetSink: self.sinks.forget,
            Reconfigure: self.sharing.reconfigure,
            Drained: self._drained,
            Look: self.sharing.look_on,
            Disconnect: self._disconnect,
            Sealed: self._sealed,
            Expire: self._expire_last,
            Tick: self._tick,
        }
        self._needs: dict[type[Any], Callable[[Any, Load], None]] = {
            Create: self._need_ids,
            Delete: self._need_record,
            Send: self._need_sent_to,
            Amend: self._need_amended,
            Watch: self._need_record,
            Inspect: self._need_head,
            Subscribe: self._need_head,
            Get: self._need_head,
            Confirm: self._need_next,
            Identify: self._need_identity,
            SubscribeService: self._need_tally,
            Sweep: self._need_page,
            Open: self.sharing.missing,
            Land: self.sharing.missing,
            Drained: self._need_waiting,
        }

    def turn(self, commands: Sequence[Command], now: float) -> Step:
        """Carry out a batch of commands: all of it, or, if the store fails, none of it."""
        turn = Turn(now, self.outbox.is_full, looks=self.limits.turn_looks)
        try:
            load = self._missing(commands, turn)
            if load:
                turn.loaded = _answer((yield load))
                self._adopt(turn)
            for command in commands:
                self._handlers[type(command)](command, turn)
            self.sharing.offer(turn)
            if turn.expires:
                self._expire(turn)
            if turn.bodiless:
                bodies = _answer((yield Load(bodies={seq for _, seq in turn.bodiless})))
                self._fill_in(bodies, turn)
            self._journal(commands, turn)
            if turn.batch:
                yield turn.batch
        except StoreError as error:
            self._take_back(turn)
            return self.failed(commands, error, now)
        except BaseException:
            self._take_back(turn)
            raise
        self._settle(commands, turn)
        return Outcome(turn.effects, turn.facts, turn.again)

    @staticmethod
    def failed(commands: Sequence[Command], error: HeadgateError, now: float) -> Outcome:
        """The outcome of a turn that did not happen: every request is answered with the
        error, and what nobody waits for is tried again, silent confirms too: whoever sent one
        counts on it."""
        effects: list[Effect] = []
        again: list[Command] = []
        for command in commands:
            is_silent = isinstance(command, Confirm) and command.ref is None
            if is_silent or not isinstance(command, Request):
                again.append(command)
            elif command.ref is not None:
                effects.append(Failed(command.session, command.ref, error))
        return Outcome(effects, [TurnFailed(now, len(commands), str(error))], again)

    def tell(self, facts: Sequence[Fact]) -> None:
        """Facts from outside of a turn, for the journal."""
        if self.journal:
            self.outbox.tell(facts)

    # What the turn needs to know first.

    def _missing(self, commands: Sequence[Command], turn: Turn) -> Load:
        load = Load()
        for command in commands:
            need = self._needs.get(type(command))
            if need is not None:
                need(command, load)
            elif type(command) is Expire:
                self._need_aged(command, load, turn.now)
        turn.needs = load.heads
        load.heads = {q: n for q, n in load.heads.items() if self.backlogs.lacks(q, n)}
        load.addresses = {
            address: n for address, n in load.addresses.items() if not self.backlogs.owner(address)
        }
        return load

    def _need_record(self, command: Delete | Send | Amend | Watch, load: Load) -> None:
        address = address_of(command)
        if address.party is not Party.RECIPIENT:
            load.addresses[address] = 0
        elif address.id not in self.sharing.queues:
            load.heads.setdefault(QueueId(address.id), 0)

    def _need_sent_to(self, command: Send, load: Load) -> None:
        """Of a shared queue that somebody has open everything is known."""
        if command.via is not None or command.queue not in self.sharing.queues:
            self._need_record(command, load)

    def _need_ids(self, command: Create, load: Load) -> None:
        """Whether the ids of a new queue are taken."""
        if command.queue not in self.sharing.queues:
            load.heads.setdefault(command.queue, 0)
            if command.parties is not None:
                load.addresses.update(dict.fromkeys(command.parties.addresses(), 0))

    def _need_amended(self, command: Amend, load: Load) -> None:
        self._need_record(command, load)
        if isinstance(command.change, SetLink):
            load.addresses[Address(Party.LINK, command.change.link.id)] = 0

    def _need_identity(self, command: Identify, load: Load) -> None:
        load.identities.add(command.fingerprint)

    def _need_aged(self, command: Expire, load: Load, now: float) -> None:
        """Of several expiries the one that has come least far does for all."""
        lives = [
            domain.message_ttl
            for domain in self.domains.values()
            if domain.mode is Mode.EXCLUSIVE and domain.message_ttl is not None
        ]
        if lives and (load.aged is None or command.after < load.aged.after):
            load.aged = Aged(command.after, now - min(lives), self.limits.expiries)

    def _need_head(self, command: Subscribe | Get | Inspect, load: Load) -> None:
        load.heads[command.queue] = max(load.heads.get(command.queue, 0), 1)

    def _need_next(self, command: Confirm, load: Load) -> None:
        """One more than is confirmed: the answer to a confirm is the next head."""
        if command.queue not in self.sharing.queues:
            load.heads[command.queue] = max(load.heads.get(command.queue, 0), 1) + 1

    def _need_tally(self, command: SubscribeService, load: Load) -> None:
        load.services.add(command.service)

    def _need_page(self, command: Sweep, load: Load) -> None:
        if self.services.is_sweeping(command):
            load.pages.add(self._page(command))

    def _need_waiting(self, command: Drained, load: Load) -> None:
        seat = self.seats.find(command.session)
        for queue in seat.waiting if seat is not None else ():
            load.heads[queue] = max(load.heads.get(queue, 0), 1)

    def _adopt(self, turn: Turn) -> None:
        for head in turn.loaded.heads.values():
            self.backlogs.adopt(head)
        for queue in turn.loaded.unreadable:
            turn.facts.append(QueueDamaged(turn.now, queue))
        self.sharing.adopt(turn.loaded, turn)

    # Commands that concern more than one part.

    def _create(self, command: Create, turn: Turn) -> None:
        if command.queue in self.sharing.queues:
            error = QueueExists(command.queue)
            turn.fail(command.session, command.ref, command.queue, error)
        else:
            self.queues.create(command, turn)

    def _send(self, command: Send, turn: Turn) -> None:
        if self._is_shared(command):
            self.sharing.send(command, turn)
        else:
            self.posting.send(command, turn)

    def _confirm(self, command: Confirm, turn: Turn) -> None:
        if self._is_shared(command):
            self.sharing.confirm(command, turn)
        else:
            self.queues.confirm(command, turn)

    def _is_shared(self, command: Send | Confirm) -> bool:
        """Whoever has something to prove is a stranger to shared queues, and may have guessed
        the name of one."""
        return command.proof is None and command.queue in self.sharing.queues

    def _sweep(self, command: Sweep, turn: Turn) -> None:
        """One page of a service's queues. The rest is another turn, so that others get theirs
        in between; a sweep that was displaced meanwhile delivers nothing more."""
        session, service = command.session, command.service
        seat = self.seats.find(session)
        page = turn.loaded.pages.get(self._page(command))
        if seat is None or page is None or not self.services.is_sweeping(command):
            return
        for head in page.heads:
            # What this turn has changed already is in the backlogs.
            backlog = self.backlogs.find(head.record.queue) or Backlog(head)
            if backlog.messages and not backlog.first:
                # Only its record is here. Then nothing was confirmed in this turn, and what the
                # sweep read is still the first.
                backlog = Backlog(replace(head, record=backlog.record))
            if backlog.record.service == service and head.record.queue not in turn.batch.remove:
                self.queues.offer(session, seat, backlog, turn)
        self._note_damaged(seat, page.queues, turn)
        after = page.queues[-1] if page.queues else command.after
        rest = Sweep(session, service, after, command.tie)
        if seat.waiting:
            turn.undo.assign(seat, "sweep", rest)
        elif len(page.queues) == self.limits.sweep_queues:
            turn.again.append(rest)
        else:
            assert seat.tie is not None, "who sweeps has a service"
            turn.effects += [Damaged(session, queue) for queue in seat.tie.damaged]
            turn.effects.append(SweepDone(session, service))
            turn.facts.append(SweepEnded(turn.now, service, session))

    def _note_damaged(self, seat: Seat, queues: Sequence[QueueId], turn: Turn) -> None:
        """What cannot be read is told when everything else was delivered."""
        damaged = turn.loaded.unreadable.intersection(queues)
        if damaged:
            assert seat.tie is not None, "who sweeps has a service"
            told = [*seat.tie.damaged, *sorted(damaged)]
            turn.undo.assign(seat.tie, "damaged", told[: self.limits.sweep_queues])

    def _subscribe_service(self, command: SubscribeService, turn: Turn) -> None:
        before = self.services.holder(command.service)
        self.services.subscribe(command, turn)
        if not command.sweeps and before != command.session:
            self.watchers.look(command.service, turn)

    def _expire_last(self, command: Expire, turn: Turn) -> None:
        """Later commands of the turn count on the messages that were loaded for them."""
        turn.expires = True

    def _expire(self, turn: Turn) -> None:
        """One page of what is too old; the rest is another turn."""
        aged = turn.loaded.aged
        self.posting.expire(aged, turn)
        if len(aged) == self.limits.expiries:
            turn.again.append(Expire(aged[-1].seq))
        else:
            self.watchers.expire(turn)

    def _drained(self, command: Drained, turn: Turn) -> None:
        seat = self.seats.find(command.session)
        if seat is None or not self.seats.sessions.has_room(command.session):
            return
        self.queues.drained(command.session, seat, turn)
        self.sharing.drained(command.session, seat, turn)
        if seat.sweep is not None and not seat.waiting:
            turn.again.append(seat.sweep)
            turn.undo.assign(seat, "sweep", None)

    def _disconnect(self, command: Disconnect, turn: Turn) -> None:
        seat = self.seats.kept(command.session)
        if seat is None:
            return
        self.queues.disconnect(command.session, seat, turn)
        self.watchers.disconnect(command.session, seat, turn)
        self.services.disconnect(command.session, seat, turn)
        self.sharing.disconnect(command.session, seat, command.lost, turn)
        # Last: until its consumers are gone, the seat is what holds their gates shut.
        self.seats.leave(command.session, turn.undo)

    def _tick(self, command: Tick, turn: Turn) -> None:
        self.sharing.tick(turn)
        self.sinks.tick(turn)

    def _sealed(self, command: Sealed, turn: Turn) -> None:
        turn.batch.sealed = command.last

    def _page(self, command: Sweep) -> Page:
        return Page(command.service, command.after, self.limits.sweep_queues)

    # The end of a turn.

    def _journal(self, commands: Sequence[Command], turn: Turn) -> None:
        """The facts of a turn with stored changes go with them. Without, they wait for such a
        turn, or for the next tick: a subscribe alone is not worth a transaction."""
        if not self.journal:
            return
        if turn.batch or any(type(command) is Tick for command in commands):
            turn.batch.outbox = self.outbox.row(turn.facts)

    def _fill_in(self, loaded: Loaded, turn: Turn) -> None:
        for place, seq in turn.bodiless:
            delivery = turn.effects[place]
            assert isinstance(delivery, Deliver), "only deliveries lack a body"
            body = loaded.bodies.get(seq)
            if body is None:
                raise StoreError(f"message {seq} is not in the store")
            empty = delivery.message
            message = Message(empty.id, body, empty.arrived, empty.properties)
            turn.effects[place] = Deliver(
                delivery.session,
                delivery.queue,
                message,
                app=delivery.app,
                interests=delivery.interests,
                attempts=delivery.attempts,
            )
            self.sharing.bodies.keep(seq, body)

    def _touched(self, command: Command) -> QueueId | None:
        if isinstance(command, Create):
            return command.queue
        if isinstance(command, Send | Confirm) and command.queue in self.sharing.queues:
            return None
        return self.backlogs.owner(address_of(command)) if isinstance(command, Guarded) else None

    def _take_back(self, turn: Turn) -> None:
        self.sharing.abandon()
        turn.undo.take_back()

    def _settle(self, commands: Sequence[Command], turn: Turn) -> None:
        """The turn has happened: keep the caches true and within their bounds."""
        self.sharing.settle(turn)
        if turn.batch.outbox is not None:
            self.outbox.committed(turn.batch.outbox)
        elif self.journal:
            self.outbox.tell(turn.facts)
        if turn.batch.sealed is not None:
            self.outbox.sealed(turn.batch.sealed)
        touched = dict.fromkeys(map(self._touched, commands))
        self.backlogs.settle([queue for queue in touched if queue is not None])
        self.statistics.observe(turn.facts)


def _answer(loaded: Loaded | None) -> Loaded:
    assert loaded is not None, "a Load is answered with what was loaded"
    return loaded
