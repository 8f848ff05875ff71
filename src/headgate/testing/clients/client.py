"""A client of a world: it connects, acts now and then, is lost and comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.core.commands import (
    Command,
)
from headgate.core.effects import ref_of
from headgate.core.model.ids import (
    Channel,
    MessageId,
    QueueId,
    Ref,
    ServiceId,
    SessionId,
)
from headgate.core.model.message import Message
from headgate.testing.network import Link

if TYPE_CHECKING:
    from headgate.testing.world import World

EXCLUSIVE = tuple(QueueId(b"x%d" % n) for n in range(5))
SHARED = {
    "work": (QueueId(b"work/1"), QueueId(b"work/2")),
    "news": (QueueId(b"news/1"),),
    "live": (QueueId(b"live/1"),),
}
SERVICES = (ServiceId(b"S"), ServiceId(b"T"))
CHANNELS = (Channel(b"red"), Channel(b"blue"))
PATTERNS = (b"*", b"r*", b"?lue")
EXPRESSIONS = (None, "x == 1", "x == 2", "x >= 2", 'kind == "express"', 'x < 2 || kind == "slow"')
BODY_BYTES = (1, 12, 60, 150)
"""Sizes of bodies: some fit many times into a mailbox, some fill it."""

PAUSE = (0.02, 0.6)
"""Seconds between two actions of a client."""


class Client:
    """A client, which connects, acts now and then, is cut off and comes back."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.link: Link | None = None
        self.gone = False
        self.asked: dict[Ref, Command] = {}
        """Unanswered requests of this link."""
        self._refs = 0
        world.clock.after(world.random.uniform(*PAUSE), self._live)

    # What kinds of clients do in their own way.

    def act(self) -> None:
        """Do something, while connected."""

    def answered(self, command: Command, effect: object) -> None:
        """An answer came."""

    def hear_unasked(self, effect: object) -> None:
        """Something came that was not asked for."""

    def forget(self) -> None:
        """The link is gone, and whatever was known by it."""

    def finish(self) -> None:
        """The world is calm: do what is left to do."""

    def may_go_on(self, link: Link) -> None:
        """A publisher need not wait any longer."""

    # Coming and going.

    def _live(self) -> None:
        if self.gone:
            return
        world = self.world
        if self.link is None:
            self.connect()
        elif not world.is_calm:
            self._act()
        if not world.is_calm or self.link is None:
            world.clock.after(world.random.uniform(*PAUSE), self._live)

    def _act(self) -> None:
        link, random = self.link, self.world.random
        assert link is not None, "only who is connected acts"
        if random.random() < self.world.weather.loss:
            if random.random() < 0.3:
                self.world.trace.add(self.name, "says goodbye")
                link.hang_up()
                self.lost(link)
            else:
                link.cut()
        elif not link.is_cut:
            self.act()

    def connect(self) -> None:
        if self.world.router is not None:
            self.link = self.world.router.connect(self)
            self.asked.clear()
            self.forget()
            if self.world.is_calm:
                self.finish()

    def lost(self, link: Link) -> None:
        """The link is no more; a client whose link is newer does not care."""
        if self.link is link:
            self.link = None
            self.asked.clear()
            self.forget()

    def calm(self) -> None:
        if self.link is not None and not self.link.is_cut:
            self.link.bytes_per_second = 1e9
            self.finish()

    def leave(self) -> None:
        self.gone = True
        if self.link is not None:
            self.link.hang_up()
            self.link = None

    # Asking and hearing.

    def ref(self) -> Ref:
        self._refs += 1
        return (self.link.number if self.link is not None else 0, self._refs)

    def ask(self, *commands: Command) -> None:
        """Send commands as one block."""
        if self.link is None:
            return
        for command in commands:
            ref = getattr(command, "ref", None)
            if ref is not None:
                self.asked[ref] = command
        self.link.ask(commands)

    def hear(self, link: Link, effect: object) -> None:
        if link is not self.link:
            return
        command = self.asked.pop(ref_of(effect), None)
        if command is not None:
            self.answered(command, effect)
        else:
            self.hear_unasked(effect)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in a while, if the link is still the same one then."""
        link = self.link

        def act() -> None:
            if self.link is link and link is not None and not self.gone:
                action()

        self.world.clock.after(seconds, act)

    @property
    def session(self) -> SessionId:
        assert self.link is not None, "only who is connected has a session"
        return self.link.id

    def message(self, id: MessageId | None = None) -> Message:
        random = self.world.random
        return Message(
            id or MessageId(self.world.next_message()),
            b"." * random.choice(BODY_BYTES),
            self.world.clock.now,
            {"x": random.randrange(4), "kind": random.choice(("express", "slow", "other"))},
        )
