"""The audit: recomputed tallies are the core's, what differs is named, and going on from a saved
audit is the same as beginning again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core.commands import Command
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally, name_of
from headgate.core.turn.store_requests import Load
from headgate.errors import PipelineError
from headgate.journal import snapshot
from headgate.pipeline.jobs import audit
from headgate.store.memory import MemoryStore
from headgate.testing.rig import at_once
from tests.journal.test_snapshot import Place
from tests.support.exclusive_queues import Q1, Q2, Q3, Q4, Desk, S, T, delete, new, sub

Association = tuple[bytes, bytes | None]
"""The digest of a queue, and the service that has it from now on."""

FACTS = "number bigint, kind string, queue binary, service binary"


# Histories, by the core itself.


def history(random: Random, prefix: str = "") -> tuple[list[Association], dict[bytes, Tally]]:
    """What the facts say of associations in a drawn history, and the tallies that the store
    has at its end. Sessions vanish and turns fail on the way."""
    store = MemoryStore()
    desk = Desk(store=store)
    desk.broker.shard.journal = True
    services = [ServiceId(f"{prefix}service{n}".encode()) for n in range(3)]
    names = [QueueId(f"{prefix}queue{n}".encode()) for n in range(8)]
    sessions = {service: desk.session() for service in [*services, None]}
    gone = {service: desk.session() for service in [*services, None]}
    for session in gone.values():
        desk.leave(session)

    def drawn() -> Command:
        service = random.choice([*services, None])
        queue = random.choice(names)
        kind = random.randrange(10)
        if kind < 4:
            return new(sessions[service], queue, service=service, subscribe=random.random() < 0.5)
        if kind < 6:
            return delete(sessions[service], queue)
        return sub((gone if kind == 9 else sessions)[service], queue, service)

    for _ in range(random.randrange(40)):
        if random.random() < 0.1:
            desk.fail_at = random.randrange(2)
        desk.do(*(drawn() for _ in range(random.randint(1, 5))))
        desk.fail_at = None
    rows = sorted(store.outbox.values(), key=lambda row: row.first)
    told = [(f[2], f[3]) for row in rows for f in row.facts if f[0] == "Associated"]
    kept = at_once(store.load(Load(services=set(services)))).services
    return told, {service: tally for service, tally in kept.items() if tally != NOTHING}


def tallies_of(changes: Iterable[Association]) -> dict[bytes, Tally]:
    """What a person would compute: who has each queue at the end."""
    sums: dict[bytes, Tally] = {}
    for digest, service in dict(changes).items():
        if service is not None:
            one = Tally.parse(1, digest)
            sums[service] = sums.get(service, NOTHING).join(one)
    return sums


@pytest.mark.parametrize("seed", range(100))
def test_facts_of_associations_suffice_to_recompute_every_tally(seed: int) -> None:
    changes, kept = history(Random(seed))
    assert tallies_of(changes) == kept


# On Spark.


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.store.stop()


def tallies(rows: DataFrame) -> dict[bytes, Tally]:
    return {bytes(r.service): Tally.parse(r["count"], bytes(r["hash"])) for r in rows.collect()}


def facts_of(spark: SparkSession, changes: Sequence[Association], first: int = 1) -> DataFrame:
    rows = [(number, "Associated", *change) for number, change in enumerate(changes, first)]
    return spark.createDataFrame(rows, FACTS)


def journal_of(spark: SparkSession, place: Place) -> DataFrame:
    return spark.read.parquet(str(place.journal))


def tamper(place: Place, statement: str, *values: object) -> None:
    """Change the store behind the router's back."""
    db = sqlite3.connect(place.database)
    with db:
        assert db.execute(statement, values).rowcount == 1
    db.close()


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_tally_on_spark_is_that_of_the_core(spark: SparkSession, ansi: str) -> None:
    random = Random(7)
    sets = {
        b"service%d" % n: [QueueId(random.randbytes(random.randint(1, 70))) for _ in range(n)]
        for n in range(1, 60)
    }
    rows = [(service, bytes(queue)) for service, ids in sets.items() for queue in ids]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        queues = spark.createDataFrame(rows, "service binary, id binary").repartition(3)
        found = tallies(
            audit.tally(queues.select("service", audit.digest_of(F.col("id")).alias("digest")))
        )
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")
    assert found == {service: Tally.of(ids) for service, ids in sets.items()}


