"""Effects of an engine that take time: reading rows of the records, and subscribing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headgate.agent.engine import effects as e
from headgate.agent.engine.answers import Answer, Failure, NotSubscribed
from headgate.agent.engine_driver import EngineDriver
from headgate.agent.model import QueueRow, RecipientId, SessionKey
from headgate.agent.record_line import RecordLine
from headgate.agent.records import Database, receive_queues, services
from headgate.agent.slot_sessions import SlotSessions
from headgate.agent.stored_keys import unpack_key
from headgate.client.smp import requests
from headgate.client.smp.failures import FailureKind
from headgate.client.smp.recipient import Request
from headgate.core.model.tally import NOTHING
from headgate.errors import StoreError

NO_SUCH_QUEUE: Final = Failure(FailureKind.PERMANENT, "the records have no such queue")


class EngineRequests:
    """Carries out such effects and reports their outcome to the engine, failures too. The owning
    shell runs each method as a task."""

    def __init__(
        self,
        driver: EngineDriver,
        line: RecordLine[Database],
        sessions: SlotSessions,
        failed: Callable[[Exception], None],
    ) -> None:
        self._driver = driver
        self._engine = driver.engine
        self._line = line
        self._sessions = sessions
        self._failed = failed

    # Reading the records.

    async def read_page(self, effect: e.ReadPage) -> None:
        user, router, limit = effect.user, effect.router, effect.limit
        driver, engine = self._driver, self._engine
        try:
            found = await self._line.read(
                receive_queues.page, user, router, effect.after or b"", limit + 1, effect.which
            )
        except StoreError as error:
            self._failed(error)
            driver.do(engine.read_failed(user, router, effect.request, driver.now()))
            return
        rows = [QueueRow(row.recipient_id, row.connection, row.assoc) for row in found[:limit]]
        more = len(found) > limit
        driver.do(engine.page_read(user, router, effect.request, rows, more, driver.now()))

    async def read_tally(self, session: SessionKey) -> None:
        driver, engine = self._driver, self._engine
        try:
            kept = await self._line.read(services.get, session.slot.user, session.slot.router)
        except StoreError as error:
            self._failed(error)
            failure = Failure(FailureKind.TEMPORARY, str(error))
            driver.do(engine.service_failed(session, failure, driver.now()))
        else:
            tally = NOTHING if kept is None else kept.tally
            driver.do(engine.tally_read(session, tally, driver.now()))

    # Subscribing.

    async def send_subs(self, key: SessionKey, queues: Sequence[RecipientId]) -> None:
        router = key.slot.router
        try:
            wanted = [(router, queue) for queue in queues]
            found = await self._line.read(receive_queues.get_many, wanted)
            asked: list[Request] = []
            missing: list[Answer] = []
            for place in wanted:
                queue = found.get(place)
                if queue is None or queue.deleted:
                    missing.append(NotSubscribed(place[1], NO_SUCH_QUEUE))
                    continue
                try:
                    key_of_queue = unpack_key(queue.key_kind, queue.private_key)
                except StoreError as error:
                    damaged = Failure(FailureKind.PERMANENT, str(error))
                    missing.append(NotSubscribed(place[1], damaged))
                else:
                    asked.append(requests.subscribe(queue.recipient_id, key_of_queue))
            session = self._sessions.get(key.number)
            if session is None:
                return  # the end was reported, and all is pending again
            if missing:
                self._driver.do(self._engine.answered(key, missing, self._driver.now()))
            if asked:
                await session.subscribe(asked)
        except Exception as error:
            self._step_failed(key, error)

    async def send_service_sub(self, effect: e.SendServiceSub) -> None:
        session = self._sessions.get(effect.session.number)
        if session is None:
            return
        try:
            request = requests.subscribe_service(effect.service, effect.expected)
            await session.subscribe_service(request)
        except Exception as error:
            self._step_failed(effect.session, error)

    def _step_failed(self, key: SessionKey, error: Exception) -> None:
        """Report an internal failure, which is not its router's: the engine tries again."""
        self._failed(error)
        self._driver.do(self._engine.step_failed(key, str(error), self._driver.now()))
