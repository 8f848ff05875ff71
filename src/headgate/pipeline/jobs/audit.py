"""An audit: count and hash per service, computed again, against the router's tallies.

A service's tally is the number of its queues and the XOR of their digests. Here it is computed
again, from the queues of a snapshot (`journal/snapshot.py`) or from what the facts say of who has
which queue; `compare` holds it against what the router keeps, and `differences` names the queues
that two sources do not agree on.

**How digests are XORed.** Spark can XOR integers only, and has no cast from binary to them; the
way through hexadecimal text and ``conv`` costs more than twice what the MD5 costs. But a CRC-32
of four bytes is an integer, and the four bytes can be had back from it. XOR goes through it: but
for a constant that each term brings along, the CRC of a XOR is the XOR of the CRCs. So each
digest is taken as four CRCs, these are XORed, and only the sums, one row per service, are taken
back. That is exact, and the JVM computes a CRC in a few instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core.facts import Associated
from headgate.core.model.drift import Drift
from headgate.core.model.tally import NOTHING
from headgate.errors import PipelineError

ASSOCIATIONS = "digest binary, service binary, number bigint"
"""The service of a queue from a fact of this number on; null is none. Of several, the last
counts."""
TALLIES = "service binary, count bigint, hash binary"
FACT_COLUMNS = ("number", "kind", "queue", "service")


# What a snapshot has.


def stored(spark: SparkSession, path: str) -> DataFrame:
    """The queues of a snapshot: service, digest."""
    return spark.read.schema("service binary, digest binary").parquet(f"{path}/queues")


def kept_tallies(spark: SparkSession, path: str) -> DataFrame:
    """The router's tallies at the moment of a snapshot."""
    return spark.read.schema(TALLIES).parquet(f"{path}/tallies.parquet")


def good_for(spark: SparkSession, path: str) -> int:
    """The number of the last fact before a snapshot."""
    number: int | None = _unsealed(spark, path).agg(F.max("number")).collect()[0][0]
    if number is None:
        raise PipelineError(
            f"{path} does not say which facts came before it; take it again, and name the journal"
        )
    return number


def facts_at(spark: SparkSession, path: str, facts: DataFrame) -> DataFrame:
    """The facts before a snapshot, with those that were not sealed then. Some may be there twice,
    with the same number."""
    before = facts.where(F.col("number") <= good_for(spark, path)).select(*FACT_COLUMNS)
    return before.unionByName(_unsealed(spark, path))


def _unsealed(spark: SparkSession, path: str) -> DataFrame:
    schema = "number bigint, kind string, queue binary, service binary"
    return spark.read.schema(schema).parquet(f"{path}/unsealed.parquet")


# What facts say.


def associations(facts: DataFrame, after: int = 0, upto: int | None = None) -> DataFrame:
    """The last word of the facts of these numbers about each queue that they speak of."""
    rows = facts.where((F.col("kind") == Associated.__name__) & (F.col("number") > after))
    if upto is not None:
        rows = rows.where(F.col("number") <= upto)
    return _latest(rows.select(F.col("queue").alias("digest"), "service", "number"))


def owned(rows: DataFrame) -> DataFrame:
    """The queues that are a service's, of associations: service, digest."""
    return _latest(rows).where(F.col("service").isNotNull()).select("service", "digest")


def _latest(rows: DataFrame) -> DataFrame:
    last = F.max_by("service", "number").alias("service"), F.max("number").alias("number")
    return rows.groupBy("digest").agg(*last)


# Tallies.


def digest_of(queue: Column) -> Column:
    """The part of a queue with this id in the hash of a tally."""
    return F.unhex(F.md5(queue))


def tally(queues: DataFrame) -> DataFrame:
    """Service, count and hash of rows of service and digest."""
    return _summed(queues.select("service", _number(1).alias("count"), _hash("digest")), "count")


def from_snapshot(spark: SparkSession, path: str) -> DataFrame:
    """The tallies by the queues of a snapshot."""
    return tally(stored(spark, path))


def from_facts(facts: DataFrame, upto: int | None = None) -> DataFrame:
    """The tallies by all facts up to a number."""
    return tally(owned(associations(facts, upto=upto)))


