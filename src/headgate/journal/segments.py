"""The files of a journal: named by the first and the last number of the facts in them.

    00000000000000000001-00000000000000004096.parquet

A file under a temporary name does not count. Where names overlap, a merge was interrupted or its
sources are still kept for queries planned with them: the widest one counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headgate.core.model.value import value

NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")
PART = ".part"
"""The suffix of temporary names."""
IDENTITY = "_journal.id"
"""The file with the identity of the journal; programs that read the folder as Parquet ignore it."""
IDENTITY_HEADER = "headgate-journal"
"""The header in which the admin port sends it, beside the list of segments."""


@value
class Segment:
    """A file of the journal, and the numbers of its facts."""

    first: int
    last: int
    path: Path
    bytes: int


def name_of(first: int, last: int) -> str:
    return f"{first:020}-{last:020}.parquet"


def all_files(directory: Path) -> list[Segment]:
    """All segments, replaced ones included, in the order of their numbers."""
    found = []
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return []
    for entry in entries:
        match = NAME.fullmatch(entry.name)
        if match:
            first, last = map(int, match.groups())
            with suppress(FileNotFoundError):  # it expired since the listing
                found.append(Segment(first, last, Path(entry.path), entry.stat().st_size))
    return sorted(found, key=lambda segment: (segment.first, -segment.last))


def current(files: Iterable[Segment]) -> list[Segment]:
    """The segments to read: each fact is in exactly one of them."""
    chosen: list[Segment] = []
    for segment in files:
        if not chosen or segment.last > chosen[-1].last:
            chosen.append(segment)
    return chosen


def segments(directory: Path) -> list[Segment]:
    return current(all_files(directory))


def last_number(directory: Path) -> int:
    """The largest number that is sealed, or 0."""
    return max((segment.last for segment in all_files(directory)), default=0)


def identity_file(directory: Path) -> str:
    """The identity of a journal, by its file; empty if there is none."""
    try:
        return (directory / IDENTITY).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def clean(directory: Path) -> int:
    """Remove the temporary files of a sealer that died; return how many."""
    parts = list(directory.glob(f"*{PART}"))
    for part in parts:
        part.unlink(missing_ok=True)
    return len(parts)
