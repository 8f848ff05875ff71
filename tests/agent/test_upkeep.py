"""What an agent does for its records by itself."""

from __future__ import annotations

from headgate.agent.records import Records, received
from headgate.agent.records.received import HASHES_SECONDS, PAGE
from headgate.agent.upkeep import PERIOD_SECONDS, Upkeep
from tests.support.agent_delivery import TestClock
from tests.support.agent_records import C1, NOW, incoming, prepare
from tests.support.smp_peer import StillClock, until

QUEUE = (1, b"queue")


async def test_traces_of_old_messages_go_now_and_then(clock: StillClock) -> None:
    """ACC-99: a message is recognised for as long as a router may give it again. What was not
    acknowledged stays however old it is."""
    async with await Records.memory() as records:
        await prepare(records)
        old, waiting, recent = [
            await records.write(received.add, incoming(QUEUE, n, C1), NOW + n) for n in range(3)
        ]
        for id in (old, recent):
            await records.write(received.acknowledge, id)
        wall = TestClock()
        wall.time = NOW + HASHES_SECONDS + 1
        upkeep = Upkeep(records, clock=wall)
        before = records.commits
        upkeep.start()
        await until(lambda: records.commits == before + 1)
        assert await records.read(received.get, old) is None
        for id in (waiting, recent):
            assert await records.read(received.get, id) is not None
        wall.time += 10
        await clock.advance(PERIOD_SECONDS + 1)
        await until(lambda: records.commits == before + 2)
        assert await records.read(received.get, recent) is None
        assert await records.read(received.get, waiting) is not None
        await upkeep.close()


async def test_many_are_more_than_one_transaction() -> None:
    """Nobody waits long for the writer."""
    async with await Records.memory() as records:
        await prepare(records)
        for n in range(PAGE + 1):
            id = await records.write(received.add, incoming(QUEUE, n, C1), NOW)
            await records.write(received.acknowledge, id)
        wall = TestClock()
        wall.time = NOW + HASHES_SECONDS + 1
        upkeep = Upkeep(records, clock=wall)
        before = records.commits
        upkeep.start()
        await until(lambda: records.commits == before + 2)
        assert await records.read(received.get, PAGE + 1) is None
        await upkeep.close()