def test_a_store_that_adds_up_has_no_drift_by_its_queues_and_by_its_facts(
    spark: SparkSession, place: Place
) -> None:
    place.desk.do(*(new(place.s, name, service=S) for name in (Q1, Q2, Q3)))
    place.seal()
    place.desk.do(sub(place.t, Q1, T), delete(place.plain, Q2), new(place.plain, Q4))
    path = str(place.take().folder)
    place.desk.do(delete(place.plain, Q3))  # after the snapshot
    place.seal()
    facts = audit.facts_at(spark, path, journal_of(spark, place))
    by_queues, by_facts = audit.from_snapshot(spark, path), audit.from_facts(facts)
    expected = {S: Tally.of([Q3]), T: Tally.of([Q1])}
    assert tallies(by_queues) == tallies(by_facts) == expected
    for recomputed in (by_queues, by_facts):
        rows = audit.compare(recomputed, audit.kept_tallies(spark, path)).collect()
        assert {(bytes(r.service), r.counted, r.told) for r in rows} == {(S, 1, 1), (T, 1, 1)}
        assert {(r.hash_equal, r.drift, r.suspect) for r in rows} == {(True, "none", None)}
    queues = audit.owned(audit.associations(facts))
    assert audit.differences(audit.stored(spark, path), queues).isEmpty()


def test_a_service_that_lost_all_its_queues_does_not_drift(
    spark: SparkSession, place: Place
) -> None:
    place.desk.do(new(place.s, Q1, service=S))
    place.desk.do(delete(place.s, Q1))
    path = str(place.take().folder)
    [row] = audit.compare(
        audit.from_snapshot(spark, path), audit.kept_tallies(spark, path)
    ).collect()
    assert (row.counted, row.told, row.drift) == (0, 0, "none")


def test_tallies_that_were_made_wrong_are_told_and_a_single_queue_is_named(
    spark: SparkSession, place: Place
) -> None:
    place.desk.do(*(new(place.s, name, service=S) for name in (Q1, Q2)))
    place.desk.do(*(new(place.t, name, service=T) for name in (Q3, Q4)))
    u, v = ServiceId(b"U"), ServiceId(b"V")
    place.desk.do(new(place.desk.session(), QueueId(b"q5"), service=u))
    wrong = "UPDATE services SET count = ?, hash = ? WHERE id = ?"
    for service, tally in (
        (S, Tally.of([Q1])),
        (T, Tally.of([Q3, Q4, Q1])),
        (u, Tally.of([Q1])),
    ):
        tamper(place, wrong, tally.count, tally.hash, service)
    tamper(place, "INSERT INTO services VALUES (?, ?, ?)", v, 2, Tally.of([Q1, Q2]).hash)
    path = str(place.take().folder)
    rows = audit.compare(
        audit.from_snapshot(spark, path), audit.kept_tallies(spark, path)
    ).collect()
    assert {(bytes(r.service), r.counted, r.told, r.hash_equal, r.drift) for r in rows} == {
        (S, 2, 1, False, "fewer"),
        (T, 2, 3, False, "more"),
        (u, 1, 1, False, "different"),
        (v, 0, 2, False, "more"),
    }
    assert {bytes(r.service): r.suspect and bytes(r.suspect) for r in rows} == {
        S: name_of(Q2),
        T: name_of(Q1),
        u: None,
        v: None,
    }


def test_queues_that_were_changed_behind_the_router_are_named_one_by_one(
    spark: SparkSession, place: Place
) -> None:
    place.desk.do(*(new(place.s, name, service=S) for name in (Q1, Q2, Q3)))
    place.desk.do(new(place.plain, Q4))
    place.seal()
    tamper(place, "DELETE FROM queues WHERE id = ?", bytes(Q1))
    tamper(place, "UPDATE queues SET service = ? WHERE id = ?", T, bytes(Q2))
    tamper(place, "UPDATE queues SET service = ? WHERE id = ?", T, bytes(Q4))
    path = str(place.take().folder)
    told, stored = audit.kept_tallies(spark, path), audit.stored(spark, path)
    facts = audit.facts_at(spark, path, journal_of(spark, place))
    # The facts say what the tallies say, so it is the queues that are wrong.
    [row] = audit.compare(audit.from_facts(facts), told).collect()
    assert row.drift == "none"
    drifting = audit.compare(audit.tally(stored), told).where("drift != 'none'")
    by_facts = audit.owned(audit.associations(facts))
    expected = {
        (name_of(Q1), None, S),
        (name_of(Q2), T, S),
        (name_of(Q4), T, None),
    }
    for services in (None, drifting):
        rows = audit.differences(stored, by_facts, services).collect()
        assert {tuple(x and bytes(x) for x in (r.digest, r.one, r.other)) for r in rows} == expected
    only_t = spark.createDataFrame([(bytes(T),)], "service binary")
    assert audit.differences(stored, by_facts, only_t).count() == 2


