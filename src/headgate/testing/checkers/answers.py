"""Every request is answered, once, and with what fits it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.core.commands import Command, GiveBack, Request
from headgate.core.effects import Deliver, ref_of
from headgate.core.reader_commands import Feed
from headgate.testing.checkers.base import Checker

if TYPE_CHECKING:
    from headgate.testing.network import Link
    from headgate.testing.simulated_router import Taken
    from headgate.testing.world import World


def _may_wait(command: Command) -> bool:
    return command.may_wait if isinstance(command, Feed) else getattr(command, "waits", False)


class Answers(Checker):
    """Every request is answered once, to the one who asked."""

    name = "answers"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._asked: dict[object, Link] = {}
        self._waiting: set[object] = set()
        """Reads that wait for messages: they are answered in a later turn."""

    def asked(self, link: Link, commands: Sequence[Command]) -> None:
        for command in commands:
            ref = getattr(command, "ref", None)
            if ref is not None:
                self._asked[ref] = link

    def turn(self, taken: Taken) -> None:
        # Messages come before the answer that ends a pull or a claim.
        refs = (
            ref_of(effect)
            for effect in taken.outcome.effects
            if not (isinstance(effect, Deliver) and effect.seq)
        )
        replies = Counter(ref for ref in refs if ref is not None)
        for effect in taken.outcome.effects:
            ref = ref_of(effect)
            link = taken.router.links.get(effect.session)
            if ref is not None and link is not None and self._asked.get(ref) is not link:
                self.fail(f"{effect} answers what {link.client.name} did not ask")
        # What goes on in a later turn is answered there.
        later = {getattr(command, "ref", None) for command in taken.outcome.again}
        for command in taken.commands:
            ref = getattr(command, "ref", None)
            if ref is None or not isinstance(command, Request | GiveBack):
                continue
            if ref in later and not replies[ref]:
                continue
            if _may_wait(command) and not replies[ref]:
                self._waiting.add(ref)
                continue
            count = replies.pop(ref, 0)
            link = self._asked.pop(ref)
            if count > 1 or (count == 0 and not link.closed):
                self.fail(f"{command} was answered {count} times")
        for ref in [ref for ref in replies if ref in self._waiting]:
            self._waiting.remove(ref)
            del self._asked[ref]
            if replies.pop(ref) > 1:
                self.fail(f"a read that waited was answered twice: {ref}")
        if +replies:
            self.fail(f"answers to nobody: {list(replies)}")

    def crashed(self) -> None:
        self._asked.clear()
        self._waiting.clear()
