"""Windows: nobody has more unconfirmed than its window allows, and nothing waits without need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core import commands as c
from headgate.core import effects as e
from headgate.core import facts as f
from headgate.core.commands import Command, Interest
from headgate.core.effects import Deliver, Effect, ref_of
from headgate.core.model.ids import AppId, MessageId, QueueId, SessionId
from headgate.testing.checkers.base import Checker, by_ref, is_broadcast, is_exclusive

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken
    from headgate.testing.world import World


class Windows(Checker):
    """The law of windows: never more unconfirmed than the window; of an exclusive queue, one."""

    name = "window"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._one: dict[tuple[SessionId, QueueId], MessageId] = {}
        self._wants: dict[tuple[SessionId, QueueId, AppId], tuple[Interest, ...]] = {}
        self._held: dict[
            tuple[SessionId, QueueId, AppId], dict[MessageId, tuple[str | None, int]]
        ] = {}
        """Unconfirmed messages, each with the text of the subscription it went to, and its size."""
        self._closed: set[tuple[SessionId, QueueId, AppId]] = set()
        """Queues closed and not opened since. A close is answered when everything is given back,
        which may be after the next open."""

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        for each in taken.commands:
            if isinstance(each, c.Close):
                self._closed.add((each.session, each.queue, each.app))
            elif isinstance(each, c.Open):
                self._closed.discard((each.session, each.queue, each.app))
        self._let_go(taken)
        commands = by_ref(taken.commands)
        for effect in taken.outcome.effects:
            command = commands.get(ref_of(effect))
            queue = getattr(effect, "queue", getattr(command, "queue", None))
            if queue is not None and not is_exclusive(queue):
                self._shared(effect, command, taken.number)
            else:
                self._exclusive(effect, command)
        # A session may be answered in the turn that it is gone in.
        self._forget_gone(taken)

    def _exclusive(self, effect: Effect, command: Command | None) -> None:
        if isinstance(effect, e.ServiceEnd):
            for key in [key for key in self._one if key[0] == effect.session]:
                del self._one[key]
        elif isinstance(effect, e.End | e.Deleted | e.Granted):
            self._one.pop((effect.session, effect.queue), None)
        elif isinstance(effect, Deliver) and not isinstance(command, c.Get):
            key = (effect.session, effect.queue)
            if effect.ref is None and key in self._one:
                self.fail(f"{effect} while {self._one[key]!r} is unconfirmed")
            self._one[key] = effect.message.id
        elif isinstance(effect, e.Done) and isinstance(command, c.Confirm):
            self._one.pop((effect.session, command.queue), None)
        elif isinstance(effect, e.Done) and isinstance(command, c.Delete):
            for key in [key for key in self._one if key[1] == command.queue]:
                del self._one[key]

    def _shared(self, effect: Effect, command: Command | None, turn: int) -> None:
        if isinstance(effect, e.Done):
            if isinstance(command, c.Open) and command.read:
                key = (command.session, command.queue, command.app)
                self._wants[key] = command.interests
                self._held[key] = {}
            elif isinstance(command, c.Configure):
                self._configured(command)
            elif isinstance(command, c.Close | c.GiveBack):
                key = (command.session, command.queue, command.app)
                if key in self._closed:
                    self._wants.pop(key, None)
                    self._held.pop(key, None)
        elif isinstance(effect, Deliver) and not is_broadcast(effect.queue):
            self._delivered(effect, turn)

    def _configured(self, command: c.Configure) -> None:
        """A text that was there before goes on with what is unconfirmed of it."""
        key = (command.session, command.queue, command.app)
        texts = {interest.expression for interest in command.interests}
        self._wants[key] = command.interests
        self._held[key] = {
            id: held for id, held in self._held.get(key, {}).items() if held[0] in texts
        }

    def _delivered(self, effect: Deliver, turn: int) -> None:
        key = (effect.session, effect.queue, effect.app)
        wants = self._wants.get(key, ())
        [index] = effect.interests
        if index >= len(wants):
            self.fail(f"{effect} for a subscription that the session does not have")
        window, text = wants[index].window, wants[index].expression
        held = [size for held, size in self._held[key].values() if held == text]
        if len(held) >= window.messages:
            self.fail(f"{effect} with {len(held)} unconfirmed in a window of {window.messages}")
        if window.bytes is not None and sum(held) >= window.bytes:
            self.fail(f"{effect} with {sum(held)} bytes in a window of {window.bytes}")
        parcel = self.world.ledger.by_id[effect.queue, effect.message.id]
        if parcel.gone.get(effect.app) != turn:  # else it was confirmed at once, from before
            self._held[key][effect.message.id] = (text, effect.message.size)

    def _let_go(self, taken: Taken) -> None:
        """Forget messages that a consumer no longer has, for whatever reason."""
        self._forget_gone(taken)
        for fact in taken.outcome.facts:
            if isinstance(fact, f.Returned):
                self._held.get((fact.session, fact.queue, fact.app), {}).pop(fact.message, None)
        for parcel, app in taken.changes.released:
            for (_, queue, whose), held in self._held.items():
                if (queue, whose) == (parcel.queue, app):
                    held.pop(parcel.id, None)

    def calmed(self, world: World) -> None:
        """Where somebody wants everything, and nobody pauses, nothing waits."""
        interests: dict[tuple[QueueId, AppId], list[Interest]] = {}
        for (_, queue, app), wants in self._wants.items():
            interests.setdefault((queue, app), []).extend(wants)
        for parcel in world.ledger.parcels.values():
            for app in sorted(parcel.left):
                wants = tuple(interests.get((parcel.queue, app), ()))
                if (
                    any(interest.expression is None for interest in wants)
                    and all(interest.window.messages for interest in wants)
                    and app in world.domain_of(parcel.queue).apps
                ):
                    self.world.violation(
                        "stuck", f"{parcel.id!r} waits in {parcel.queue!r} for app {app!r}"
                    )

    def _forget_gone(self, taken: Taken) -> None:
        for command in taken.commands:
            if isinstance(command, c.Disconnect):
                self._forget(command.session)

    def _forget(self, session: SessionId) -> None:
        self._one = {key: id for key, id in self._one.items() if key[0] != session}
        self._wants = {key: w for key, w in self._wants.items() if key[0] != session}
        self._held = {key: h for key, h in self._held.items() if key[0] != session}
        self._closed = {key for key in self._closed if key[0] != session}

    def crashed(self) -> None:
        self._one.clear()
        self._wants.clear()
        self._held.clear()
