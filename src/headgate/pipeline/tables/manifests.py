"""Manifests: which files of the tables count, and the state that follows from all of them.

A manifest is numbered, and there is one of each number. It adds files, removes files, or both, for
all tables at once. That of a batch also says which facts its files are made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from headgate.errors import PipelineError

SCHEMA_VERSION = 2
"""Of the tables' columns and of manifests. A newer one is refused: it could mean something else.
From 2 on the day is in the files, and not only in the names of their folders."""

RECENT = 200
"""Batches that a state tells of."""

FOLDED = "/batches=over."
"""In the path of files whose rows need no others."""

END = 2**63 - 1
"""A number that no fact reaches."""

DAY = re.compile(r"/(?:day|on)=(\d{4}-\d\d-\d\d)/")


class File(msgspec.Struct, frozen=True, array_like=True):
    """A file of a table, and the facts that its rows are made of."""

    path: str
    """Below the root."""
    bytes: int
    after: int
    upto: int
    """Numbers of facts: after this one, and up to that one."""

    @property
    def day(self) -> str:
        """The day of its rows, as it is written."""
        match = DAY.search(self.path)
        return match[1] if match is not None else ""

    @property
    def is_folded(self) -> bool:
        """Whether its rows need no others: see `Table.fold`."""
        return FOLDED in self.path

    @property
    def is_old(self) -> bool:
        """Whether the day of its rows is only in its path, as in version 1."""
        return "/day=" in self.path


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch of the stream: the facts that it read, and what it took."""

    number: int
    """Spark's."""
    query: str
    """Spark's id of the query, which its checkpoint has: another counts batches anew."""
    journal: str
    """The identity of the journal, empty if it has none."""
    after: int
    upto: int
    facts: int
    at: float | None
    """When the last fact of it happened."""
    started: float
    seconds: float
    wishes: str | None = None
    """The file that says who wants what after it."""
    seen: int = -1
    """The manifest that it began with."""


Files: TypeAlias = Mapping[str, list[File]]
"""By the name of the table."""


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A manifest: one change of which files count."""

    number: int
    at: float
    schema: int
    added: dict[str, list[File]] = {}
    removed: dict[str, list[str]] = {}
    batch: Batch | None = None
    revises: bool = False
    """Whether facts from before the last batch have come to the tables."""


class State(msgspec.Struct):
    """The state of the tables as of a manifest: the files that count, and the latest batches."""

    number: int = -1
    """Of the last manifest; -1 if there is none yet."""
    schema: int = SCHEMA_VERSION
    """The newest of its manifests."""
    files: dict[str, dict[str, File]] = {}
    """By table and path."""
    recent: list[Batch] = []
    """The latest batches, oldest first."""
    revised: int = -1
    """The last manifest that revises; -1 if there is none."""

    @property
    def batch(self) -> Batch | None:
        """The last batch."""
        return self.recent[-1] if self.recent else None

    @property
    def upto(self) -> int:
        """The last fact that the tables hold."""
        return self.batch.upto if self.batch is not None else 0

    @property
    def journal(self) -> str:
        """The identity of the journal that the tables are made of, as far as it is known."""
        return self.batch.journal if self.batch is not None else ""

    @property
    def is_revised(self) -> bool:
        """Whether facts have come to the tables that the last batch did not know of."""
        return self.batch is not None and self.batch.seen < self.revised

    def has(self, query: str, batch: int) -> bool:
        """Whether a batch is in the tables: it, or one after it, is the last of its query."""
        last = self.batch
        return last is not None and last.query == query and batch <= last.number

    def table(self, name: str) -> list[File]:
        """The files of a table, in the order of the facts."""
        return sorted(self.files.get(name, {}).values(), key=lambda file: (file.after, file.path))

    def check_version(self) -> None:
        """Raise if it is newer than this program."""
        if self.schema > SCHEMA_VERSION:
            raise PipelineError(
                f"the tables are of version {self.schema}, and this Headgate knows"
                f" {SCHEMA_VERSION}: upgrade it"
            )

    def check(self, batch: Batch | None, removed: Mapping[str, Iterable[str]]) -> None:
        """Raise unless a manifest like this can be the next one."""
        for table, paths in removed.items():
            gone = [path for path in paths if path not in self.files.get(table, {})]
            if gone:
                raise Outdated(f"{gone[0]} of {table} does not count any more")
        if batch is None:
            return
        if self.has(batch.query, batch.number):
            raise Outdated(
                f"batch {batch.number} was written by another pipeline meanwhile; its rows count,"
                " these do not: let one of the two run"
            )
        if batch.after < self.upto:
            raise PipelineError(
                f"batch {batch.number} begins with fact {batch.after + 1}, and the tables hold the"
                f" facts up to {self.upto} already: remove the folder _checkpoint, and run again"
            )

    def apply(self, manifest: Manifest) -> None:
        """Become the state as of the next manifest."""
        assert manifest.number == self.number + 1, "manifests are applied in their order"
        self.schema = max(self.schema, manifest.schema)
        self.check_version()
        for table, paths in manifest.removed.items():
            for path in paths:
                self.files.get(table, {}).pop(path, None)
        for table, files in manifest.added.items():
            self.files.setdefault(table, {}).update({file.path: file for file in files})
        if manifest.batch is not None:
            self.recent = [*self.recent[1 - RECENT :], manifest.batch]
        if manifest.revises:
            self.revised = manifest.number
        self.number = manifest.number


class Outdated(PipelineError):
    """The error of a commit that no longer fits, because somebody else was faster."""


encode = msgspec.json.Encoder().encode
decode_manifest = msgspec.json.Decoder(Manifest).decode
decode_state = msgspec.json.Decoder(State).decode
