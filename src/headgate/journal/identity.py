"""The identity of a journal: numbers of facts are unique within one journal only.

A journal gets its identity when its first sealer starts, and keeps it: in a file of its folder, for
readers that list it, and in every segment, which may be copied elsewhere.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.journal.segments import IDENTITY, Segment, all_files, identity_file
from headgate.store.private import make_file

KEY = b"headgate.journal.id"
"""The key in the metadata of a segment."""


def identity_of(directory: Path, files: list[Segment]) -> str:
    """The identity of the journal with these files; empty if it is older than identities."""
    return identity_file(directory) or (_in_footer(files[-1]) if files else "")


def identified(directory: Path) -> str:
    """The identity of a journal, which is made if there is none."""
    known = identity_of(directory, all_files(directory)) or uuid.uuid4().hex
    if identity_file(directory) != known:
        with open(make_file(directory / IDENTITY), "w") as file:
            file.write(f"{known}\n")
    return known


def _in_footer(segment: Segment) -> str:
    try:
        metadata = pq.read_metadata(segment.path).metadata or {}
    except (OSError, pa.ArrowException):
        return ""
    return bytes(metadata.get(KEY, b"")).decode(errors="replace")
