"""Links between clients and the router: slow, in order, and sometimes cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.core.commands import Command
from headgate.core.delivery.mailbox import Pressure
from headgate.core.delivery.sessions import Session
from headgate.core.effects import Deliver, Effect
from headgate.core.model.ids import SessionId

if TYPE_CHECKING:
    from headgate.testing.clients.client import Client
    from headgate.testing.simulated_router import Router
    from headgate.testing.world import World

NOTICE_SECONDS = 2.0
"""At most so long after a cut an end of the link learns of it."""


class Blob(bytes):
    """A blob that channels write to a session: frames joined."""


class Link:
    """One connection: a session at the router, a client at the other end.

    Both directions keep their order. When the link is cut, what is on its way is lost, and
    each end learns of it in its own time: until then the router holds a session that nobody
    hears, and the client may be back with a new one.
    """

    def __init__(self, world: World, client: Client, router: Router, session: Session) -> None:
        self.world = world
        self.client = client
        self.router = router
        self.session = session
        self.number = world.next_link()
        self.is_cut = False
        self.closed = False
        """The router knows that it is over."""
        self.bytes_per_second = 1e9
        self._asked_at = 0.0
        self._sent_at = 0.0
        self._pumping = False

    @property
    def id(self) -> SessionId:
        return self.session.id

    # From the client.

    def ask(self, commands: Sequence[Command]) -> None:
        """Send a block of commands; they reach the router together, if they do."""
        self._asked_at = self._arrival(self._asked_at)
        self.world.clock.at(self._asked_at, lambda: self._arrive(commands))

    def hang_up(self) -> None:
        """Say goodbye; it arrives after everything that was asked before."""
        self._asked_at = self._arrival(self._asked_at)
        self.world.clock.at(self._asked_at, lambda: self._close("bye", lost=False))

    def cut(self) -> None:
        """Break. Nothing that is on its way arrives, in either direction."""
        if self.is_cut:
            return
        self.is_cut = True
        world = self.world
        world.trace.add("network", f"cuts the link of {self.client.name}")
        world.clock.after(
            world.random.uniform(0.0, NOTICE_SECONDS), lambda: self._close("lost", lost=True)
        )
        world.clock.after(world.random.uniform(0.0, NOTICE_SECONDS), lambda: self.client.lost(self))

    def crashed(self) -> None:
        """The router is gone, and its end of the link with it."""
        self.is_cut = self.closed = True
        delay = self.world.random.uniform(0.0, 0.2)
        self.world.clock.after(delay, lambda: self.client.lost(self))

    # From the router.

    def deliver(self, effects: Sequence[Effect | Blob]) -> None:
        """Put effects into the mailbox; they leave as fast as the client reads."""
        now = self.world.clock.now
        for effect in effects:
            self.session.mailbox.offer(effect, size_of(effect), now)
        self._pump()

    def _pump(self) -> None:
        if self._pumping or self.is_cut or not len(self.session.mailbox):
            return
        self._pumping = True
        size = 64 if self.bytes_per_second < 1e6 else 1
        self.world.clock.after(size / self.bytes_per_second, self._take)

    def _take(self) -> None:
        self._pumping = False
        if self.is_cut or self.closed:
            return
        mailbox = self.session.mailbox
        was_slow = mailbox.pressure is not Pressure.EASY
        effect = mailbox.take(self.world.clock.now)
        self._sent_at = self._arrival(self._sent_at)
        self.world.clock.at(self._sent_at, lambda: self._hear(effect))
        is_eased = was_slow and mailbox.pressure is Pressure.EASY
        self.router.eased(self, is_eased or not len(mailbox))
        self._pump()

    def _hear(self, effect: object) -> None:
        if not self.is_cut:
            self.client.hear(self, effect)

    # Inside.

    def _arrival(self, last: float) -> float:
        world = self.world
        return max(last, world.clock.now + world.random.uniform(*world.weather.latency))

    def _arrive(self, commands: Sequence[Command]) -> None:
        if not self.is_cut and not self.closed:
            self.router.submit(self, commands)

    def _close(self, reason: str, *, lost: bool) -> None:
        if not self.closed:
            self.closed = self.is_cut = True
            self.router.disconnect(self, reason, lost=lost)


def size_of(effect: object) -> int:
    """The bytes that a mailbox is charged for an effect: bodies and frames; the rest is small."""
    if isinstance(effect, Blob):
        return len(effect)
    return effect.message.size if isinstance(effect, Deliver) else 1
