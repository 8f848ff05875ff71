"""The journal as a source: each fact once, whatever happens to its segments meanwhile."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

from headgate.client import admin
from headgate.core.facts import Accepted, ChannelCounted, Fact, SessionOpened
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.errors import PipelineError
from headgate.journal.columns import VERSION
from headgate.journal.identity import identified
from headgate.journal.segments import segments
from headgate.pipeline.session import reason
from headgate.pipeline.source import feed as feeds
from headgate.pipeline.source import journal_source
from headgate.pipeline.source import spans as planning
from headgate.pipeline.source.feed import feed_of
from headgate.pipeline.source.format import register
from headgate.pipeline.source.journal_source import JournalReader, JournalStream
from headgate.pipeline.source.options import MAX_FACTS
from headgate.pipeline.source.schema import ARROW
from headgate.pipeline.source.span_reader import BATCH_BYTES
from headgate.pipeline.source.spans import Span
from tests.support.journals import (
    TOKEN,
    Given,
    facts_of_a_day,
    merge_segments,
    served,
    write_journal,
    write_segment,
)

DAY: list[Fact] = facts_of_a_day(30)
ALL = list(range(1, len(DAY) + 1))
LAST = ALL[-1]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(admin, "PAUSES", (0.01,))
    monkeypatch.setattr(journal_source, "IDLE_SECONDS", 0.0)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Of segments of 20 facts."""
    directory = tmp_path / "journal"
    write_journal(directory, DAY, per_segment=20)
    return directory


def of(directory: Path, **options: str) -> dict[str, str]:
    return {"path": str(directory), **options}


def opened(count: int) -> list[SessionOpened | None]:
    return [SessionOpened(1.5, SessionId(n), "resp", f"n{n}") for n in range(count)]


def rows(reader: JournalReader | JournalStream, spans: Iterable[Span]) -> list[dict[str, Any]]:
    """What executors make of it: they get everything pickled."""
    found = []
    for span in spans:
        there = pickle.loads(pickle.dumps(reader))
        for batch in there.read(pickle.loads(pickle.dumps(span))):
            assert batch.schema.equals(ARROW)
            found += batch.to_pylist()
    return found


def numbers(reader: JournalReader | JournalStream, spans: Iterable[Span]) -> list[int]:
    return [row["number"] for row in rows(reader, spans)]


def read_batch(directory: Path, *filters: Filter, **options: str) -> list[int]:
    reader = JournalReader(of(directory, **options))
    list(reader.pushFilters(list(filters)))
    return numbers(reader, reader.partitions())


def at(number: int) -> dict[str, int]:
    return {"number": number}


# A batch.


def test_a_batch_reads_every_fact_with_its_fields(journal: Path) -> None:
    reader = JournalReader(of(journal))
    found = rows(reader, reader.partitions())
    assert [row["number"] for row in found] == ALL
    for row, fact in zip(found, DAY, strict=True):
        assert (row["kind"], row["at"]) == (type(fact).__name__, fact.at)
        if isinstance(fact, Accepted):
            assert (row["message"], row["size"]) == (fact.message, fact.size)
            told = {
                name: next(v for v in item.values() if v is not None)
                for name, item in row["properties"]
            }
            assert told == fact.properties


def test_numbers_have_gaps_and_that_is_no_loss(tmp_path: Path) -> None:
    write_segment(tmp_path / "j", 3, [*opened(2), None, None, *opened(1)])
    write_segment(tmp_path / "j", 20, opened(2))
    assert read_batch(tmp_path / "j") == [3, 4, 7, 20, 21]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("earliest", ALL), ("latest", []), ("41", ALL[40:]), ("1", ALL), ("0", ALL), ("999999", [])],
)
def test_a_batch_begins_where_it_is_told(journal: Path, start: str, expected: list[int]) -> None:
    assert read_batch(journal, startingOffset=start) == expected


