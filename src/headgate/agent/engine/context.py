"""The context that the parts of an engine share: users, accounts, slots, timers, effects of a
call."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from headgate.agent.engine.announcements import Announcements
from headgate.agent.engine.effects import Announce, Effect, WakeAt
from headgate.agent.engine.readings import Reading
from headgate.agent.engine.settings import EngineSettings
from headgate.agent.engine.slots import Slot
from headgate.agent.engine.worker import Worker
from headgate.agent.events import Problem, ProblemKind, Refusal, SubscriptionEvent
from headgate.agent.model import (
    ConnectionId,
    RecipientId,
    RouterId,
    SessionKey,
    SessionMode,
    SlotKey,
    UserId,
    Which,
)
from headgate.core.model.ids import ServiceId
from headgate.wire.smp.codec.router_address import RouterAddress


class User:
    """A user of the engine: how its queues share sessions, and whether services are used."""

    __slots__ = ("mode", "services")

    def __init__(self) -> None:
        self.mode = SessionMode.SHARED
        self.services = False


class Account:
    """An account: one user at one router, in all of its sessions."""

    __slots__ = (
        "clears",
        "gone",
        "has_flags",
        "is_receiving",
        "left_out",
        "readings",
        "router",
        "service",
        "service_refusals",
        "user",
    )

    def __init__(self, user: UserId, router: RouterId) -> None:
        self.user = user
        self.router = router
        self.is_receiving = False
        """Whether its queues are wanted."""
        self.service: ServiceId | None = None
        """The service in the records."""
        self.has_flags = False
        """Whether the records may have queues of the service."""
        self.clears = 0
        """How often flags were cleared, all or some; rows that were read before may be out of
        date."""
        self.service_refusals = 0
        """Service errors since the service last worked."""
        self.readings: list[Reading] = []
        self.left_out: dict[RecipientId, str] = {}
        """Queues that are not subscribed until that is requested, and why."""
        self.gone: set[RecipientId] = set()
        """Queues deleted while a page that may have them was being read."""

    @property
    def shared_slot(self) -> SlotKey:
        return SlotKey(self.user, self.router)

    def read_all(self) -> None:
        """Read all queues again, to subscribe them singly. Readings under way are out of date."""
        self.readings = [Reading(Which.ALL)]

    def repair(self) -> None:
        """Subscribe the queues of the service once more, unless that is planned already."""
        if not any(reading.checks and reading.after is None for reading in self.readings):
            self.readings.append(Reading(Which.ASSOCIATED, checks=True))

    def clear_flags(self) -> None:
        """Note that no queue belongs to the service any more."""
        self.has_flags = False
        self.clears += 1

    def forget(self, queue: RecipientId) -> None:
        """Remove a deleted queue."""
        self.left_out.pop(queue, None)
        if self.readings:
            self.gone.add(queue)


class EngineContext:
    """The state of an engine and the effects of the present call."""

    def __init__(self, settings: EngineSettings, seed: int) -> None:
        self.settings = settings
        self.seed = seed
        self.users: dict[UserId, User] = {}
        self.routers: dict[RouterId, RouterAddress] = {}
        self.accounts: dict[tuple[UserId, RouterId], Account] = {}
        self.slots: dict[SlotKey, Slot] = {}
        self.announcements = Announcements()
        self.is_online = True
        self.is_foreground = True
        self.is_suspended = False
        self.ignored = 0
        """Reports of sessions that were replaced, and answers for queues that are not waiting."""
        self._out: list[Effect] = []
        self._numbers = count(1)
        self._timers: list[tuple[float, int, SlotKey]] = []
        self._armed: float | None = None
        self._problems: dict[RouterId, float] = {}

    def number(self) -> int:
        """A fresh number, of an attempt or of a page."""
        return next(self._numbers)

    def user(self, user: UserId) -> User:
        found = self.users.get(user)
        if found is None:
            found = self.users[user] = User()
        return found

    def account(self, user: UserId, router: RouterId) -> Account:
        found = self.accounts.get((user, router))
        if found is None:
            assert router in self.routers, "a router that was added"
            found = self.accounts[user, router] = Account(user, router)
        return found

    def account_of(self, key: SlotKey) -> Account:
        return self.account(key.user, key.router)

    def slot_key(self, account: Account, connection: ConnectionId) -> SlotKey:
        # S000-56, S000-57: one session for each router, or one for each connection there.
        is_shared = self.user(account.user).mode is SessionMode.SHARED
        return SlotKey(account.user, account.router, None if is_shared else connection)

    def slot(self, key: SlotKey) -> Slot:
        found = self.slots.get(key)
        if found is None:
            connection = "" if key.connection is None else key.connection.hex()
            name = f"{key.user} {key.router} {connection}"
            found = Slot(key, Worker(self.settings.delays, self.seed, name))
            self.slots[key] = found
        return found

    def slots_of(self, user: UserId) -> list[Slot]:
        return [slot for key, slot in self.slots.items() if key.user == user]

    def current(self, session: SessionKey) -> Slot | None:
        """The slot with this session; None if it has another, whose report is ignored."""
        slot = self.slots.get(session.slot)
        if slot is None or not slot.is_current(session):
            self.ignored += 1
            return None
        return slot

    # Effects

    def emit(self, *effects: Effect) -> None:
        self._out.extend(effects)

    def announce(self, event: SubscriptionEvent) -> None:
        self._out.append(Announce(event))

    def problem(
        self, key: SlotKey, kind: ProblemKind, text: str = "", refusals: tuple[Refusal, ...] = ()
    ) -> None:
        self.announce(Problem(key.user, self.routers[key.router], kind, text, refusals))

    def problem_of_router(self, key: SlotKey, text: str, now: float) -> None:
        """Report a problem, at most once in an hour for each router."""
        last = self._problems.get(key.router)
        if last is None or now - last >= self.settings.problem_seconds:
            self._problems[key.router] = now
            self.problem(key, ProblemKind.ROUTER, text)

    def flush(self) -> list[Effect]:
        """The effects of the call, in order."""
        effects, self._out = self._out, []
        return effects

    # Timers

    def wake(self, key: SlotKey, time: float) -> None:
        """Look at this slot again at that time."""
        heappush(self._timers, (time, next(self._numbers), key))
        if self._armed is None or time < self._armed:
            self._armed = time
            self.emit(WakeAt(time))

    def due(self, now: float) -> Iterator[SlotKey]:
        """The slots that are due, each once."""
        keys: dict[SlotKey, None] = {}
        while self._timers and self._timers[0][0] <= now:
            keys[heappop(self._timers)[2]] = None
        if self._armed is not None and self._armed <= now:
            self._armed = None
        yield from keys
        # The next wake-up that was not requested yet.
        if self._timers and (self._armed is None or self._timers[0][0] < self._armed):
            self._armed = self._timers[0][0]
            self.emit(WakeAt(self._armed))
