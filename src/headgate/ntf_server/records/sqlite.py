"""The tables in a file: the rules of the router's file, with the server's own schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.ntf_server.records.tables import IDS, Row
from headgate.store.sqlite.file import Owner
from headgate.store.sqlite.job_file import JobFile
from headgate.store.sqlite.sql import ROWS_MAX, padded

NTF_FILE: Final = Owner("notification server", 0x48474E54, "headgate.ntf_server.records")
BUSY_SECONDS: Final = 5.0
"""How long a commit waits for a lock of another program, such as a backup."""


class NtfFile(JobFile):
    """A file on a disk. It belongs to one server at a time; keys of strangers are in it, so nobody
    else may read it."""

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        super().__init__(path.absolute(), busy_seconds, NTF_FILE)

    @property
    def name(self) -> str:
        return str(self.path)

    def ask(self, question: str, values: Sequence[object]) -> list[Row]:  # type: ignore[override]
        return self.all(question, values)

    def ask_about(self, question: str, ids: Sequence[bytes], values: Sequence[object]) -> list[Row]:
        found: list[Row] = []
        for start in range(0, len(ids), ROWS_MAX):
            chunk = ids[start : start + ROWS_MAX]
            length = padded(len(chunk))
            text = question.replace(IDS, f"IN ({', '.join('?' * length)})")
            found += self.all(text, [*values, *chunk, *[None] * (length - len(chunk))])
        return found

    def change_many(self, change: str, rows: Sequence[Row]) -> int:
        return self.many(change, rows)
