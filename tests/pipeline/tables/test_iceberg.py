"""The mirror in Iceberg shows what counts, to everybody who reads it, while it changes."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import SparkSession

from headgate.errors import PipelineError
from headgate.pipeline.tables import iceberg, mirrors, upkeep
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.iceberg import KEPT_SECONDS, MANIFEST, Mirror, Shown, schema_of
from headgate.pipeline.tables.keeper import Keeper
from headgate.pipeline.tables.manifests import Batch, File, State
from headgate.pipeline.tables.mirrors import Overtaken, Settings, mirror_of, turn_on
from headgate.pipeline.tables.tables import TABLES, Table
from headgate.pipeline.tables.upkeep import Group
from tests.support.journals import DAY, facts_of_a_day
from tests.support.spark_frames import frame

FACTS = facts_of_a_day(30, bodies=True)
LATER = DAY + 3 * 86_400


def numbered(found: list[dict[str, Any]]) -> list[str]:
    """Rows as texts that can be compared, whoever has read them. A map that is null is an empty
    one to pyiceberg."""
    return sorted(str(sorted((name, str(it or None)) for name, it in row.items())) for row in found)


def by_spark(spark: SparkSession, archive: Archive, name: str) -> list[dict[str, Any]]:
    rows = archive.stored(spark, TABLES[name], archive.state().table(name))
    found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return found


def by_pyiceberg(mirror: Mirror, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mirror.table(name).scan().to_arrow().to_pylist()
    return found


def by_duckdb(mirror: Mirror, name: str, query: str) -> list[Any]:
    """Of the files that the current snapshot names."""
    files = [task.file.file_path for task in mirror.table(name).scan().plan_files()]
    with duckdb.connect() as connection:
        found: list[Any] = connection.execute(query, [files]).fetchall()
        return found


def put(archive: Archive, number: int, day: str = "2026-11-15", rows: int = 3) -> File:
    """A file of messages, as if Spark had written it."""
    path = f"_data/messages/batches={number}.x/on={day}/part.parquet"
    types = {
        "bigint": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
    }
    types |= {"timestamp": pa.timestamp("us", "UTC")}
    held = {
        name: pa.nulls(rows, types[type_])
        for name, type_ in TABLES["messages"].stored_types.items()
        if type_ in types
    }
    held["number"] = pa.array(range(number * rows, (number + 1) * rows))
    held["day"] = pa.array([date.fromisoformat(day)] * rows)
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(held), file)
    data = file.getvalue().to_pybytes()
    archive.storage.put(path, data)
    return File(path, len(data), number, number + 1)


def numbers(mirror: Mirror) -> list[int]:
    return sorted(row["number"] for row in by_pyiceberg(mirror, "messages"))


def test_everybody_reads_the_same_rows_after_batches_and_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = Archive(str(tmp_path), clock=lambda: LATER)
    mirror = turn_on(archive, Settings())
    half = len(FACTS) // 2
    for batch, part in enumerate((FACTS[:half], FACTS[half:])):
        Keeper(str(tmp_path))(frame(spark, part, first=batch * half + 1), batch)
        assert "facts" in mirror.follow()
    planned = mirror.table("facts").scan()
    group = Group(TABLES["facts"], archive.state().table("facts"))
    for is_merged in (False, True):
        if is_merged:
            assert upkeep.compact(spark, archive, group)
            assert mirror.follow() == ["facts"]
        for name in ("facts", "messages", "minutes", "subscriptions"):
            assert numbered(by_pyiceberg(mirror, name)) == numbered(by_spark(spark, archive, name))
        query = "select count(*), count(distinct number), max(number) from read_parquet($1)"
        assert by_duckdb(mirror, "facts", query) == [(len(FACTS),) * 3]
    assert planned.to_arrow().num_rows == len(FACTS), "who planned before still finds the files"
    day = "day = '2025-10-09'"
    wanted = by_duckdb(mirror, "messages", f"select count(*) from read_parquet($1) where {day}")
    assert mirror.table("messages").scan(day).to_arrow().num_rows == wanted[0][0] > 0


def test_a_table_whose_maker_was_killed_before_its_names_were_mapped_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(str(tmp_path))
    archive.commit({"messages": [put(archive, 0)]})
    with monkeypatch.context() as patched:
        patched.setattr(iceberg, "_map_names", lambda transaction: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            turn_on(archive, Settings()).follow()
    mirror = mirror_of(archive)
    assert mirror is not None
    assert "messages" in mirror.follow()
    assert numbers(mirror) == [0, 1, 2]
    assert [n for n in TABLES if iceberg.NAME_MAPPING not in mirror.table(n).properties] == []


def test_a_mirror_shows_what_counts_and_never_goes_back(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    mirror = turn_on(archive, Settings())
    assert mirror.follow() == []
    one, two, whole = put(archive, 0), put(archive, 1, "2026-11-16"), put(archive, 2, rows=6)
    archive.commit({"messages": [one]})
    archive.commit({"messages": [two]})
    assert mirror.follow() == ["messages"]
    assert mirror.follow() == [], "nothing has changed"
    assert numbers(mirror) == [0, 1, 2, 3, 4, 5]
    snapshot = mirror.table("messages").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary[MANIFEST] == "1"
    before = archive.state()
    archive.commit({"messages": [whole]}, {"messages": [one.path]})
    other = mirror_of(archive)
    assert other is not None
    assert other.follow() == ["messages"]
    assert numbers(mirror) == [3, 4, 5, 12, 13, 14, 15, 16, 17]
    slow = Mirror(_Stuck(archive, before), Settings())
    assert slow.follow() == []
    assert len(numbers(mirror)) == 9


class _Stuck(Archive):
    """It reads the state, and then somebody else commits."""

    def __init__(self, archive: Archive, seen: State) -> None:
        super().__init__(archive.storage.root, archive.clock)
        self.seen = seen

    def state(self) -> State:
        return self.seen


def test_of_two_mirrors_at_once_one_is_refused(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    one, other = turn_on(archive, Settings()), turn_on(archive, Settings())
    archive.commit({"messages": [put(archive, 0)]})
    one.follow()
    assert other.follow() == []
    archive.commit({"messages": [put(archive, 1)]})
    one.follow()
    with pytest.raises(Overtaken, match="another mirror of messages was faster"):
        other.follow()
    assert other.follow() == [], "it looks again"
    assert numbers(one) == [0, 1, 2, 3, 4, 5]


def test_a_table_that_another_mirror_makes_at_once_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(str(tmp_path))
    one, other = turn_on(archive, Settings()), turn_on(archive, Settings())
    archive.commit({"messages": [put(archive, 0)]})
    load = Mirror._load

    def late(self: Mirror, table: Table) -> Shown | None:
        found = load(self, table)
        monkeypatch.setattr(Mirror, "_load", load)
        one.follow()
        return found

    monkeypatch.setattr(Mirror, "_load", late)
    with pytest.raises(Overtaken):
        other.follow()
    assert other.follow() == []
    assert numbers(other) == [0, 1, 2]


def test_old_snapshots_and_what_describes_them_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg, "KEPT", 2)
    moment = [time.time()]
    archive = Archive(str(tmp_path), clock=lambda: moment[0])
    mirror = turn_on(archive, Settings())
    for number in range(6):
        archive.commit({"messages": [put(archive, number)]})
        mirror.follow()
    assert len(mirror.table("messages").snapshots()) == 3
    lists = "_iceberg/headgate/messages/metadata/snap-*.avro"
    assert mirrors.bring_along(archive)
    assert len(list(tmp_path.glob(lists))) == 6, "for those who planned with them"
    moment[0] += KEPT_SECONDS + 60
    assert mirrors.bring_along(archive)
    assert len(list(tmp_path.glob(lists))) == 3
    assert len(numbers(mirror)) == 18


def test_a_new_column_comes_to_the_table_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(str(tmp_path))
    mirror, messages = turn_on(archive, Settings()), TABLES["messages"]
    shorter = replace(
        messages, columns={n: it for n, it in messages.columns.items() if n != "size"}
    )
    monkeypatch.setitem(TABLES, "messages", shorter)
    archive.commit({"messages": [put(archive, 0)]})
    mirror.follow()
    monkeypatch.undo()
    again = mirror_of(archive)
    assert again is not None
    archive.commit({"messages": [put(archive, 1)]})
    again.follow()
    rows = by_pyiceberg(again, "messages")
    assert [row["size"] for row in rows] == [None] * 6


def test_a_file_of_the_first_version_is_written_again_before_it_is_shown(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    mirror = turn_on(archive, Settings())
    archive.commit({"messages": [File("_data/messages/batches=0.x/day=2026-11-15/a", 1, 0, 1)]})
    with pytest.raises(PipelineError, match="bring the tables up to date with `headgate pipeline"):
        mirror.follow()
    (group,) = upkeep.plan(archive.state(), "2026-11-15")
    assert len(group.files) == 1


def test_tables_are_mirrored_to_one_place(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    assert mirror_of(archive) is None
    turn_on(archive, Settings())
    turn_on(archive, Settings())
    with pytest.raises(PipelineError, match=r"mirrored to a catalog beside them, namespace headg"):
        turn_on(archive, Settings(namespace="other"))


def shared_by_routers(
    folder: Path, *settings: Settings
) -> tuple[Catalog, list[tuple[Archive, Mirror]]]:
    """A catalog that several have, and the tables of a router for each of these settings; the
    facts of each begin with 1."""
    warehouse = f"file://{folder / 'warehouse'}"
    catalog = load_catalog(
        "shared", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse
    )
    made = []
    for place, each in enumerate(settings):
        archive = Archive(str(folder / f"router{place}"))
        batch = Batch(0, "q", f"journal{place}", 0, 3, 3, 1.0, 1.0, 1.0)
        archive.commit({"messages": [put(archive, 0, rows=3 + place)]}, batch=batch)
        mirror = Mirror(archive, each, catalog)
        mirror.make_namespace()
        made.append((archive, mirror))
    return catalog, made


def test_tables_of_two_routers_are_not_shown_in_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mirror took out the files of the other, and readers saw the one or the other."""
    place = Settings("shared")
    catalog, [(_, east), (archive, west)] = shared_by_routers(tmp_path, place, place)
    east.follow()
    with pytest.raises(PipelineError, match=r"messages in .* shows the journal journal0, and the"):
        west.follow()
    monkeypatch.setattr(iceberg, "_opened", lambda storage, settings: catalog)
    with pytest.raises(PipelineError, match="are of journal1: each router needs a namespace of"):
        turn_on(archive, place)
    assert mirror_of(archive) is None, "it was not turned on"
    assert numbers(east) == [0, 1, 2]
    assert "messages" in turn_on(archive, Settings("shared", "west")).follow()


