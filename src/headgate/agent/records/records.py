"""Records of an agent between runs: tables in one file, and the thread that writes them."""

from __future__ import annotations

from pathlib import Path

from headgate.agent.records.database import Database
from headgate.agent.records.file import BUSY_SECONDS, AgentFile, AgentMemory
from headgate.store.written_tables import WrittenTables


class Records(WrittenTables[Database]):
    """The store of one agent, which owns it; no other may have the file open.

    The nouns are modules beside this one, with a function for each operation. Every function gets
    the tables first, and a call of `write` is one transaction::

        user = await records.write(users.add, services=True)
        page = await records.read(receive_queues.page, user, router)

    Several operations that belong together are one function of the caller. It runs in the writer's
    thread, and again if its group failed, so it must change nothing but tables.
    """

    def __init__(self, file: AgentFile) -> None:
        super().__init__(str(file.path), file, Database(file))
        self.path = file.path

    @classmethod
    async def open(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Records:
        """Open a file, or make it; raise `StoreError` if another agent has it."""
        return await cls._opened(AgentFile(path, busy_seconds))

    @classmethod
    async def memory(cls) -> Records:
        """Records in memory, without a file."""
        return await cls._opened(AgentMemory())

    @classmethod
    async def _opened(cls, file: AgentFile) -> Records:
        records = cls(file)
        await records._writer.open()
        return records
