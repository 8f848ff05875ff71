"""Named consumers in the tests of the core: who fetches by which name, and what comes of it."""

from __future__ import annotations

from headgate.core.commands import Interest
from headgate.core.effects import Deliver, Effect, Failed
from headgate.core.model.ids import AppId, SessionId
from headgate.core.model.message import Message
from headgate.core.model.stream_id import FIRST, StreamId, stream_id
from headgate.core.reader_commands import (
    Acknowledge,
    Add,
    DropReader,
    ListPending,
    MakeReader,
    Pull,
    RemoveMessages,
    Survey,
    TakeOver,
    Want,
    Withdraw,
)
from headgate.core.reader_effects import (
    Added,
    AppView,
    ClaimDone,
    Counted,
    PendingListed,
    PendingMessage,
    Pulled,
    Surveyed,
)
from headgate.errors import HeadgateError
from tests.support.shared_queues import Q, Shop, number_of

LAST = StreamId(1 << 60, 1 << 60)


class Patron:
    """A session that fetches by the name of a reader."""

    def __init__(
        self,
        shop: Shop,
        name: bytes = b"r",
        *,
        app: AppId = "",
        where: str | None = None,
        priority: int = 0,
        session: SessionId | None = None,
    ) -> None:
        self.shop = shop
        self.name = name
        self.app = app
        self.interest = Interest(where, priority)
        self.session = shop.rig.session(name.decode()) if session is None else session
        self.ids: dict[int, StreamId] = {}
        """Of what it was told, by the numbers of the messages."""
        self._seen = 0

    # Asking.

    def pulling(
        self,
        count: int | None = None,
        *,
        waits: bool = False,
        after: StreamId | None = None,
        confirms: bool = False,
        claims: float | None = None,
    ) -> Pull:
        want = Want(Q, self.shop.domain.name, self.app, after)
        return Pull(
            self.session,
            self.shop.ref(),
            (want,),
            self.name,
            self.interest,
            count,
            waits,
            confirms,
            claims,
        )

    def fetch(self, count: int | None = None, *, confirms: bool = False) -> list[int]:
        """What is in line for it now."""
        command = self.pulling(count, confirms=confirms)
        return self.answer(command, self.shop.do(command))

    def held(self, after: StreamId = FIRST, count: int | None = None) -> list[int]:
        """What it holds, told once more."""
        command = self.pulling(count, after=after)
        return self.answer(command, self.shop.do(command))

    def wait(self, count: int | None = None, *, claims: float | None = None) -> Pull:
        """Fetch, and wait if there is nothing."""
        command = self.pulling(count, waits=True, claims=claims)
        effects = self.shop.do(command)
        assert not [e for e in effects if isinstance(e, Pulled)], "it was answered at once"
        return command

    def answer(self, command: Pull | TakeOver, effects: list[Effect]) -> list[int]:
        """The messages that answer a request, which must be over."""
        over = [e for e in effects if getattr(e, "ref", None) == command.ref]
        assert isinstance(over[-1], Pulled | ClaimDone), f"{command} came to {over}"
        told = [e for e in over if isinstance(e, Deliver)]
        assert len(told) == len(over) - 1
        for each in told:
            self.ids[number_of(each.message)] = stream_id(each.message.arrived, each.seq)
        return [number_of(each.message) for each in told]

    def error(self, command: Pull | TakeOver) -> HeadgateError:
        [failed] = [e for e in self.shop.do(command) if isinstance(e, Failed)]
        return failed.error

    def withdraw(self, command: Pull) -> list[Effect]:
        return self.shop.do(Withdraw(self.session, command.ref))

    def acknowledging(self, *ids: StreamId) -> Acknowledge:
        """The command that acknowledges, not yet done."""
        return Acknowledge(self.session, self.shop.ref(), Q, self.shop.domain.name, self.app, ids)

    def acknowledge(self, *ids: StreamId) -> int:
        return self._count(self.shop.do(self.acknowledging(*ids)))

    def done(self, *numbers: int) -> int:
        """Acknowledge messages that it was told."""
        return self.acknowledge(*(self.ids[number] for number in numbers))

    def remove(self, *ids: StreamId) -> int:
        command = RemoveMessages(self.session, self.shop.ref(), Q, self.shop.domain.name, ids)
        return self._count(self.shop.do(command))

    def claiming(self, *ids: StreamId, idle: float = 0.0, **options: object) -> TakeOver:
        return TakeOver(
            self.session,
            self.shop.ref(),
            Q,
            self.shop.domain.name,
            self.app,
            self.name,
            idle,
            ids,
            **options,  # type: ignore[arg-type]
        )

    def claim(self, *ids: StreamId, idle: float = 0.0, **options: object) -> list[int]:
        command = self.claiming(*ids, idle=idle, **options)
        return self.answer(command, self.shop.do(command))

    def sweep(
        self, start: StreamId = FIRST, *, idle: float = 0.0, count: int = 100
    ) -> tuple[list[int], ClaimDone]:
        """TakeOver whatever is found."""
        command = TakeOver(
            self.session,
            self.shop.ref(),
            Q,
            self.shop.domain.name,
            self.app,
            self.name,
            idle,
            None,
            start,
            count,
            interest=self.interest,
        )
        effects = self.shop.do(command)
        [done] = [e for e in effects if isinstance(e, ClaimDone)]
        return self.answer(command, effects), done

    def make(self) -> int:
        command = MakeReader(
            self.session, self.shop.ref(), Q, self.shop.domain.name, self.app, self.name
        )
        return self._count(self.shop.do(command))

    def drop(self) -> int:
        command = DropReader(
            self.session, self.shop.ref(), Q, self.shop.domain.name, self.app, self.name
        )
        return self._count(self.shop.do(command))

    def leave(self) -> None:
        """Its session is gone."""
        self.shop.note(self.shop.rig.leave(self.session))

    def again(self) -> Patron:
        """The same reader by another session."""
        found = Patron(
            self.shop,
            self.name,
            app=self.app,
            where=self.interest.expression,
            priority=self.interest.priority,
        )
        found.ids = self.ids
        return found

    # Looking.

    def pending(self, **options: object) -> list[PendingMessage]:
        command = ListPending(
            self.session,
            self.shop.ref(),
            Q,
            self.shop.domain.name,
            self.app,
            options.pop("first", FIRST),  # type: ignore[arg-type]
            LAST,
            options.pop("count", 1000),  # type: ignore[arg-type]
            **options,  # type: ignore[arg-type]
        )
        [listed] = [e for e in self.shop.do(command) if isinstance(e, PendingListed)]
        return list(listed.messages)

    def view(self) -> AppView:
        command = Survey(self.session, self.shop.ref(), Q, self.shop.domain.name)
        [surveyed] = [e for e in self.shop.do(command) if isinstance(e, Surveyed)]
        [view] = [view for view in surveyed.apps if view.app == self.app]
        return view

    def _count(self, effects: list[Effect]) -> int:
        [counted] = [e for e in effects if isinstance(e, Counted)]
        return counted.count


def add(shop: Shop, session: SessionId, message: Message, *, makes: bool = True) -> StreamId | None:
    """Put a message into the queue by name."""
    command = Add(session, shop.ref(), Q, shop.domain.name, message, makes)
    [added] = [e for e in shop.do(command) if isinstance(e, Added)]
    return added.id
