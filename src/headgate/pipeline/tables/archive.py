"""The archive of the tables: Parquet files in a folder, and a log that says which of them count.

    _log/00000000000000000042.json
    _log/00000000000000000032.state.json
    _data/messages/batches=7.x5f0c…/on=2026-11-15/part-….parquet

Whoever writes rows writes them into a folder of their own and then commits a manifest that names
the files (`manifests`); until then they are nowhere. See docs/design/tables.md.

Listing files needs no Spark, so that is imported where rows are.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.errors import PipelineError
from headgate.pipeline.tables.manifests import (
    SCHEMA_VERSION,
    Batch,
    File,
    Files,
    Manifest,
    State,
    decode_manifest,
    decode_state,
    encode,
)
from headgate.pipeline.tables.storage import Storage
from headgate.pipeline.tables.wanted import WANTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.pipeline.tables.tables import Table

LOG, DATA = "_log", "_data"
"""Names with a line in front: who reads a folder by its name would count rows twice."""
WISHES = f"{DATA}/_wishes"
ENTRY = re.compile(r"(\d{20})\.json")
STATE = re.compile(r"(\d{20})\.state\.json")
STATE_EVERY = 32
"""So many manifests are read at most, after a state."""


def entry_path(number: int) -> str:
    return f"{LOG}/{number:020}.json"


def state_path(number: int) -> str:
    return f"{LOG}/{number:020}.state.json"


class Archive:
    """The tables on disk: written by attempt, committed by manifest, read as views."""

    def __init__(self, root: str, clock: Callable[[], float] = time.time) -> None:
        self.storage = Storage(root)
        self.clock = clock

    # Writing.

    def write(self, table: Table, attempt: str, rows: DataFrame | pa.Table) -> None:
        """Write rows that count from the manifest on that names them: by Spark, or those that are
        here."""
        folder = folder_of(table, attempt)
        if isinstance(rows, pa.Table):
            self._put(folder, rows)
            return
        from pyspark.sql import functions as F

        # The name of a folder is not in its files, and everybody else wants the day there.
        rows = rows.withColumn("on", F.col("day"))
        path = self.storage.uri(folder)
        rows.write.partitionBy("on").option("compression", "zstd").parquet(path)

    def written(self, table: Table, attempt: str, after: int, upto: int) -> list[File]:
        """The files of an attempt, whose rows are made of these facts."""
        return [
            File(found.path, found.bytes, after, upto)
            for found in self.storage.walk(folder_of(table, attempt))
            if found.path.endswith(".parquet")
        ]

    def wish(self, attempt: str, table: pa.Table) -> str:
        """Keep who wants what after a batch; return where."""
        path = f"{WISHES}/{attempt}.parquet"
        self.storage.put(path, _parquet(table))
        return path

    def commit(
        self,
        added: Files,
        removed: Mapping[str, list[str]] | None = None,
        batch: Batch | None = None,
        revises: bool = False,
    ) -> State:
        """Make these files count, and those not any more, all at once; raise if what was
        committed meanwhile does not allow it. `revises` is said of a batch's facts that come
        late."""
        while True:
            state = self.state()
            state.check(batch, removed or {})
            manifest = Manifest(
                state.number + 1,
                self.clock(),
                SCHEMA_VERSION,
                {table: files for table, files in added.items() if files},
                {table: paths for table, paths in (removed or {}).items() if paths},
                batch,
                revises,
            )
            if self.storage.put(entry_path(manifest.number), encode(manifest)):
                break
        state.apply(manifest)
        if state.number % STATE_EVERY == 0:
            self.storage.put(state_path(state.number), encode(state))
        return state

    # Reading.

    def state(self) -> State:
        """The state that counts now."""
        names = self.storage.names(LOG)
        states = [int(match[1]) for name in names if (match := STATE.fullmatch(name))]
        numbers = [int(match[1]) for name in names if (match := ENTRY.fullmatch(name))]
        state = self._state(states[-1]) if states else State()
        for number in numbers:
            if number > state.number:
                state.apply(self._manifest(number, state.number + 1))
        return state

    def read(self, session: SparkSession, table: Table, state: State | None = None) -> DataFrame:
        """A table as its readers see it."""
        files = (state or self.state()).table(table.name)
        rows = self.stored(session, table, files)
        return table.view(rows) if table.view is not None else rows

    def stored(self, session: SparkSession, table: Table, files: Iterable[File]) -> DataFrame:
        """The rows of some files of a table."""
        old: list[str] = []
        new: list[str] = []
        for file in files:
            (old if file.is_old else new).append(self.storage.uri(file.path))
        reader = session.read.schema(table.stored_schema)
        base = self.storage.uri(f"{DATA}/{table.name}")
        parts = [reader.parquet(*new)] if new else []
        if old:
            parts.append(reader.option("basePath", base).parquet(*old).drop("batches"))
        if not parts:
            return session.createDataFrame([], table.stored_schema)
        return reduce(lambda rows, more: rows.unionByName(more), parts)

    def wishes(self, path: str | None) -> pa.Table:
        """The wishes in a file of them."""
        if path is None:
            return WANTED.empty_table()
        data = self.storage.read(path)
        if data is None:
            raise PipelineError(f"{path} is gone, which says who wanted what: put it back")
        if path.endswith(".json"):  # of version 1
            return pa.Table.from_pylist(
                [
                    {"queue": bytes.fromhex(row[0]), "app": row[1], "session": row[2]}
                    | {"expressions": row[3]}
                    for row in json.loads(data)
                ],
                schema=WANTED,
            )
        return pq.read_table(pa.BufferReader(data))

    # Inside.

    def _put(self, folder: str, rows: pa.Table) -> None:
        """Write rows as Spark would, in a folder for each day."""
        for day in pc.unique(rows["day"]):
            part = rows.filter(pc.equal(rows["day"], day))
            self.storage.put(f"{folder}/on={day}/part-0.parquet", _parquet(part))

    def _state(self, number: int) -> State:
        path = state_path(number)
        try:
            state = decode_state(self.storage.read(path) or b"")
        except msgspec.MsgspecError as error:
            raise PipelineError(
                f"{self.storage.uri(path)} cannot be read ({error}): remove it; the manifests"
                " before it say the same"
            ) from error
        state.check_version()
        return state

    def _manifest(self, number: int, wanted: int) -> Manifest:
        path = entry_path(wanted)
        try:
            if number == wanted:
                return decode_manifest(self.storage.read(path) or b"")
            why = "it is not there"
        except msgspec.MsgspecError as error:
            why = str(error)
        raise PipelineError(
            f"{self.storage.uri(path)}, which says what is in the tables, cannot be read ({why}):"
            " put it back, or begin with an empty folder (the facts are read again from the"
            " journal)"
        )


def attempt_of(what: object) -> str:
    """The name of an attempt, which nobody else has."""
    return f"{what}.x{uuid.uuid4().hex[:12]}"


def folder_of(table: Table, attempt: str) -> str:
    return f"{DATA}/{table.name}/batches={attempt}"


def _parquet(rows: pa.Table) -> bytes:
    file = pa.BufferOutputStream()
    pq.write_table(rows, file, compression="zstd", store_schema=False)
    data: bytes = file.getvalue().to_pybytes()
    return data