def test_an_empty_journal_has_no_facts(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    assert read_batch(tmp_path / "j") == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("number",), 33)], [33]),
        ([GreaterThan(("number",), 20), LessThanOrEqual(("number",), 41)], ALL[20:41]),
        ([GreaterThanOrEqual(("number",), 20), LessThan(("number",), 41)], ALL[19:40]),
        ([GreaterThan(("number",), 50), LessThan(("number",), 40)], []),
        ([EqualTo(("number",), -5)], []),
        (
            [EqualTo(("kind",), "Accepted"), IsNotNull(("kind",))],
            [n for n, fact in enumerate(DAY, 1) if isinstance(fact, Accepted)],
        ),
        (
            [In(("kind",), ("Accepted", "Nonsense", None)), GreaterThan(("number",), 60)],
            [n for n, fact in enumerate(DAY, 1) if isinstance(fact, Accepted) and n > 60],
        ),
        ([EqualTo(("kind",), "Accepted"), EqualTo(("kind",), "Expired")], []),
    ],
)
def test_filters_on_number_and_kind_are_applied_while_reading(
    journal: Path, filters: list[Filter], expected: list[int]
) -> None:
    reader = JournalReader(of(journal))
    assert list(reader.pushFilters(filters)) == []
    assert numbers(reader, reader.partitions()) == expected


def test_other_filters_are_given_back(journal: Path) -> None:
    reader = JournalReader(of(journal))
    others: list[Filter] = [
        EqualTo(("app",), "billing"),
        StringContains(("kind",), "ed"),
        In(("number",), (30, 33, None)),
    ]
    assert list(reader.pushFilters(others)) == others
    assert numbers(reader, reader.partitions()) == ALL


def test_segments_out_of_the_range_are_not_planned(journal: Path) -> None:
    reader = JournalReader(of(journal))
    list(reader.pushFilters([GreaterThan(("number",), 25), LessThan(("number",), 61)]))
    [span] = reader.partitions()
    assert [segment.first for segment in span.segments] == [21, 41]