def compare(recomputed: DataFrame, kept: DataFrame) -> DataFrame:
    """One row per service that either side has: counted, told, whether the hashes are equal, and
    the drift as `core/model/tally.py` words it, of the router's tally against what was counted.

    `suspect` is set where the counts differ by one. Then the hashes differ by the digest of that
    queue, if it is the only one.
    """
    zero = _number(0)
    count = F.col("count")
    counted = recomputed.select("service", count.alias("counted"), zero.alias("told"), "hash")
    others = kept.select("service", zero.alias("counted"), count.alias("told"), "hash")
    apart = _summed(counted.unionByName(others), "counted", "told")
    more = F.col("told") - F.col("counted")
    is_equal = F.col("hash") == F.lit(NOTHING.hash)
    drift = (
        F.when(more > 0, Drift.MORE.value)
        .when(more < 0, Drift.FEWER.value)
        .when(is_equal, Drift.NONE.value)
        .otherwise(Drift.DIFFERENT.value)
    )
    return apart.select(
        "service",
        "counted",
        "told",
        is_equal.alias("hash_equal"),
        drift.alias("drift"),
        F.when(F.abs(more) == 1, F.col("hash")).alias("suspect"),
    )


def differences(one: DataFrame, other: DataFrame, services: DataFrame | None = None) -> DataFrame:
    """The queues (service, digest) that two sources do not agree on: digest, and the service that
    has it in the one and in the other; null is none. Only those of some services, if given: of
    the ones that drift."""
    if services is not None:
        names = services.select("service").distinct()
        one, other = (rows.join(names, "service", "left_semi") for rows in (one, other))
    ours = one.select("digest", F.col("service").alias("one"))
    theirs = other.select("digest", F.col("service").alias("other"))
    return ours.join(theirs, "digest", "full").where(~F.col("one").eqNullSafe(F.col("other")))


# Going on from a saved audit.


@dataclass(frozen=True, slots=True)
class State:
    """An audit that was saved: good for all facts up to `number`.

    A fact says who has a queue now, not who had it before, and a tally has to be rid of the queue
    there. So the state has the associations too: the service of each queue at each audit. They are
    only added to, and only read for the queues that changed since.
    """

    number: int
    tallies: DataFrame
    associations: DataFrame


def load(spark: SparkSession, path: str) -> State | None:
    """The newest audit that is saved in a folder."""
    try:
        saved = spark.read.schema(f"{TALLIES}, upto bigint").parquet(f"{path}/tallies")
        numbers: list[int] = [row.upto for row in saved.select("upto").distinct().collect()]
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    if not numbers:
        return None
    known = spark.read.schema(f"{ASSOCIATIONS}, upto bigint").parquet(f"{path}/associations")
    return State(
        max(numbers),
        saved.where((F.col("upto") == max(numbers)) & F.col("service").isNotNull()).drop("upto"),
        known.where(F.col("upto").isin(numbers)).drop("upto"),
    )


def advance(spark: SparkSession, path: str, facts: DataFrame, upto: int) -> State:
    """Bring the audit in a folder up to a number; without one there, begin with the first fact.

    If anything dies on the way, the next run finds the audit before or the audit after: tallies
    come last, in one file, and associations without tallies are not looked at.
    """
    state = load(spark, path)
    if state is not None and upto <= state.number:
        return state
    after = state.number if state is not None else 0
    _save(path, "associations", upto, associations(facts, after, upto))
    changes = spark.read.schema(ASSOCIATIONS).parquet(_place(path, "associations", upto))
    tallies = tally(owned(changes)) if state is None else fold(state, changes)
    return _saved(spark, path, upto, tallies)


def begin(spark: SparkSession, path: str, snapshot: str) -> State:
    """Begin the audit in a new folder with a snapshot: where the first facts are gone already, or
    were never told, what they said is only in the store."""
    if load(spark, path) is not None:
        raise PipelineError(f"{path} has an audit already; name another folder, or go on with it")
    number = good_for(spark, snapshot)
    queues = stored(spark, snapshot)
    known = queues.select("digest", "service", _number(number).alias("number"))
    _save(path, "associations", number, known)
    return _saved(spark, path, number, tally(queues))