def test_tables_of_several_routers_in_one_catalog_are_asked_together(tmp_path: Path) -> None:
    names = ("east", "west")
    catalog, made = shared_by_routers(tmp_path, *(Settings("shared", name) for name in names))
    for _, mirror in made:
        mirror.follow()
    with duckdb.connect() as connection:
        for name in names:
            catalog.load_table((name, "messages")).scan().to_duckdb(name, connection)
        both = " union all ".join(f"select '{name}' origin, * from {name}" for name in names)
        query = f"select origin, count(*), max(number) from ({both}) group by all order by all"
        assert connection.execute(query).fetchall() == [("east", 3, 2), ("west", 4, 3)]


def test_every_column_of_every_table_has_a_type() -> None:
    for table in TABLES.values():
        assert [each.name for each in schema_of(table).fields] == [*table.stored_types]


def test_a_mirror_that_fails_is_told_of_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive(str(tmp_path))
    with mirrors.beside(archive):
        pass  # there is none
    turn_on(archive, Settings())
    looks: list[int] = []

    def follow(self: Mirror) -> list[str]:
        looks.append(1)
        raise Overtaken("somebody") if len(looks) == 1 else OSError("the catalog is away")

    monkeypatch.setattr(Mirror, "follow", follow)
    with mirrors.beside(archive, pause=0.0):
        while len(looks) < 4:
            pass
    told = capsys.readouterr().err
    assert told == "headgate: the Iceberg tables are behind: the catalog is away\n"


def test_the_last_look_shows_all_though_another_mirror_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(str(tmp_path))
    mirror, other = turn_on(archive, Settings()), turn_on(archive, Settings())
    archive.commit({"messages": [put(archive, 0)]})
    older = archive.state()
    follow = Mirror._follow

    def overtaken(self: Mirror, table: Table, state: State) -> bool:
        """Between what it has read and what it commits, another one commits an older state."""
        if state.number > older.number and table.name == "messages":
            monkeypatch.setattr(Mirror, "_follow", follow)
            assert follow(other, table, older)
        return follow(self, table, state)

    mirror._make(TABLES["messages"])
    monkeypatch.setattr(mirrors, "mirror_of", lambda archive: mirror)
    monkeypatch.setattr(Mirror, "_follow", overtaken)
    with mirrors.beside(archive, pause=60.0):
        archive.commit({"messages": [put(archive, 1)]})
    assert numbers(mirror) == [0, 1, 2, 3, 4, 5]
