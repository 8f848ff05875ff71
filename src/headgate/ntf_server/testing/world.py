"""Worlds of a notification server: a real one, under one seed with apps, routers and a provider.

The server is whole from the commands of apps to the links with routers and the queue of the
provider, with its tables in SQLite. Everything around it is simulated. See docs/design/worlds.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from headgate.errors import HeadgateError
from headgate.notify.push_content import CodePush, MessagesPush, Push, open_push, parse_entries
from headgate.notify.subscriptions import NotifierSubscription
from headgate.ntf_server.pushing.turns import PushKind
from headgate.ntf_server.records import Tables, subscriptions, tokens
from headgate.ntf_server.records.audit import audit, tallies
from headgate.ntf_server.records.notices import RouterNotice
from headgate.ntf_server.testing.app import Watched, WorldApp, notifier_private
from headgate.ntf_server.testing.router import NotifierRouter
from headgate.ntf_server.testing.server import WorldServer
from headgate.ntf_server.testing.weather import NtfWeather, draw_ntf_weather
from headgate.testing.agents import router_world
from headgate.testing.agents.router_world import STEPS, RouterWorld
from headgate.wire.ntf.devices import Device
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus

LAST_SECONDS = 5.0
"""Before the calm, messages come once more."""
ANSWERED = ("delivered", "dead", "failed", "later")
"""Labels of pushes that the provider answered, or failed at."""
GRACE_SECONDS = 30.0
"""A push that was made from the records may be on its way for so long."""


class NtfWorld(RouterWorld):
    """A server, one to three apps with up to four notifiers each, and one or two routers."""

    logger: ClassVar = "headgate.ntf"
    weather: NtfWeather
    rest_seconds: ClassVar = 4 * 3600.0
    """A provider may want a push an hour later."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.doings += [
            (8, self._send),
            (3, self._kill),
            (2, self._leave),
            (2, self._take_notifier),
            (1, self._delete_notifier),
            (1, self._take_service),
            (1, self._refuse_services),
            (1, self._stray),
        ]
        self.routers = [
            NotifierRouter(number, self.network, Random(f"{seed} router {number}"))
            for number in range(1, 1 + self.random.choice((1, 2)))
        ]
        self.server = WorldServer(self)
        self.apps = [
            WorldApp(self, name)
            for name in ("anna", "boris", "clara")[: self.random.choice((1, 3))]
        ]
        for app in self.apps:
            for number in range(1, 1 + self.random.choice((1, 4))):
                router = self.random.choice(self.routers)
                name = f"{app.name}'s notifier {number}"
                key = notifier_private(self.random.getrandbits(64))
                app.watched.append(Watched(name, router, router.add_notifier(), key))
        self.waiting: dict[bytes, tuple[int, float]] = {}
        """By notifier: the newest notice that the server has and that was in no push, and when it
        came."""
        self.received_count = 0
        self.attempts = 0
        self.is_last = False
        """The last messages were sent."""
        self._lives: list[asyncio.Task[None]] = []

    def _draw_weather(self) -> NtfWeather:
        return draw_ntf_weather(self.random)

    @property
    def _routers(self) -> Sequence[NotifierRouter]:
        return self.routers

    def _start(self) -> None:
        self.server.start()
        if not self._lives:
            self._lives = [asyncio.create_task(app.live()) for app in self.apps]
            for task in self._lives:
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.broken("raised", f"an app: {error!r}", error)

    async def _leave_all(self) -> None:
        await self.server.leave()
        for wrong in self.server.disk.find(audit):
            self.broken("tally", wrong)

    async def _kill_all(self) -> None:
        for task in self._lives:
            task.cancel()
        await self.server.kill()

    def _end_disks(self) -> None:
        self.server.disk.end()

    def summary(self) -> str:
        return (
            f"{len(self.trace)} lines, {self.received_count} notices, {self.attempts} pushes;"
            f" {self._happened}"
        )

    # What happens.

    @property
    def _all_watched(self) -> list[Watched]:
        return [each for app in self.apps for each in app.watched]

    def _send(self) -> None:
        """Messages come, for one notifier or for many."""
        chosen = self.random.choices(self._all_watched, k=self.random.choice((1, 3, 9)))
        for each in chosen:
            self._send_one(each)

    def _send_one(self, each: Watched) -> None:
        each.sent += 1
        self.trace.add("world", f"message {each.sent} for {each.name}")
        each.router.notify(each.notifier.id, each.sent)

    async def _kill(self) -> None:
        await self.server.kill()
        self._start_later()

    async def _leave(self) -> None:
        await self.server.leave()
        if self.random.random() < 0.3:
            self.server.services = not self.server.services
        self._start_later()

    def _start_later(self) -> None:
        seconds = self.random.choice((0.0, 1.0, 100.0)) * self.random.random()
        self.loop.call_later(seconds, self.server.start)

    def _take_notifier(self) -> None:
        each = self.random.choice(self._all_watched)
        if each.notifier.id in each.router.notifiers:
            self.trace.add("world", f"somebody takes {each.name}")
            each.router.take_notifier(each.notifier)

    def _delete_notifier(self) -> None:
        each = self.random.choice(self._all_watched)
        if each.notifier.id in each.router.notifiers:
            self.trace.add("world", f"the queue of {each.name} is deleted")
            each.router.delete(each.notifier)

    def _stray(self) -> None:
        for router in self.routers:
            router.stray()

    # What the server does, as others see it.

    def received(self, notice: RouterNotice) -> None:
        """The server was given a notice."""
        self.received_count += 1
        self.waiting[notice.notifier] = int(notice.metadata), self.loop.now

    def attempted(self, device: Device, push: Push) -> None:
        """The server asks the provider to push."""
        self.attempts += 1
        found = self.server.disk.find(lambda tables: tokens.all_of_device(tables, device))
        self.trace.add("server", f"pushes {type(push).__name__} to {_name(device)}")
        if isinstance(push, CodePush):
            return
        if not any(token.status is TokenStatus.ACTIVE for token in found):
            owners = [app for app in self.apps if _name(device).startswith(app.name)]
            if all(app.changed_at + GRACE_SECONDS < self.loop.now for app in owners):
                self.broken("active", f"{_name(device)} is pushed to, and is not active")
        if isinstance(push, MessagesPush):
            for token in found:
                self._seen(token.key, push)

    def _seen(self, key: bytes, push: MessagesPush) -> None:
        try:
            text = open_push(key, push)
        except HeadgateError:
            return
        for entry in parse_entries(text):
            number, _ = self.waiting.get(entry.notifier, (0, 0.0))
            if int(entry.metadata) >= number:
                self.waiting.pop(entry.notifier, None)

    def delivered(self, device: Device, push: Push) -> None:
        for app in self.apps:
            if app.device == device:
                app.receive(push)

    def died(self, device: Device) -> None:
        for app in self.apps:
            if app.device == device:
                app.died()

    def stopped(self) -> None:
        """The server ended. Notices that it had not stored yet are lost."""
        for notifier, (number, _) in list(self.waiting.items()):
            if self.server.disk.find(lambda tables, id=notifier: _kept(tables, id)) < number:  # type: ignore[misc]
                del self.waiting[notifier]

    # Watching.

    def _watch(self) -> None:
        self._check_tallies()
        self._check_kept()
        self._check_queue()
        self._check_counts()

    def _check_tallies(self) -> None:
        """Stored tallies are recounts, at any moment."""
        for kept, counted in self.server.disk.find(tallies).values():
            if kept != counted:
                self.broken("tally", f"the server keeps {kept}, and has {counted}")

    def _check_kept(self) -> None:
        """Check that every answered change is there, whatever was killed since."""
        for app in self.apps:
            token = self.server.disk.find(lambda tables, id=app.book.id: tokens.get(tables, id))  # type: ignore[misc]
            if app.book.id and token is None:
                self.broken("kept", f"the token of {app.name} is gone")
            is_active = token is not None and token.status is TokenStatus.ACTIVE
            if app.book.is_verified and not is_active:
                self.broken("kept", f"{app.name} was verified, and is not active")
            for each in app.watched:
                if each.subscription and self._row(each.subscription) is None:
                    self.broken("kept", f"the subscription of {each.name} is gone")
                if each.gone and self._row(each.gone) is not None:
                    self.broken("kept", f"the subscription of {each.name} came back")

    def _check_counts(self) -> None:
        """Check that the server counted the answers of the provider."""
        if self.server.pusher is None or self.server.provider is None:
            return
        outcomes = self.server.pusher.outcomes.items()
        counted = sum(count for (_, _, label), count in outcomes if label in ANSWERED)
        answered = self.server.provider.answers.total()
        if counted != answered:
            self.broken("counted", f"{answered} pushes were answered, {counted} are counted")

    def _check_queue(self) -> None:
        """A token waits once for a push of its notices."""
        for queue in self.server.pusher._queues.values() if self.server.pusher else ():
            second = {token for kind, token in queue._second if kind is PushKind.NOTICES}
            asked = {token for kind, token in queue._asked if kind is PushKind.NOTICES}
            waiting = queue._notices._waiting
            if second & asked or second & waiting or asked & waiting:
                self.broken("once", "a token waits twice for a push")

    def _row(self, id: bytes) -> NotifierSubscription | None:
        return self.server.disk.find(lambda tables: subscriptions.get(tables, id))

    # The end.

    async def _calm(self) -> None:
        # The last that comes in bad weather: nothing after it hides what becomes of it.
        for each in self._all_watched:
            self._send_one(each)
        await asyncio.sleep(LAST_SECONDS)
        await super()._calm()

    def _help_to_rest(self) -> None:
        self._watch()

    def _unrest(self) -> tuple[str, str] | None:
        if self.server.commands is None:
            return "rest", "the server does not serve"
        for app in self.apps:
            if not app.book.is_verified:
                return "rest", f"{app.name} is not registered"
            for each in app.watched:
                if (wrong := self._wrong(each)) is not None:
                    return wrong
        if (missing := self._not_pushed()) is not None:
            return missing
        if not self.is_last:
            self.is_last = True
            for each in self._all_watched:
                self._send_one(each)
        for app in self.apps:
            for each in app.watched:
                if each.got < each.sent:
                    return "lost", f"{app.name} was not woken for the last message of {each.name}"
        return None

    def _wrong(self, each: Watched) -> tuple[str, str] | None:
        """The error of a subscription."""
        row = self._row(each.subscription) if each.subscription else None
        if row is None:
            return "wanted", f"{each.name} is not subscribed to"
        holder = each.notifier.holder
        if holder is None or holder.connection.is_cut or holder.connection.is_broken:
            return "wanted", f"{each.name} is {row.status}, and {each.router.name} has nobody"
        if holder.connection.process is not self.server.process:
            return "wanted", f"{each.name} is watched by a server that is no more"
        if row.status is not SubscriptionStatus.ACTIVE:
            return "wanted", f"{each.name} is watched, and is {row.status}"
        if row.is_associated != (each.notifier.service is not None):
            return "tally", f"{each.name} belongs to a service for the server: {row.is_associated}"
        return None

    def _not_pushed(self) -> tuple[str, str] | None:
        """A notice that came when everything was sure, and that was in no push."""
        for each in self._all_watched:
            number, at = self.waiting.get(each.notifier.id, (0, 0.0))
            if number and each.since is not None and each.since <= at:
                return "lost", f"notice {number} of {each.name} was in no push"
        return None


def _name(device: Device) -> str:
    return device.encode()[3:].decode()


def _kept(tables: Tables, notifier: bytes) -> int:
    """The number of the notice that the records have of a notifier."""
    rows = tables.ask(
        "SELECT n.metadata FROM notices AS n JOIN subscriptions AS s ON s.id = n.subscription"
        " WHERE s.notifier = ?",
        notifier,
    )
    return int(rows[0][0]) if rows else 0


def play(seed: int, steps: int = STEPS) -> NtfWorld:
    """Make a world and play it; raise a `Violation` if there is one."""
    world = NtfWorld(seed)
    world.play(steps)
    return world


def shortest(seed: int, steps: int = STEPS) -> int:
    return router_world.shortest(NtfWorld, seed, steps)