def test_a_snapshot_that_does_not_know_its_number_is_not_compared_with_facts(
    spark: SparkSession, place: Place
) -> None:
    place.desk.do(new(place.s, Q1, service=S))
    place.seal()
    snapshot.take(place.database, place.folder)
    with pytest.raises(PipelineError, match="take it again, and name the journal"):
        audit.facts_at(spark, str(place.folder), journal_of(spark, place))


# Going on.


def test_a_saved_audit_and_the_changes_since_are_the_full_audit(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The law, for forty drawn histories at once: each has services and queues of its own, and
    they are cut where it hits them."""
    random = Random(11)
    histories = [history(random, f"h{n}-") for n in range(40)]
    longest = max(len(changes) for changes, _ in histories)
    told = [changes[n] for n in range(longest) for changes, _ in histories if n < len(changes)]
    facts = facts_of(spark, told).repartition(3).cache()
    path = str(tmp_path / "state")
    for upto in [*sorted(random.sample(range(1, len(told)), 3)), len(told)]:
        state = audit.advance(spark, path, facts, upto)
        expected = tallies_of(told[:upto])
        assert state.number == upto
        assert tallies(state.tallies) == expected
        assert tallies(audit.from_facts(facts, upto)) == expected
        assert tallies(audit.tally(audit.owned(state.associations))) == expected
    assert tallies(state.tallies) == {s: t for _, kept in histories for s, t in kept.items()}
    facts.unpersist()


def test_an_audit_that_begins_with_a_snapshot_goes_on_with_facts(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """The facts from before it may be gone."""
    place.desk.do(*(new(place.s, name, service=S) for name in (Q1, Q2)))
    sealed = place.seal()
    taken = place.take()
    path = str(tmp_path / "state")
    begun = audit.begin(spark, path, str(taken.folder))
    assert (begun.number, tallies(begun.tallies)) == (sealed, {S: Tally.of([Q1, Q2])})
    with pytest.raises(PipelineError, match="has an audit already"):
        audit.begin(spark, path, str(taken.folder))
    place.desk.do(sub(place.t, Q1, T), delete(place.plain, Q2), new(place.t, Q3, service=T))
    last = place.seal()
    facts = journal_of(spark, place).where(F.col("number") > sealed)
    state = audit.advance(spark, path, facts, last)
    assert (state.number, tallies(state.tallies)) == (last, {T: Tally.of([Q1, Q3])})


def test_an_audit_up_to_a_number_that_is_saved_already_reads_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "state")
    audit.advance(spark, path, facts_of(spark, [(name_of(Q1), S)]), 5)
    again = audit.advance(spark, path, facts_of(spark, [(name_of(Q2), S)]), 5)
    assert (again.number, tallies(again.tallies)) == (5, {S: Tally.of([Q1])})


def test_an_audit_that_died_half_way_is_done_again(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    changes: list[Association] = [(name_of(Q1), S), (name_of(Q1), T), (name_of(Q2), T)]
    audit.advance(spark, path, facts_of(spark, changes), 1)
    # Associations were written for 2, of a history that was never told, and then no tallies.
    other = facts_of(spark, [(name_of(Q2), S), (name_of(Q3), S)])
    audit.associations(other).write.parquet(f"{path}/associations/upto=2")
    found = audit.load(spark, path)
    assert found is not None
    assert (found.number, tallies(found.tallies)) == (1, {S: Tally.of([Q1])})
    state = audit.advance(spark, path, facts_of(spark, changes), 3)
    assert tallies(state.tallies) == {T: Tally.of([Q1, Q2])}
    assert {bytes(row.digest) for row in audit.owned(state.associations).collect()} == {
        name_of(Q1),
        name_of(Q2),
    }


def test_an_audit_without_services_is_an_audit(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    assert audit.load(spark, path) is None
    state = audit.advance(spark, path, facts_of(spark, [(name_of(Q1), None)]), 4)
    assert (state.number, tallies(state.tallies)) == (4, {})