def test_columns_that_nobody_asked_for_are_null(journal: Path) -> None:
    reader = JournalReader(of(journal, columns="queue, at"))
    found = rows(reader, reader.partitions())
    full = rows(JournalReader(of(journal)), reader.partitions())
    kept = ("number", "kind", "queue", "at")
    assert [{k: row[k] for k in kept} for row in found] == [{k: r[k] for k in kept} for r in full]
    assert all(row[name] is None for row in found for name in row if name not in kept)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"columns": "at,quue"}, "facts have no column 'quue'; they have number, kind"),
        ({"maxFacts": "many"}, "maxFacts is a number, not 'many'"),
        ({"startingOffset": "-3"}, "startingOffset is earliest or latest or a number, not '-3'"),
        ({"onExpired": "ignore"}, "onExpired is fail or skip, not 'ignore'"),
        ({"maxBytes": "1 MB"}, "maxBytes is a number, not '1 MB'"),
        ({"endingOffset": "latest"}, "endingOffset is a number, not 'latest'"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is a moment such as"),
        ({"startingTimestamp": "2026-11-15", "startingOffset": "1"}, "keep one of startingOffset"),
    ],
)
def test_a_wrong_option_is_told(journal: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        JournalStream(of(journal, **options))


# Planning.


def test_a_large_segment_is_split_by_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_segment(tmp_path / "j", 1, DAY, row_group=30)
    monkeypatch.setattr(planning, "SPAN_BYTES", path.stat().st_size // 3)
    reader = JournalReader(of(tmp_path / "j"))
    spans = reader.partitions()
    assert len(spans) in (2, 3)
    assert all(span.upto % 30 == 0 for span in spans[:-1])
    assert [span.after for span in spans] == [0, *(span.upto for span in spans[:-1])]
    assert numbers(reader, spans) == ALL
    list(reader.pushFilters([GreaterThan(("number",), 70), LessThan(("number",), 121)]))
    assert numbers(reader, reader.partitions()) == ALL[70:120]


def test_small_segments_are_read_together(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(JournalReader(of(journal)).partitions()) == 1
    monkeypatch.setattr(planning, "SPAN_BYTES", 3 * segments(journal)[0].bytes)
    reader = JournalReader(of(journal))
    spans = reader.partitions()
    assert 1 < len(spans) < len(segments(journal))
    assert numbers(reader, spans) == ALL


def test_only_the_row_groups_of_a_span_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path / "j", 1, DAY, row_group=30)
    asked: list[list[int]] = []
    real = pq.ParquetFile.iter_batches

    def iter_batches(self: object, size: int, groups: list[int], *args: Any, **more: Any) -> Any:  # noqa: ANN401
        asked.append(groups)
        return real(self, size, groups, *args, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    assert read_batch(tmp_path / "j", EqualTo(("number",), 61)) == [61]
    assert asked == [[2]]


# What becomes of segments.


@pytest.mark.parametrize("keep", [True, False])
def test_a_merge_between_planning_and_reading_is_not_noticed(journal: Path, keep: bool) -> None:
    reader = JournalReader(of(journal))
    spans = reader.partitions()
    merge_segments(journal, keep=keep)
    assert numbers(reader, spans) == ALL


def test_a_merge_while_a_span_is_read_is_not_noticed(journal: Path) -> None:
    reader = JournalReader(of(journal))
    [span] = reader.partitions()
    batches = reader.read(span)
    first = next(batches)
    merge_segments(journal)
    rest = [number for batch in batches for number in batch.column("number").to_pylist()]
    assert first.column("number").to_pylist() + rest == ALL


def test_spans_of_a_stream_survive_a_merge_too(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SPAN_BYTES", 1)
    stream = JournalStream(of(journal))
    spans = stream.partitions(at(7), at(LAST - 3))
    assert len(spans) > 2
    merge_segments(journal)
    assert numbers(stream, spans) == ALL[7:-3]


def test_a_batch_leaves_out_what_expired_meanwhile(journal: Path) -> None:
    reader = JournalReader(of(journal))
    spans = reader.partitions()
    segments(journal)[0].path.unlink()
    assert numbers(reader, spans) == ALL[20:]


def test_a_stream_does_not_leave_out_what_expired_unless_told(journal: Path) -> None:
    stream = JournalStream(of(journal))
    spans = stream.partitions(at(5), at(LAST))
    segments(journal)[0].path.unlink()
    with pytest.raises(PipelineError, match=r"facts from 6 to 20 expired.* onExpired to skip"):
        numbers(stream, spans)
    with pytest.raises(PipelineError, match=r"facts from 6 to 20 expired.* onExpired to skip"):
        stream.partitions(at(5), at(LAST))
    lenient = JournalStream(of(journal, onExpired="skip"))
    assert numbers(lenient, spans) == ALL[20:]
    assert numbers(lenient, lenient.partitions(at(5), at(LAST))) == ALL[20:]


def test_a_stream_that_begins_before_everything_has_lost_nothing(tmp_path: Path) -> None:
    """The numbers of a turn that failed are unused, those of the very first one too."""
    write_segment(tmp_path / "j", 5, opened(3))
    stream = JournalStream(of(tmp_path / "j"))
    assert numbers(stream, stream.partitions(at(0), at(7))) == [5, 6, 7]


def test_a_file_that_is_listed_and_never_there_is_not_looked_for_for_ever(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: object, segment: object) -> Path:
        raise FileNotFoundError

    reader = JournalReader(of(journal))
    spans = reader.partitions()
    monkeypatch.setattr(feeds.FolderFeed, "open", gone)
    with pytest.raises(PipelineError, match="is listed and cannot be opened"):
        numbers(reader, spans)


# Bad segments.


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8 : len(data) // 2] = bytes(len(data) // 2 - 8)
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def strange(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["number"]), path)


@pytest.mark.parametrize("damage", [cut, spoil, empty, strange])
@pytest.mark.parametrize("when", ["before", "after planning"])
def test_a_corrupt_segment_is_named_counted_and_left_out(
    journal: Path, damage: Callable[[Path], None], when: str, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = segments(journal)[1].path
    reader = JournalReader(of(journal))
    spans = reader.partitions()
    damage(bad)
    if when == "before":
        spans = reader.partitions()
    assert numbers(reader, spans) == [*ALL[:20], *ALL[40:]]
    [line] = capfd.readouterr().err.splitlines()
    assert bad.name in line
    assert [each.name for each in feed_of(of(journal)).quarantined()] == [bad.name]
    assert read_batch(journal) == [*ALL[:20], *ALL[40:]]
    assert capfd.readouterr().err == ""


def test_a_stream_goes_on_past_a_corrupt_segment(journal: Path) -> None:
    cut(segments(journal)[-1].path)
    stream = JournalStream(of(journal))
    end = stream.latestOffset(at(0), ReadAllAvailable())
    assert end == at(LAST)
    good = [n for n in ALL if n < segments(journal)[-1].first]
    assert numbers(stream, stream.partitions(at(0), end)) == good
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    assert stream.partitions(at(0), end)
    cut(segments(journal)[0].path)
    assert numbers(stream, stream.partitions(at(5), end)) == good[20:]
    assert numbers(stream, stream.partitions(at(5), end)) == good[20:]


def test_a_mark_that_another_journal_left_behind_does_not_move_the_end(journal: Path) -> None:
    write_segment(journal, 9000, opened(1))
    cut(segments(journal)[-1].path)
    assert read_batch(journal) == ALL
    segments(journal)[-1].path.unlink()
    stream = JournalStream(of(journal))
    assert stream.latestOffset(at(0), ReadAllAvailable()) == at(LAST)


def test_what_a_corrupt_merged_segment_replaced_is_read_while_it_is_there(journal: Path) -> None:
    spoil(merge_segments(journal, keep=True))
    assert read_batch(journal) == ALL
    assert len(feed_of(of(journal)).quarantined()) == 1


def test_a_segment_that_may_not_be_read_is_not_called_corrupt(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    reader = JournalReader(of(journal))
    spans = reader.partitions()
    monkeypatch.setattr(pq, "ParquetFile", refused)
    with pytest.raises(PipelineError, match=r"parquet cannot be read: .*Permission denied"):
        numbers(reader, spans)
    assert feed_of(of(journal)).quarantined() == []


def test_a_newer_journal_says_to_upgrade(tmp_path: Path) -> None:
    write_segment(tmp_path / "j", 1, opened(2), version=VERSION + 1)
    with pytest.raises(PipelineError, match=r"journal version 2, .*upgrade the headgate"):
        read_batch(tmp_path / "j")


def test_an_older_journal_has_fewer_columns(tmp_path: Path) -> None:
    write_segment(tmp_path / "j", 1, opened(2), version=0, without=["wire", "properties"])
    reader = JournalReader(of(tmp_path / "j"))
    found = rows(reader, reader.partitions())
    assert [(row["number"], row["name"], row["wire"]) for row in found] == [
        (1, "n0", None),
        (2, "n1", None),
    ]


def test_a_fact_of_an_unknown_kind_keeps_its_name(tmp_path: Path) -> None:
    write_segment(tmp_path / "j", 1, [("Teleported", {"at": 3.0}), *opened(1)])
    reader = JournalReader(of(tmp_path / "j"))
    found = rows(reader, reader.partitions())
    assert [(row["number"], row["kind"], row["at"]) for row in found] == [
        (1, "Teleported", None),
        (2, "SessionOpened", 1.5),
    ]


# A stream.


def test_a_stream_begins_where_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    assert JournalStream(of(tmp_path / "j")).initialOffset() == at(0)
    write_segment(tmp_path / "j", 100, opened(5))
    for start, expected in (("earliest", 99), ("latest", 104), ("102", 101), ("500", 499)):
        stream = JournalStream(of(tmp_path / "j", startingOffset=start))
        assert stream.initialOffset() == at(expected)
        end = stream.latestOffset(at(expected), ReadAllAvailable())
        assert numbers(stream, stream.partitions(at(expected), end)) == list(
            range(expected + 1, 105)
        )


def test_a_query_begins_at_a_moment_and_ends_with_a_fact(tmp_path: Path) -> None:
    moments = [10.0, 20.0, 30.0, 25.0, 40.0, 50.0]
    facts = [SessionOpened(at, SessionId(1), "w", "n") for at in moments]
    write_journal(tmp_path / "j", facts, per_segment=2)
    for moment, first in ((0, 1), (10, 1), (11, 2), (26, 3), (31, 5), (50, 6), (51, 7)):
        text = f"1970-01-01T00:00:{moment:02}Z"
        options = of(tmp_path / "j", startingTimestamp=text, endingOffset="6")
        stream, reader = JournalStream(options), JournalReader(options)
        start = stream.initialOffset()
        assert start == at(first - 1), moment
        assert numbers(reader, reader.partitions()) == list(range(first, 7))
    bounded = of(tmp_path / "j", endingOffset="3")
    reader = JournalReader(bounded)
    assert numbers(reader, reader.partitions()) == [1, 2, 3]
    assert JournalStream(bounded).latestOffset(at(0), ReadAllAvailable()) == at(3)
    assert JournalStream(bounded).latestOffset(at(3), ReadAllAvailable()) == at(3)


def test_a_micro_batch_ends_with_a_segment_or_with_its_limit(journal: Path) -> None:
    stream = JournalStream(of(journal))
    assert stream.getDefaultReadLimit() == ReadMaxRows(MAX_FACTS)
    assert JournalStream(of(journal, maxfacts="7")).getDefaultReadLimit() == ReadMaxRows(7)
    assert stream.latestOffset(at(0), ReadMaxRows(50)) == at(40)
    assert stream.latestOffset(at(33), ReadMaxRows(5)) == at(38)
    assert stream.latestOffset(at(0), ReadMaxRows(LAST + 5)) == at(LAST)
    assert stream.latestOffset(at(0), ReadAllAvailable()) == at(LAST)
    small = JournalStream(of(journal, maxFacts="20"))
    assert small.latestOffset(at(20), ReadMaxFiles(1)) == at(40), "its own limit instead"
    assert small.reportLatestOffset() == at(LAST)


def bodies(*sizes: int) -> list[Given | None]:
    """Messages that are next to nothing in a file, and as large as this in memory."""
    queue, message = QueueId(b"bmq://d/q"), MessageId(b"m")
    return [Accepted(1.0, queue, message, size, {}, bytes(size)) for size in sizes]


def test_no_more_bytes_are_in_memory_than_the_bound_however_few_they_are_in_a_file(
    tmp_path: Path,
) -> None:
    """D4: bodies that compress well killed the driver."""
    sizes = [BATCH_BYTES // 8] * 40 + [10] * 100 + [2 * BATCH_BYTES] * 2
    path = write_segment(tmp_path / "j", 1, bodies(*sizes))
    assert path.stat().st_size < BATCH_BYTES // 100
    stream = JournalStream(of(tmp_path / "j"))
    (span,) = stream.partitions(at(0), at(len(sizes)))
    batches = list(stream.read(span))
    assert sum(batch.num_rows for batch in batches) == len(sizes)
    assert all(batch.nbytes < 1.1 * BATCH_BYTES for batch in batches if batch.num_rows > 1)
    small = JournalStream(of(tmp_path / "j", columns="size"))
    assert len(list(small.read(span))) == 1, "without bodies there is nothing to bound"


def test_a_micro_batch_has_so_many_bytes_of_messages_at_most(tmp_path: Path) -> None:
    counted = ChannelCounted(1.0, b"c", 1, 1, 10**12, 1, 1)
    write_segment(tmp_path / "j", 1, [*bodies(400, 400, 400), counted, *bodies(5000, 1, 1)])
    write_segment(tmp_path / "j", 8, [*bodies(400), counted])
    stream = JournalStream(of(tmp_path / "j", maxBytes="1000"))
    ends, end = [], 0
    while end < 9:
        end = stream.latestOffset(at(end), ReadMaxRows(100))["number"]
        ends.append(end)
    assert ends == [2, 4, 5, 9], "what is larger than that comes alone"


def test_a_wide_gap_does_not_take_many_micro_batches(tmp_path: Path) -> None:
    write_segment(tmp_path / "j", 1, opened(5))
    write_segment(tmp_path / "j", 10**9, opened(50))
    stream = JournalStream(of(tmp_path / "j"))
    assert stream.latestOffset(at(5), ReadMaxRows(10)) == at(10**9 + 9)


def test_available_now_ends_with_what_was_there(journal: Path) -> None:
    stream = JournalStream(of(journal))
    stream.prepareForTriggerAvailableNow()
    write_segment(journal, LAST + 1, opened(9))
    assert stream.latestOffset(at(0), ReadAllAvailable()) == at(LAST)
    assert stream.latestOffset(at(LAST), ReadMaxRows(5)) == at(LAST)
    assert JournalStream(of(journal)).latestOffset(at(LAST), ReadMaxRows(100)) == at(LAST + 9)


def test_another_journal_in_the_place_of_the_first_is_noticed(journal: Path) -> None:
    stream = JournalStream(of(journal))
    with pytest.raises(PipelineError, match=rf"ends with fact {LAST}.*has read up to 5000"):
        stream.latestOffset(at(5000), ReadAllAvailable())


def test_a_longer_journal_in_the_place_of_the_first_is_noticed_too(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write_journal(one, opened(10), per_segment=5, identity="1")
    write_journal(other, opened(50), per_segment=5, identity="2")
    read = JournalStream(of(one)).reportLatestOffset()
    assert read == {"number": 10, "journal": "1"}
    stream = JournalStream(of(other))
    with pytest.raises(PipelineError, match="has read the journal 1, and this is 2: name the"):
        stream.latestOffset(read, ReadAllAvailable())
    with pytest.raises(PipelineError, match="has read the journal 1"):
        stream.partitions(at(0), read)
    assert stream.latestOffset(at(10), ReadAllAvailable())["journal"] == "2", "it fits any"


def test_a_router_says_which_journal_it_gives_away(tmp_path: Path) -> None:
    write_journal(tmp_path / "j", opened(10), per_segment=5, identity="1")
    identified(tmp_path / "j")
    with served(tmp_path / "j") as url:
        stream = JournalStream({"router": url, "token": TOKEN})
        assert stream.initialOffset() == {"number": 0, "journal": "1"}


def test_a_stream_reads_from_a_router_while_it_merges(journal: Path) -> None:
    with served(journal) as url:
        stream = JournalStream({"router": url, "token": TOKEN})
        end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
        spans = stream.partitions(at(0), end)
        merge_segments(journal)
        assert numbers(stream, spans) == ALL
        cut(segments(journal)[0].path)
        assert numbers(JournalReader({"router": url, "token": TOKEN}), spans) == []
        assert len(feed_of({"router": url, "token": TOKEN}).quarantined()) == 1


# With Spark.


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return register(spark)


def batch(session: SparkSession, directory: Path, **options: str) -> DataFrame:
    return session.read.format("headgate").options(**options).load(str(directory))


def catch_up(session: SparkSession, directory: Path, to: Path, **options: str) -> list[int]:
    """A stream from its checkpoint to the end of the journal; how large its batches were."""
    facts = session.readStream.format("headgate").options(path=str(directory), **options)
    query = (
        facts.load()
        .select("number", "kind")
        .writeStream.format("parquet")
        .trigger(availableNow=True)
        .start(str(to), checkpointLocation=str(to) + ".checkpoint")
    )
    query.awaitTermination(120)
    return [progress.numInputRows for progress in query.recentProgress]


def test_spark_reads_a_journal_with_filters(session: SparkSession, journal: Path) -> None:
    facts = batch(session, journal)
    accepted = facts.where("kind = 'Accepted' and number > 60 and size > 0").orderBy("number")
    expected = [(n, f) for n, f in enumerate(DAY, 1) if isinstance(f, Accepted) and n > 60]
    found = accepted.select("number", "message", "properties").collect()
    assert [(r.number, bytes(r.message)) for r in found] == [(n, f.message) for n, f in expected]
    assert [r.properties["amount"].i for r in found] == [
        f.properties["amount"] for _, f in expected
    ]
    kinds = facts.where(F.col("kind").isin("Displaced", "Expired", "Accepted")).count()
    assert kinds == sum(type(f).__name__ in ("Displaced", "Expired", "Accepted") for f in DAY)
    assert facts.where("number = 12345678").count() == 0


def test_a_stream_goes_on_exactly_after_its_checkpoint_though_segments_were_merged(
    session: SparkSession, journal: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    sizes = catch_up(session, journal, table, maxFacts="50")
    assert max(sizes) <= 50
    assert sum(sizes) == LAST
    merge_segments(journal)
    write_segment(journal, LAST + 4, opened(30))
    merge_segments(journal)
    assert sum(catch_up(session, journal, table, maxFacts="20")) == 30
    assert catch_up(session, journal, table) in ([], [0]), "there was nothing new"
    found = session.read.parquet(str(table)).orderBy("number").collect()
    assert [row.number for row in found] == [*ALL, *range(LAST + 4, LAST + 34)]


def test_spark_leaves_out_a_corrupt_segment_and_reads_the_rest(
    session: SparkSession, journal: Path, tmp_path: Path
) -> None:
    cut(segments(journal)[2].path)
    assert batch(session, journal).count() == LAST - 20
    assert sum(catch_up(session, journal, tmp_path / "table")) == LAST - 20
    assert len(feed_of(of(journal)).quarantined()) == 1


def test_what_is_wrong_comes_through_spark_as_one_line(
    session: SparkSession, journal: Path, tmp_path: Path
) -> None:
    catch_up(session, journal, tmp_path / "table")
    write_segment(journal, LAST + 50, opened(3))
    for segment in segments(journal)[:-1]:
        segment.path.unlink()
    with pytest.raises(PySparkException) as expired:
        catch_up(session, journal, tmp_path / "table")
    assert reason(expired.value).startswith("PipelineError: the facts from ")
    assert sum(catch_up(session, journal, tmp_path / "table", onExpired="skip")) == 3
    write_segment(tmp_path / "newer", 1, opened(1), version=VERSION + 1)
    with pytest.raises(PySparkException) as newer:
        batch(session, tmp_path / "newer").collect()
    assert "upgrade the headgate that Spark runs with" in reason(newer.value)
    with pytest.raises(PySparkException) as nowhere:
        batch(session, tmp_path / "nowhere").collect()
    assert "there is no journal in" in reason(nowhere.value)


def test_spark_reads_the_journal_of_a_router(
    session: SparkSession, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(journal, token="secret") as url:
        facts = session.read.format("headgate").options(router=url, token="secret").load()
        assert sorted(row.number for row in facts.select("number").collect()) == ALL
    monkeypatch.setattr("tempfile.tempdir", None)  # as it is for the workers
    cache = feeds.cache_of(url)
    assert len(list(cache.iterdir())) == len(segments(journal))
    shutil.rmtree(cache)
