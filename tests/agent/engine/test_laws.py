"""What holds whatever happens, in whatever order: the engine in a world of routers that fail."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headgate.agent.engine.answers import PROHIBITED
from headgate.agent.engine.effects import Settled
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.settings import EngineSettings
from headgate.agent.events import Deleted, End
from headgate.agent.model import QueueRow, RecipientId, SessionMode
from headgate.core.model.tally import NOTHING
from headgate.wire.smp.handshake import Role
from tests.support.agent_world import OTHER, World, WorldRouter, WorldSession

ROUTERS = (1, 2)
USERS = (1, 2)
CONNECTIONS = tuple(b"connection %d" % n for n in range(5))
HOURS = 3 * 3600.0
ERRORS = (None, "STORE unavailable", "SERVICE", "INTERNAL")

EXAMPLES = 100
STEPS = 40
FINAL = ("AUTH", PROHIBITED.text)
"""What a queue is given up for."""

SMALL = EngineSettings(page=2)
SMALL_NOTIFIER = EngineSettings(role=Role.NOTIFIER, page=2, trust_tally=False, has_sweep_end=False)


class EngineMachine(RuleBasedStateMachine):
    """Everything that may happen to an engine. User 1 begins with services, user 2 without."""

    @initialize(notifier=st.booleans())
    def begin(self, notifier: bool) -> None:
        self.world = World(SMALL_NOTIFIER if notifier else SMALL, len(ROUTERS))
        self.world.cuts_pages = True
        self.engine: Engine = self.world.engine
        self.services = {1: True, 2: False}
        self.modes = dict.fromkeys(USERS, SessionMode.SHARED)
        for user in USERS:
            self.engine.add_user(user, services=self.services[user])
        self.wanted: dict[tuple[int, int], set[RecipientId]] = {}
        self.locked: set[tuple[int, int, RecipientId]] = set()
        self.ended: set[tuple[int, int, RecipientId]] = set()
        self.rows_read: list[tuple[int, int, list[QueueRow], int]] = []
        self.events_seen = 0
        self.settled_seen = 0
        self.made = 0
        self.is_suspended = False
        for user in USERS:
            for router in ROUTERS:
                for _ in range(5 if user == router else 2):
                    self._make(user, router, self.made % len(CONNECTIONS))
                self.want_all(user, router)

    def _make(self, user: int, router: int, connection: int) -> QueueRow:
        self.made += 1
        # The order of ids is not that in which they were made.
        queue = b"queue %02d" % (self.made * 37 % 100)
        name = b"%d " % user + CONNECTIONS[connection]
        return self.world.add_queue(user, router, queue, name)

    def _rows(self, user: int, router: int) -> list[QueueRow]:
        records = self.world.records
        return [records.row((user, router), queue) for queue in records.of((user, router))]

    # What the application does

    @rule(user=st.sampled_from(USERS), router=st.sampled_from(ROUTERS))
    def want_all(self, user: int, router: int) -> None:
        self.wanted[user, router] = set(self.world.records.of((user, router)))
        self.ended = {key for key in self.ended if key[:2] != (user, router)}
        self.world.do(self.engine.want_all(user, router, self.world.now))

    @rule(
        user=st.sampled_from(USERS),
        router=st.sampled_from(ROUTERS),
        connection=st.integers(0, len(CONNECTIONS) - 1),
    )
    @precondition(lambda self: self.made < 30)
    def make(self, user: int, router: int, connection: int) -> None:
        self._want(user, router, [self._make(user, router, connection)])

    @rule(user=st.sampled_from(USERS), router=st.sampled_from(ROUTERS), data=st.data())
    def want(self, user: int, router: int, data: st.DataObject) -> None:
        rows = self._rows(user, router)
        if rows:
            self._want(user, router, data.draw(st.lists(st.sampled_from(rows), max_size=4)))

    @rule(user=st.sampled_from(USERS), router=st.sampled_from(ROUTERS))
    def read_rows(self, user: int, router: int) -> None:
        """The shell reads rows for a caller, and takes a stamp before."""
        stamp = self.engine.stamp(user, router)
        self.rows_read.append((user, router, self._rows(user, router), stamp))

    @rule(data=st.data())
    @precondition(lambda self: self.rows_read)
    def want_read(self, data: st.DataObject) -> None:
        """By now they may be out of date."""
        index = data.draw(st.integers(0, len(self.rows_read) - 1))
        user, router, rows, stamp = self.rows_read.pop(index)
        known = self.world.records.of((user, router))
        self._want(user, router, [row for row in rows if row.id in known], stamp)

    def _want(self, user: int, router: int, rows: list[QueueRow], stamp: int | None = None) -> None:
        ids = {row.id for row in rows}
        self.wanted.setdefault((user, router), set()).update(ids)
        self.ended -= {(user, router, queue) for queue in ids}
        self.world.do(self.engine.want(user, router, rows, self.world.now, stamp))

    @rule(user=st.sampled_from(USERS), router=st.sampled_from(ROUTERS), data=st.data())
    def unwant(self, user: int, router: int, data: st.DataObject) -> None:
        rows = self._rows(user, router)
        if rows:
            row = data.draw(st.sampled_from(rows))
            self.wanted[user, router].discard(row.id)
            self.world.up.discard(row.connection)
            self.world.do(self.engine.unwant(user, router, [row], self.world.now))

    @rule(data=st.data(), connection=st.integers(0, len(CONNECTIONS) - 1), other=st.booleans())
    @precondition(lambda self: self.world.sessions and self.made < 30)
    def create(self, data: st.DataObject, connection: int, other: bool) -> None:
        """A queue is created in a session, which may be lost by the time of the answer."""
        sessions = self.world.known_sessions()
        session = sessions[data.draw(st.integers(0, len(sessions) - 1))]
        slot = session.key.slot
        if slot.connection is not None:
            return
        row = self._make(slot.user, slot.router, connection)
        del self.world.records.of((slot.user, slot.router))[row.id]
        service = None if other else session.service
        if session.alive:
            session.router.queues[row.id].service = service
            session.router.queues[row.id].holder = session
        self.wanted[slot.user, slot.router].add(row.id)
        self.world.raised.add(row.connection)
        self.world.do(
            self.engine.created(session.key, row.id, row.connection, service, self.world.now)
        )

    @rule(user=st.sampled_from(USERS), mode=st.sampled_from(SessionMode))
    def switch_mode(self, user: int, mode: SessionMode) -> None:
        if not self.services[user]:
            self.modes[user] = mode
            self.world.do(self.engine.set_mode(user, mode, self.world.now))

    @rule(user=st.sampled_from(USERS), on=st.booleans())
    def switch_services(self, user: int, on: bool) -> None:
        if self.modes[user] is SessionMode.SHARED:
            self.services[user] = on
            self.world.do(self.engine.set_services(user, on, self.world.now))

    @rule(online=st.booleans(), foreground=st.booleans())
    def switch_flags(self, online: bool, foreground: bool) -> None:
        self.world.do(self.engine.set_online(online, self.world.now))
        self.world.do(self.engine.set_foreground(foreground, self.world.now))

    @rule(suspended=st.booleans())
    def suspend(self, suspended: bool) -> None:
        self.is_suspended = suspended
        if suspended:
            self.world.do(self.engine.suspend())
        else:
            self.world.do(self.engine.resume(self.world.now))

    @rule(user=st.sampled_from(USERS), router=st.sampled_from(ROUTERS), data=st.data())
    def get(self, user: int, router: int, data: st.DataObject) -> None:
        rows = self._rows(user, router)
        if rows:
            row = data.draw(st.sampled_from(rows))
            if self.engine.lock(user, router, row):
                self.locked.add((user, router, row.id))

    # What the world does

    @rule(data=st.data())
    @precondition(lambda self: self.world.jobs)
    def run_job(self, data: st.DataObject) -> None:
        self.world.run_job(data.draw(st.integers(0, len(self.world.jobs) - 1)))

    @rule(data=st.data())
    @precondition(lambda self: self.world.read)
    def deliver_read(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.world.read) - 1))
        self.world.deliver(self.world.read.pop(index))

    @rule(data=st.data())
    @precondition(lambda self: any(s.unsent for s in self.world.known_sessions()))
    def deliver_answer(self, data: st.DataObject) -> None:
        ready = [s for s in self.world.known_sessions() if s.unsent]
        self.world.deliver_next(ready[data.draw(st.integers(0, len(ready) - 1))])

    @rule()
    def run(self) -> None:
        self.world.run()

    @rule(seconds=st.sampled_from([0.5, 3.0, 30.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)

    @rule(data=st.data())
    @precondition(lambda self: self.world.late)
    def late_answer(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.world.late) - 1))
        self.world.deliver(self.world.late.pop(index))

    @rule(data=st.data())
    @precondition(lambda self: any(s.alive for s in self.world.known_sessions()))
    def lose(self, data: st.DataObject) -> None:
        alive = [s for s in self.world.known_sessions() if s.alive]
        self.world.lose(alive[data.draw(st.integers(0, len(alive) - 1))])

    @rule(router=st.sampled_from(ROUTERS), data=st.data())
    def take_queue(self, router: int, data: st.DataObject) -> None:
        found = self.world.routers[router]
        if found.queues:
            self.world.take_queue(found, data.draw(st.sampled_from(sorted(found.queues))))

    @rule(data=st.data())
    @precondition(lambda self: self._service_sessions())
    def take_service(self, data: st.DataObject) -> None:
        sessions = self._service_sessions()
        self.world.take_service(sessions[data.draw(st.integers(0, len(sessions) - 1))])

    def _service_sessions(self) -> list[WorldSession]:
        return [s for s in self.world.known_sessions() if s.alive and s.service is not None]

    @rule(user=st.sampled_from(USERS), router=st.sampled_from(ROUTERS), data=st.data())
    def delete_queue(self, user: int, router: int, data: st.DataObject) -> None:
        rows = self._rows(user, router)
        if rows:
            row = data.draw(st.sampled_from(rows))
            del self.world.routers[router].queues[row.id]
            self.world.do(self.engine.deleted(user, router, row, self.world.now))

    @rule(router=st.sampled_from(ROUTERS), ids_too=st.booleans())
    def forget_services(self, router: int, ids_too: bool) -> None:
        """A router that was restored from a backup: its sessions are over, too."""
        found = self.world.routers[router]
        for session in list(found.sessions):
            self.world.lose(session)
        self.world.forget_services(found, ids_too)

    @rule(router=st.sampled_from(ROUTERS), data=st.data())
    def drift(self, router: int, data: st.DataObject) -> None:
        """A router that was restored from a backup forgot one queue's service."""
        found = self.world.routers[router]
        associated = sorted(q for q, queue in found.queues.items() if queue.service is not None)
        if associated:
            queue = found.queues[data.draw(st.sampled_from(associated))]
            queue.service = queue.holder = None
            for session in list(found.sessions):
                self.world.lose(session)

    @rule(router=st.sampled_from(ROUTERS))
    def stop(self, router: int) -> None:
        found = self.world.routers[router]
        found.is_up = False
        for session in list(found.sessions):
            self.world.lose(session)

    @rule(router=st.sampled_from(ROUTERS))
    def start(self, router: int) -> None:
        found = self.world.routers[router]
        found.is_up, found.is_silent, found.error, found.service_error = True, False, None, None

    @rule(router=st.sampled_from(ROUTERS), silent=st.booleans(), offers=st.booleans())
    def fall_silent(self, router: int, silent: bool, offers: bool) -> None:
        found = self.world.routers[router]
        found.is_silent, found.offers_services = silent, offers

    @rule(
        router=st.sampled_from(ROUTERS),
        error=st.sampled_from(ERRORS),
        service_error=st.sampled_from(ERRORS),
    )
    def refuse(self, router: int, error: str | None, service_error: str | None) -> None:
        found = self.world.routers[router]
        found.error, found.service_error = error, service_error

    @rule(data=st.data())
    @precondition(lambda self: self.world.stale)
    def repeat(self, data: st.DataObject) -> None:
        """Something that was reported before is reported again: if its session was replaced or
        its request answered, nothing changes."""
        step = self.world.stale[data.draw(st.integers(0, len(self.world.stale) - 1))]
        closed = [c.cell_contents for c in step.__closure__ or ()]
        current = {(s.key.slot, s.key.number) for s in self.world.known_sessions()}
        for cell in closed:
            key = getattr(cell, "key", cell)
            slot, number = getattr(key, "slot", None), getattr(key, "number", None)
            if slot is None or (slot, number) in current:
                continue
            before = (self.engine.status(), self.engine.is_busy(), set(self.world.up))
            effects = [e for e in step() if type(e).__name__ not in ("CloseSession",)]
            assert effects == []
            assert (self.engine.status(), self.engine.is_busy(), self.world.up) == before
            return

    # What holds

    @invariant()
    def what_the_application_knows(self) -> None:
        if not hasattr(self, "world"):
            return
        for event in self.world.events[self.events_seen :]:
            if isinstance(event, End | Deleted):
                self._note_end(event)
        self.events_seen = len(self.world.events)
        for settled in self.world.settled[self.settled_seen :]:
            self._note_settled(settled)
        self.settled_seen = len(self.world.settled)

    def _note_end(self, event: End | Deleted) -> None:
        router = event.router.key_hash[0]
        account = (event.user, router)
        known = self.world.records.of(account)
        for queue in list(self.wanted.get(account, ())):
            found = self.world.routers[router].queues.get(queue)
            if queue not in known:
                self.wanted[account].discard(queue)
            elif (
                isinstance(event, End)
                and known[queue].connection == event.connection
                and queue in self.engine._context.accounts[account].left_out
            ):
                self.wanted[account].discard(queue)
                if found is not None and found.holder == OTHER:
                    self.ended.add((*account, queue))

    def _note_settled(self, settled: Settled) -> None:
        for outcome in settled.outcomes:
            failure = outcome.failure
            account = (settled.slot.user, settled.slot.router)
            if failure is not None and failure.text in FINAL:
                self.wanted.get(account, set()).discard(outcome.queue)

    @invariant()
    def two_pages_at_most(self) -> None:
        if not hasattr(self, "world"):
            return
        for slot in self.engine._context.slots.values():
            under_way = len(slot.states.pending.sent) + len(slot.states.checks.sent)
            assert under_way <= self.engine.settings.page
            if slot.phase.value != "open":
                assert not under_way
                assert not slot.states.active
                assert not slot.states.counted
                assert slot.service.tally == NOTHING

    @invariant()
    def who_is_up(self) -> None:
        """Whoever is up was announced, or made by the application itself."""
        if hasattr(self, "world"):
            assert self.engine._context.announcements.up <= self.world.raised
            held: set[bytes] = set()
            for slot in self.engine._context.slots.values():
                held.update(slot.states.active.values(), slot.states.counted.values())
            assert self.world.up <= held, "announced up, and nothing is subscribed"

    def teardown(self) -> None:
        """When everything works again, every queue that is wanted is subscribed."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for router in world.routers.values():
            router.is_up, router.is_silent, router.offers_services = True, False, True
            router.error = router.service_error = None
        for user, router_number, queue in self.locked:
            if queue in world.records.of((user, router_number)):
                row = world.records.row((user, router_number), queue)
                self.engine.unlock(user, router_number, row)
        world.do(self.engine.resume(world.now))
        world.do(self.engine.set_online(True, world.now))
        world.do(self.engine.set_foreground(True, world.now))
        world.run_until(world.now + HOURS)
        self.what_the_application_knows()
        assert not self.engine.is_busy()
        self._check_holders()
        self._check_records()

    def _check_holders(self) -> None:
        world = self.world
        for (user, router), queues in self.wanted.items():
            for queue in queues:
                if queue not in world.records.of((user, router)):
                    continue
                found = world.routers[router].queues[queue]
                row = world.records.row((user, router), queue)
                state = self.engine.state_of(user, router, row)
                assert isinstance(found.holder, WorldSession), (user, router, queue, state)
                shared = self.modes[user] is SessionMode.SHARED
                slot = found.holder.key.slot
                assert slot.connection == (None if shared else row.connection)
        for _, router, queue in self.ended:
            if queue in world.routers[router].queues:
                assert world.routers[router].queues[queue].holder == OTHER, "no fight"

    def _check_records(self) -> None:
        """The records agree with the routers, and tallies with what sessions confirmed."""
        world = self.world
        for status in self.engine.status():
            account = (status.slot.user, status.slot.router)
            session = next((s for s in world.known_sessions() if s.key.slot == status.slot), None)
            if session is None:
                continue
            for queue in self.wanted.get(account, ()):
                if queue in world.records.of(account) and status.slot.connection is None:
                    found: WorldRouter = session.router
                    ours = session.service is not None
                    is_ours = found.queues[queue].service == session.service
                    assert world.records.of(account)[queue].associated == (ours and is_ours)


def test_whatever_happens_everybody_is_subscribed_in_the_end_and_nobody_twice() -> None:
    """S000-72, S000-81, S000-82, S000-83, S000-84, S000-87, S000-89, S000-90, S001-67, S001-85,
    S004-21, S004-23: sessions, services, losses, late and stale answers, drift and
    switches, in any order."""
    run_state_machine_as_test(
        EngineMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
    )


def test_rows_that_were_read_before_a_queue_ended_do_not_leave_it_to_the_service() -> None:
    """S000-69: whoever asks for it again gets it, whatever the rows say of its service."""
    machine = EngineMachine()
    machine.begin(notifier=False)
    machine.read_rows(user=1, router=1)
    machine.run()
    machine.read_rows(user=1, router=1)
    user, router, rows, stamp = machine.rows_read.pop(0)
    machine._want(user, router, rows, stamp)
    machine.world.take_queue(machine.world.routers[router], b"queue 11")
    machine.run()
    user, router, rows, stamp = machine.rows_read.pop(0)
    machine._want(user, router, rows, stamp)
    machine.teardown()
