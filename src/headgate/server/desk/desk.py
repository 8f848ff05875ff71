"""The desk of a router that serves: what its API answers from, and for how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.routing import Route

from headgate.server.admin.guard import VIEWER
from headgate.server.admin.metrics import Metrics
from headgate.server.admin.responses import Refusal
from headgate.server.certificates import ending_soon
from headgate.server.config.sections import Config
from headgate.server.desk.actions import ACTIONS, Actions
from headgate.server.desk.answers import CommandOptions
from headgate.server.desk.audits import Audits
from headgate.server.desk.command_options import command_options
from headgate.server.desk.elsewhere import NOBODY_ELSEWHERE, Elsewhere
from headgate.server.desk.journal_page import JournalPage
from headgate.server.desk.operating import Operating
from headgate.server.desk.pace import Pace, ViewerPace
from headgate.server.desk.pipeline_page import PipelinePage
from headgate.server.desk.routes.all_paths import PATHS
from headgate.server.desk.routes.path import routes
from headgate.server.desk.sampler import Sampler
from headgate.server.desk.service_rows import KINDS as SERVICE_KINDS
from headgate.server.desk.service_rows import ServiceRows
from headgate.server.desk.tail import Tails
from headgate.server.router import VERSION, Router
from headgate.server.state_directory import is_durable

QUESTIONS_PER_SECOND = 20
"""Expressions that are tried and messages that are explained, for all who ask together: each may
take some milliseconds."""
EXPRESSIONS_PER_SECOND = 5
"""Expressions of one viewer, so that one who types fast leaves something to others."""
CERTIFICATES_SECONDS = 600.0
"""Between two looks at until when they can be used."""


class Desk:
    """The parts that the API of one router answers from. `serve` owns it, and has it `opened` while
    the router is."""

    version = VERSION

    def __init__(
        self,
        router: Router,
        metrics: Metrics,
        *,
        stage: Callable[[], str],
        started: Callable[[], Config],
        latest: Callable[[], Config],
        operating: Operating,
        listening: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.router = router
        self._metrics = metrics
        self._stage = stage
        self.started = started
        """The configuration that the router was started with."""
        self.latest = latest
        """The one that was read last."""
        self._listening = listening
        """Where the router can be reached, by wire, and its admin port."""
        self.has_actions = started().admin.operator_token is not None
        """Without a token for operators there are none."""
        self.actions = Actions(self, operating)
        self.at_work = asyncio.Lock()
        """Long answers are put together one after another."""
        self._pace = Pace(QUESTIONS_PER_SECOND, time.monotonic)
        self._expressions = ViewerPace(EXPRESSIONS_PER_SECOND, time.monotonic)
        self.audits = Audits(router.clock, lambda: started().source)
        self.journal = JournalPage(router, router.clock)
        self.pipeline = PipelinePage(router.clock)
        self.services = ServiceRows(router)
        self.tails = Tails(router)
        self.elsewhere: Elsewhere = NOBODY_ELSEWHERE
        """The other workers, if the router has some."""
        self._sampler: Sampler | None = None

    @property
    def sampler(self) -> Sampler:
        assert self._sampler is not None, "asked only of a desk that is open"
        return self._sampler

    def gauges(self) -> dict[str, float]:
        """Of the desk itself, by the names that metrics.py describes."""
        if self._sampler is None:
            return {}
        return {
            "loop_lag_seconds": self._sampler.late,
            "desk_viewers": len(self._sampler.viewers),
            "desk_sample_seconds": self._sampler.took,
        }

    def routes(self) -> list[Route]:
        acting = ACTIONS if self.has_actions else []
        return routes(self, [*acting, *PATHS])

    def check_ready(self) -> None:
        """Refuse what cannot be answered because the router has not started, or stops."""
        if self._sampler is None:
            raise Refusal(503, f"router: {self._stage()}", "not_ready", "ask again in a second")

    def check_pace(self, request: Request, *, counts: bool = False) -> None:
        """Refuse what is asked too often. It is charged before anything is done; `counts` is for
        expressions, which each viewer may ask some of."""
        most = EXPRESSIONS_PER_SECOND
        if counts and not self._expressions.take(request.scope.get(VIEWER, b"")):
            error = f"{most} expressions a second are tried for each who looks"
            raise Refusal(429, error, "too_many", "ask again in a second", after=1)
        if not self._pace.take():
            error = f"{QUESTIONS_PER_SECOND} questions a second are answered to all together"
            raise Refusal(429, error, "too_many", "ask again in a second", after=1)

    def command_options(self) -> CommandOptions:
        """The options with which commands reach this router."""
        return command_options(self.started(), self._listening())

    async def _watch_certificates(self, sampler: Sampler) -> None:
        """Files are read in a thread."""
        while True:
            found = await asyncio.to_thread(ending_soon, self.latest(), time.time())
            sampler.certificates = found
            await asyncio.sleep(CERTIFICATES_SECONDS)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Sample the router, which was started, until the end of the block."""
        recent = self.started().desk.recent
        sampler = Sampler(
            self.router,
            self._metrics,
            elsewhere=self.elsewhere,
            version=VERSION,
            stage=self._stage,
            recent=recent,
            directory=self.started().directory if is_durable(self.started()) else None,
        )
        sampler.observers.add(SERVICE_KINDS, self.services.take)
        sampler.every_second += [self.journal.pass_second, self.tails.pass_second]
        self._sampler = sampler
        watching = asyncio.create_task(self._watch_certificates(sampler), name="certificates")
        try:
            async with sampler.running():
                yield
        finally:
            watching.cancel()
            await self.audits.end()
            self.tails.end()
            self._sampler = None
