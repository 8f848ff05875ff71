"""What is light enough to be held at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.facts import Accepted, ChannelCounted, Fact
from headgate.core.model.ids import MessageId, QueueId
from headgate.pipeline.source import weight
from headgate.pipeline.source.feed import FolderFeed
from headgate.pipeline.source.weight import LIGHT_BYTES, LIGHT_FACTS, is_light
from tests.support.journals import write_journal, write_segment

Q = QueueId(b"bmq://shop.orders/new")


def messages(count: int, size: int) -> list[Fact]:
    return [Accepted(1.0, Q, MessageId(b"%d" % n), size, {}) for n in range(count)]


def test_few_small_messages_are_light(tmp_path: Path) -> None:
    write_journal(tmp_path, messages(20, 100), per_segment=5)
    assert is_light(FolderFeed(tmp_path), 0, 20)


def test_what_messages_are_counts_and_not_how_they_are_stored(tmp_path: Path) -> None:
    """D4: equal bodies are stored once, and took gigabytes where they were read."""
    write_journal(tmp_path, messages(8, LIGHT_BYTES // 4), per_segment=4)
    feed = FolderFeed(tmp_path)
    assert is_light(feed, 0, 4)
    assert is_light(feed, 4, 8), "only those that are meant count"
    assert is_light(feed, 1, 5), "of two segments, too"
    assert not is_light(feed, 0, 5)


def test_what_was_published_on_a_channel_was_not_kept(tmp_path: Path) -> None:
    """A count of bytes is not the bytes."""
    write_segment(tmp_path, 1, [ChannelCounted(1.0, b"c", 1, 9, 1 << 40, 9, 1)])
    assert is_light(FolderFeed(tmp_path), 0, 1)


def test_many_facts_are_not_light_and_are_not_looked_at(tmp_path: Path) -> None:
    assert not is_light(FolderFeed(tmp_path / "nowhere"), 5, 6 + LIGHT_FACTS)


def test_large_segments_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(tmp_path, messages(20, 100), per_segment=5)
    monkeypatch.setattr(weight, "LIGHT_BYTES", 2_000)
    assert not is_light(FolderFeed(tmp_path), 0, 20)


def test_what_cannot_be_read_is_not_known_to_be_light(tmp_path: Path) -> None:
    (path,) = write_journal(tmp_path, messages(5, 1), per_segment=5)
    path.write_bytes(path.read_bytes()[:-1])
    assert not is_light(FolderFeed(tmp_path), 0, 5)
    path.unlink()
    write_segment(tmp_path, 1, messages(5, 1), without=["size"])
    assert not is_light(FolderFeed(tmp_path), 0, 5)
