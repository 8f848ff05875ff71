"""A session inside the router's own process: requests with answers, and deliveries to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Concatenate, ParamSpec

from headgate.core.commands import Command
from headgate.core.effects import Deliver, Effect, Failed, ref_of
from headgate.core.model.ids import Ref, SessionId
from headgate.server.router import Router

P = ParamSpec("P")


class InProcessSession:
    """A session within the process, for the demo, the benchmarks and the tests."""

    def __init__(self, router: Router, name: str) -> None:
        self._router = router
        self._refs = count(1)
        self._waiting: dict[Ref, asyncio.Future[Effect]] = {}
        self.events: asyncio.Queue[Effect] = asyncio.Queue()
        """Deliveries and events that are not an answer, in order."""
        self.id: SessionId = router.connect("local", name, self._receive)

    def ask(
        self,
        kind: Callable[Concatenate[SessionId, Ref, P], Command],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> asyncio.Future[Effect]:
        """Submit a command of this kind; the future has its answer or its error."""
        ref = next(self._refs)
        answer: asyncio.Future[Effect] = asyncio.get_running_loop().create_future()
        self._waiting[ref] = answer
        try:
            self._router.submit(self.id, [kind(self.id, ref, *args, **kwargs)])
        except BaseException:
            del self._waiting[ref]
            raise
        return answer

    async def delivery(self) -> Deliver:
        """The next message; other events before it are passed over."""
        while True:
            event = await self.events.get()
            if isinstance(event, Deliver):
                return event

    def close(self, *, lost: bool = False) -> None:
        self._router.disconnect(self.id, "lost" if lost else "closed", lost=lost)
        for answer in self._waiting.values():
            answer.cancel()
        self._waiting.clear()

    def _receive(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            answer = self._waiting.pop(ref_of(effect), None)
            if answer is None:
                self.events.put_nowait(effect)
            elif answer.cancelled():
                continue
            elif isinstance(effect, Failed):
                answer.set_exception(effect.error)
            else:
                answer.set_result(effect)
