"""The tables as Iceberg tables, for everybody who reads those: a mirror of what counts.

The log of manifests stays what decides. A mirror compares what it shows with what counts, and makes
one snapshot of a table out of the difference: the same Parquet files, nothing is copied. Each
snapshot says which manifest it shows, so a mirror never goes back, and whoever finds two of them
at work finds one of the two refused by the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import Transaction
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from headgate.errors import PipelineError
from headgate.pipeline.source.schema import PROPERTIES
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.manifests import File, State
from headgate.pipeline.tables.mirrors import Overtaken, Settings
from headgate.pipeline.tables.storage import Storage
from headgate.pipeline.tables.tables import TABLES, Table
from headgate.store.private import make_folder

FOLDER = "_iceberg"
"""Where a catalog of our own is, and what describes its tables."""
MANIFEST = "headgate.manifest"
"""The property of a snapshot that says which manifest it shows."""
FACTS = "headgate.upto"
"""And up to which fact."""
JOURNAL = "headgate.journal"
"""And of which journal the facts are."""
KEPT = 20
"""Snapshots of a table that the catalog knows."""
KEPT_SECONDS = 600.0
"""How long the files stay that describe a snapshot, as data files do that count no more."""

PRUNED_BY = ("number", "time", "day", "minute", "hour", "kind", "address")
"""Columns of which Iceberg knows the least and the largest of each file. Of all 49 they would make
more than the small files of a batch."""

PROPERTIES_OF_TABLES = {
    # Somebody else has committed: what is to be done is another thing now.
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.metrics.default": "none",
    **{f"write.metadata.metrics.column.{name}": "truncate(16)" for name in PRUNED_BY},
}


@dataclass
class Shown:
    """A table as the catalog has it."""

    table: IcebergTable
    paths: set[str]
    """The files of its snapshot."""


@dataclass
class Mirror:
    """Iceberg tables that show what counts in an archive. One thread at a time uses it."""

    archive: Archive
    settings: Settings
    _catalog: Catalog | None = None
    _shown: dict[str, Shown] = field(default_factory=dict)

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = _opened(self.archive.storage, self.settings)
        return self._catalog

    @property
    def where(self) -> str:
        """The way to read the tables, for other programs."""
        uri = self.catalog.properties.get("uri", self.settings.catalog)
        return f"{uri}, namespace {self.settings.namespace}"

    def make_namespace(self) -> None:
        self.catalog.create_namespace_if_not_exists(self.settings.namespace)

    def table(self, name: str) -> IcebergTable:
        """A table as it is now."""
        return self.catalog.load_table((self.settings.namespace, TABLES[name].stored_name))

    def check(self) -> None:
        """Raise if the namespace shows tables that are made of another journal."""
        state = self.archive.state()
        for name in TABLES:
            with suppress(NoSuchTableError):
                self._check_journal(self.table(name), state)

    def follow(self) -> list[str]:
        """Show what counts now; say which tables have a new snapshot."""
        state = self.archive.state()
        if state.number < 0:
            return []
        return [name for name, table in TABLES.items() if self._follow(table, state)]

    def tidy(self) -> None:
        """Remove what describes snapshots that are gone, where the catalog is ours; others see to
        theirs."""
        for name, table in TABLES.items():
            shown = self._shown.get(name) or self._load(table)
            if shown is not None and not self.settings.catalog:
                _sweep(self.archive.storage, shown.table, self.archive.clock() - KEPT_SECONDS)

    # Inside.

    def _follow(self, table: Table, state: State) -> bool:
        files = {_uri(self.archive.storage, file.path): file for file in state.table(table.name)}
        if old := next((file for file in files.values() if file.is_old), None):
            raise PipelineError(
                f"{old.path} is of an older version, and cannot be shown by Iceberg: bring the"
                " tables up to date with `headgate pipeline tidy`"
            )
        shown = self._shown.get(table.name) or self._load(table)
        if shown is None:
            shown = self._make(table)
        added, gone = files.keys() - shown.paths, shown.paths - files.keys()
        if not added and not gone:
            return False
        self._check_journal(shown.table, state)
        if _manifest_of(shown.table) >= state.number:
            self._shown.pop(table.name, None)
            return False  # somebody else was faster, and knows more
        what = {MANIFEST: str(state.number), FACTS: str(state.upto), JOURNAL: state.journal}
        with self._as_committed(table.name), shown.table.transaction() as transaction:
            snapshot = transaction.update_snapshot(snapshot_properties=what)
            with snapshot.overwrite() if gone else snapshot.fast_append() as change:
                for path in sorted(added):
                    change.append_data_file(
                        parquet_file_to_data_file(shown.table.io, transaction.table_metadata, path)
                    )
                for path in gone:
                    change.delete_data_file(_named(path, shown.table))
            if old_ones := _old_snapshots(shown.table):
                ExpireSnapshots(transaction).by_ids(old_ones).commit()
        shown.paths = set(files)
        return True

    def _check_journal(self, table: IcebergTable, state: State) -> None:
        """Two mirrors of different tables in one place would each take out the other's files."""
        known = _summary_of(table).get(JOURNAL)
        if known and state.journal and known != state.journal:
            raise PipelineError(
                f"{table.name()[-1]} in {self.where} shows the journal {known}, and the tables in"
                f" {self.archive.storage.root} are of {state.journal}: each router needs a"
                " namespace of its own there (`headgate pipeline iceberg --namespace NAME`)"
            )

    def _load(self, table: Table) -> Shown | None:
        """A table as the catalog has it, with its present columns. The process that made it may
        have been killed before its names were mapped."""
        try:
            found = self.table(table.name)
        except NoSuchTableError:
            return None
        wanted = schema_of(table)
        known = {each.name for each in found.schema().fields}
        is_wider = any(each.name not in known for each in wanted.fields)
        if is_wider or NAME_MAPPING not in found.properties:
            with self._as_committed(table.name), found.transaction() as transaction:
                if is_wider:
                    with transaction.update_schema() as change:
                        change.union_by_name(wanted)
                _map_names(transaction)
        self._shown[table.name] = Shown(found, set(_paths(found)))
        return self._shown[table.name]

    def _make(self, table: Table) -> Shown:
        schema = schema_of(table)
        day = schema.find_field("day").field_id
        with self._as_committed(table.name):
            made = self.catalog.create_table(
                (self.settings.namespace, table.stored_name),
                schema,
                partition_spec=PartitionSpec(PartitionField(day, 1000, IdentityTransform(), "day")),
                properties=PROPERTIES_OF_TABLES,
            )
            with made.transaction() as transaction:
                _map_names(transaction)
        self._shown[table.name] = Shown(made, set())
        return self._shown[table.name]

    @contextmanager
    def _as_committed(self, name: str) -> Iterator[None]:
        """A cached table is right only if it was committed."""
        try:
            yield
        except (CommitFailedException, TableAlreadyExistsError) as error:
            self._shown.pop(name, None)
            raise Overtaken(f"another mirror of {name} was faster: {error}") from error
        except BaseException:
            self._shown.pop(name, None)
            raise