def fold(state: State, changes: DataFrame) -> DataFrame:
    """The tallies of a state after changes, one per queue. XOR is its own inverse: a queue is
    taken out of a hash as it was put in."""
    before = _latest(state.associations.join(changes.select("digest"), "digest", "left_semi"))
    steps = [
        rows.where(F.col("service").isNotNull()).select(
            "service", _number(sign).alias("count"), _hash("digest")
        )
        for rows, sign in ((changes, 1), (before, -1))
    ]
    summed = _summed(state.tallies.unionByName(steps[0]).unionByName(steps[1]), "count")
    return summed.where((F.col("count") != 0) | (F.col("hash") != F.lit(NOTHING.hash)))


def _saved(spark: SparkSession, path: str, number: int, tallies: DataFrame) -> State:
    # A row of no service says that there is an audit, even if there are no services.
    mark = spark.createDataFrame([(None, 0, NOTHING.hash)], TALLIES)
    _save(path, "tallies", number, tallies.unionByName(mark).coalesce(1))
    state = load(spark, path)
    assert state is not None, "it was just saved"
    return state


def _save(path: str, table: str, upto: int, rows: DataFrame) -> None:
    rows.write.mode("overwrite").parquet(_place(path, table, upto))


def _place(path: str, table: str, upto: int) -> str:
    return f"{path}/{table}/upto={upto}"


# XOR of digests.

ONES = 0xFFFFFFFF
TOP = 0x80000000
POLYNOMIAL = 0xEDB88320
"""Of CRC-32, the lowest bit first."""


def _summed(rows: DataFrame, *counts: str) -> DataFrame:
    """Rows of service, counts and hash, added up per service."""
    crcs = [F.crc32(F.substring("hash", start, 4)) for start in (1, 5, 9, 13)]
    sums = rows.groupBy("service").agg(
        *[F.sum(name).alias(name) for name in counts],
        F.count("hash").alias("terms"),
        # Two in one integer: that is two sums less to keep for each service.
        F.bit_xor(F.shiftleft(crcs[0], 32).bitwiseOR(crcs[1])).alias("left"),
        F.bit_xor(F.shiftleft(crcs[2], 32).bitwiseOR(crcs[3])).alias("right"),
    )
    # Each term begins with all bits set and ends with all bits flipped. An even number of terms
    # cancels both.
    ones = F.when(F.col("terms") % 2 == 1, _number(ONES)).otherwise(_number(0))
    words = sums.select(
        "service",
        *counts,
        *[
            _undone(crc.bitwiseXOR(ones)).bitwiseXOR(ones).alias(f"{half}{place}")
            for half in ("left", "right")
            for place, crc in enumerate(
                (F.shiftrightunsigned(half, 32), F.col(half).bitwiseAND(_number(ONES)))
            )
        ],
    )
    hashed = F.concat(*[_bytes(F.col(name)) for name in ("left0", "left1", "right0", "right1")])
    return words.select("service", *counts, hashed.alias("hash"))


def _undone(crc: Column) -> Column:
    """32 steps of the CRC, backwards. The polynomial has the top bit, so the top bit of what a
    step left says whether the step used it, which is the bit that it shifted out."""

    def back(crc: Column, _: Column) -> Column:
        doubled = F.shiftleft(crc.bitwiseXOR(_number(POLYNOMIAL)), 1).bitwiseOR(_number(1))
        is_used = crc.bitwiseAND(_number(TOP)) != 0
        return F.when(is_used, doubled).otherwise(F.shiftleft(crc, 1))

    return F.aggregate(F.sequence(F.lit(1), F.lit(32)), crc, back)


def _bytes(word: Column) -> Column:
    """The four bytes of an integer; a CRC takes the first for the lowest."""
    turned = _number(0)
    for bits in (0, 8, 16, 24):
        byte = F.shiftright(word, bits).bitwiseAND(_number(0xFF))
        turned = F.shiftleft(turned, 8).bitwiseOR(byte)
    return F.unhex(F.lpad(F.hex(turned), 8, "0"))


def _number(number: int) -> Column:
    return F.lit(number).cast("bigint")


def _hash(name: str) -> Column:
    return F.col(name).alias("hash")
