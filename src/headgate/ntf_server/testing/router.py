"""A router as a notification server sees it: notifiers, services, and notices that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import Tally
from headgate.testing.agents.network import Network
from headgate.testing.agents.router import Pushed, RouterSession, WorldRouter
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r

WAITING_MAX = 32
"""Notices that wait for one notifier."""
NONCE = b"n" * 24


@dataclass(eq=False)
class RouterNotifier:
    """A notifier, and the messages that it was not given notice of."""

    id: bytes
    service: ServiceId | None = None
    holder: RouterSession | None = None
    """The session that gets notices; none if there is none, or it is not of this world."""
    waiting: deque[int] = field(default_factory=lambda: deque(maxlen=WAITING_MAX))
    """Numbers of messages. They are in memory, and go with a crash."""


class NotifierRouter(WorldRouter):
    """A router for notification servers, owned by a world. It has notifiers of queues, and no
    queues."""

    def __init__(self, number: int, network: Network, random: Random) -> None:
        super().__init__(number, network, random)
        self.notifiers: dict[bytes, RouterNotifier] = {}

    def add_notifier(self) -> RouterNotifier:
        made = RouterNotifier(self._id("n"))
        self.notifiers[made.id] = made
        return made

    # What happens to it.

    def ended(self, session: RouterSession) -> None:
        super().ended(session)
        for each in self.notifiers.values():
            if each.holder is session:
                each.holder = None

    def crash(self, forgets: bool, offers: bool) -> None:
        super().crash(forgets, offers)
        loses = self.random.random() < 0.3
        for each in self.notifiers.values():
            each.waiting.clear()
            if forgets or not offers or (loses and self.random.random() < 0.5):
                each.service = None

    def notify(self, id: bytes, number: int) -> None:
        """A message came whose sender wants it to be noticed."""
        if self.is_up and (notifier := self.notifiers.get(id)) is not None:
            notifier.waiting.append(number)
            self._send_waiting([notifier])

    def stray(self) -> None:
        """Send notices for notifiers that nobody has."""
        for session in self.sessions:
            self._push(session, self._id("n"), r.NMsg(NONCE, b"0"))

    def take_notifier(self, notifier: RouterNotifier) -> None:
        """Another client subscribes to a notifier, and leaves."""
        holder, notifier.holder, notifier.service = notifier.holder, None, None
        if holder is not None:
            self._push(holder, notifier.id, r.SmpEnd())

    def take_service(self, session: RouterSession) -> None:
        assert session.service is not None, "a session of a service"
        ended = [each for each in self._of(session.service) if each.holder is session]
        for each in ended:
            each.holder = None
        if ended:
            self._push(session, session.service, r.Ends(_tally(ended)))

    def delete(self, notifier: RouterNotifier) -> None:
        """Its queue is deleted."""
        del self.notifiers[notifier.id]
        if notifier.holder is not None:
            self._push(notifier.holder, notifier.id, r.Deld())

    # Requests.

    def asked(self, session: RouterSession, payload: bytes) -> None:
        super().asked(session, payload)
        # Whoever has just subscribed is given what waited, after the answers.
        self._send_waiting(self.notifiers.values())

    def _do(
        self, session: RouterSession, entity: bytes, command: c.Command, pushed: Pushed
    ) -> r.Reply:
        match command:
            case c.NSub():
                return self._watch(session, entity, pushed)
            case c.NSubs():
                return self._watch_all(session, entity, pushed)
            case _:
                return super()._do(session, entity, command, pushed)

    def _watch(self, session: RouterSession, entity: bytes, pushed: Pushed) -> r.Reply:
        notifier = self.notifiers.get(entity)
        if notifier is None:
            return r.Err("AUTH")
        if self.refuses_services and session.service is not None:
            return r.Err("SERVICE")
        if notifier.holder is not None and notifier.holder is not session:
            pushed.append((notifier.holder, entity, r.SmpEnd()))
        notifier.holder, notifier.service = session, session.service
        return r.Ok() if session.service is None else r.Sok(session.service)

    def _watch_all(self, session: RouterSession, entity: bytes, pushed: Pushed) -> r.Reply:
        if self.refuses_services or entity != session.service:
            return r.Err("SERVICE")
        ours = self._of(ServiceId(entity))
        displaced: dict[RouterSession, list[RouterNotifier]] = {}
        for each in ours:
            if each.holder is not None and each.holder is not session:
                displaced.setdefault(each.holder, []).append(each)
            each.holder = session
        pushed += [(other, entity, r.Ends(_tally(gone))) for other, gone in displaced.items()]
        return r.Soks(_tally(ours))

    def _of(self, service: ServiceId) -> list[RouterNotifier]:
        return [each for each in self.notifiers.values() if each.service == service]

    def _send_waiting(self, notifiers: Iterable[RouterNotifier]) -> None:
        for each in notifiers:
            while each.holder is not None and each.waiting:
                notice = r.NMsg(NONCE, b"%d" % each.waiting.popleft())
                self._push(each.holder, each.id, notice)


def _tally(notifiers: Iterable[RouterNotifier]) -> Tally:
    return Tally.of(QueueId(each.id) for each in notifiers)