NAME_MAPPING = "schema.name-mapping.default"
"""Files of Spark name their columns and do not number them."""


def _map_names(transaction: Transaction) -> None:
    names = transaction.table_metadata.schema().name_mapping
    transaction.set_properties({NAME_MAPPING: names.model_dump_json()})


# Catalogs and paths.


def _opened(storage: Storage, settings: Settings) -> Catalog:
    if settings.catalog:
        return load_catalog(settings.catalog)
    if storage.local is None:
        raise PipelineError(
            f"a catalog of our own is a file, and {storage.root} is no folder of this machine: name"
            " a catalog of pyiceberg's configuration with --catalog"
        )
    folder = storage.local.absolute() / FOLDER
    make_folder(folder)
    return load_catalog(
        "headgate", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )


def _uri(storage: Storage, path: str) -> str:
    if storage.local is not None:
        return f"file://{storage.local.absolute()}/{path}"
    return storage.uri(path)


def _manifest_of(table: IcebergTable) -> int:
    """The manifest that a table shows; -1 if it shows none yet."""
    return int(_summary_of(table).get(MANIFEST) or -1)


def _summary_of(table: IcebergTable) -> Mapping[str, str]:
    """What the current snapshot says of itself."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return {}
    return snapshot.summary.additional_properties


def _paths(table: IcebergTable) -> Iterator[str]:
    """The files of the current snapshot."""
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        for entry in manifest.fetch_manifest_entry(table.io):
            yield entry.data_file.file_path


def _old_snapshots(table: IcebergTable) -> list[int]:
    """The snapshots that are too many. Each commit writes all of them anew."""
    found = sorted(table.metadata.snapshots, key=lambda each: each.timestamp_ms)
    current = table.metadata.current_snapshot_id
    return [each.snapshot_id for each in found[:-KEPT] if each.snapshot_id != current]


def _named(path: str, table: IcebergTable) -> DataFile:
    """A file to be taken out: what matters of it is where it is, and its day."""
    day = date.fromisoformat(File(path, 0, 0, 0).day)
    named = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record((day - date(1970, 1, 1)).days),
        record_count=0,
        file_size_in_bytes=0,
    )
    named.spec_id = table.metadata.default_spec_id
    return named


def _sweep(storage: Storage, table: IcebergTable, before: float) -> None:
    """Remove what describes snapshots that are gone, where the catalog is ours."""
    metadata = table.metadata
    used = {table.metadata_location, *(each.metadata_file for each in metadata.metadata_log)}
    for snapshot in metadata.snapshots:
        used.add(snapshot.manifest_list)
        used |= {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
    names = {each.rpartition("/")[2] for each in used}
    folder = table.location().removeprefix(_uri(storage, ""))
    for found in storage.walk(f"{folder}/metadata"):
        if found.written < before and found.path.rpartition("/")[2] not in names:
            storage.delete(found.path)


# Columns.

TYPES: Mapping[str, IcebergType] = {
    "bigint": LongType(),
    "int": IntegerType(),
    "string": StringType(),
    "binary": BinaryType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
}


def schema_of(table: Table) -> Schema:
    """The columns of a table as they are stored, in Iceberg's types."""
    numbers = iter(range(1, 10_000))
    fields = [
        NestedField(next(numbers), name, TYPES.get(type_) or _map(type_, numbers), required=False)
        for name, type_ in table.stored_types.items()
    ]
    return Schema(*fields)


def _map(type_: str, numbers: Iterator[int]) -> MapType:
    if type_ != PROPERTIES.simpleString():
        raise PipelineError(f"Iceberg has no type for {type_} yet: add it to {__name__}")
    key, value, *inner = (next(numbers) for _ in range(5))
    kinds: dict[str, Any] = {"i": LongType(), "s": StringType(), "b": BooleanType()}
    held = [
        NestedField(number, name, kind, required=False)
        for number, (name, kind) in zip(inner, kinds.items(), strict=True)
    ]
    return MapType(key, StringType(), value, StructType(*held), value_required=False)
