"""Drawn commands on streams have the same answers from redis-server and from the router."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.strangers.stream_sequences import StreamArena, stream_arena

PARTS = 4
IN_A_PART = 500


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamArena]:
    folder: Path = tmp_path_factory.mktemp("streams")
    with stream_arena(folder) as both:
        yield both


@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_commands_have_the_answers_of_redis(both: StreamArena, part: int) -> None:
    """Check 79: byte by byte, but for ids and times."""
    seeds = range(part * IN_A_PART, (part + 1) * IN_A_PART)
    assert [trouble for trouble in both.check_all(seeds) if trouble] == []
