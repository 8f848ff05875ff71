"""Feeds of the segments of a journal: a folder, or a router that they are downloaded from.

Driver and executors each make their own from the same options. Nothing is remembered between
calls but on disk, so whoever looks again sees what is there now: a merge puts a wider segment in
the place of others, and the oldest expire.

A segment that cannot be read is marked by a small file next to it, or in the cache of this
machine where that is not possible. It stays in its place: the name of the newest is also where
the router's numbers go on from.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, ClassVar, Protocol

from headgate.client.admin import AdminPort, Tls, tls_of, token_of
from headgate.core.model.limits import MiB
from headgate.core.model.value import value
from headgate.errors import PipelineError, RouterError
from headgate.journal.identity import identity_of
from headgate.journal.segments import IDENTITY_HEADER, NAME, PART, Segment, all_files, current

MARK = ".corrupt"
"""How the file ends that says that a segment cannot be read."""

ANSWER_SECONDS = 10.0
PATIENCE_SECONDS = 4.0
"""How long a router is asked again; it may be starting again."""

CACHE_BYTES = 2048 * MiB
"""Bytes that the downloaded segments of a router may take. Segments used least recently go
first."""


@value
class Quarantined:
    """A segment that could not be read, and why."""

    first: int
    last: int
    name: str
    bytes: int
    problem: str


@value
class Listing:
    """A journal at one moment, oldest first."""

    segments: list[Segment]
    """Segments to read: each fact is in exactly one of them."""
    quarantined: list[Quarantined]
    """Segments that are there too, and were found unreadable."""
    identity: str = ""
    """Which journal it is; empty if it does not say."""

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last numbers of all of them."""
        return [
            *((each.first, each.last) for each in self.segments),
            *((each.first, each.last) for each in self.quarantined),
        ]


class Feed(Protocol):
    """A feed of segments: a folder, or a router's admin port."""

    is_near: ClassVar[bool]
    """Whether files can be looked into without fetching them."""

    def look(self) -> Listing:
        """The segments that are there now."""

    def open(self, segment: Segment) -> Path:
        """The file of a segment. It raises FileNotFoundError if it was merged or has expired."""

    def quarantine(self, segment: Segment, problem: str) -> None:
        """Have a segment left out from now on, and say so once."""

    def segments(self) -> list[Segment]:
        return self.look().segments

    def quarantined(self) -> list[Quarantined]:
        return self.look().quarantined


def feed_of(options: Mapping[str, str]) -> Feed:
    """The feed that the options of a query name."""
    given = {name.lower(): text for name, text in options.items()}
    if path := given.get("path"):
        return FolderFeed(Path(path.removeprefix("file://")))
    router = given.get("router") or os.environ.get("HEADGATE_ROUTER")
    if not router:
        raise PipelineError(
            "say where the journal is: with the option path, a folder that driver and executors"
            " see, or with the option router (or HEADGATE_ROUTER), the URL of a router's admin port"
        )
    feed = RouterFeed(router.rstrip("/"), token_of(options, os.environ), tls_of(options))
    AdminPort(feed.url, tls=feed.tls)  # a wrong URL is said now, and so are wrong files
    return feed


@dataclass(frozen=True)
class FolderFeed(Feed):
    """Segments in a folder that everybody sees who reads."""

    directory: Path
    is_near: ClassVar[bool] = True

    def look(self) -> Listing:
        files = self._files()
        marks = [*_marks(self._cache(make=False)), *_marks(self.directory)]
        return _sorted_out(files, marks, identity_of(self.directory, files))

    def open(self, segment: Segment) -> Path:
        return segment.path

    def quarantine(self, segment: Segment, problem: str) -> None:
        if segment.path.exists():  # it may have been cut off only now
            segment = replace(segment, bytes=segment.path.stat().st_size)
        try:
            _mark(self.directory, segment, problem)
        except OSError:
            _mark(self._cache(), segment, problem)

    def _cache(self, make: bool = True) -> Path:
        return cache_of(str(self.directory.absolute()), make=make)

    def _files(self) -> list[Segment]:
        if not self.directory.is_dir():
            raise PipelineError(
                f"there is no journal in {self.directory}: a router makes it (`headgate serve`, or"
                " `headgate demo` to try); name its folder with --journal, or with the option path"
            )
        return all_files(self.directory)


@dataclass(frozen=True)
class RouterFeed(Feed):
    """Segments that a router has closed, downloaded once to each machine that reads."""

    url: str
    token: str | None = None
    tls: Tls | None = None
    is_near: ClassVar[bool] = False

    def look(self) -> Listing:
        found, identity = self._port.take(
            "GET", "/journal/segments", _listed, patience=PATIENCE_SECONDS
        )
        return _sorted_out(found, _marks(self._cache), identity)

    def open(self, segment: Segment) -> Path:
        """The router's tag of a file is part of the name here: a router that began anew has
        other segments of the same names."""
        name = segment.path.name

        def save(response: http.client.HTTPResponse) -> Path:
            tag = hashlib.sha256(response.headers.get("etag", "").encode()).hexdigest()[:16]
            path = self._cache / f"{tag}-{name}"
            if path.exists():
                os.utime(path)
            else:
                _save(response, path)
                trim(self._cache, keep=path)
            return path

        try:
            return self._port.take(
                "GET", f"/journal/segments/{name}", save, patience=PATIENCE_SECONDS
            )
        except RouterError as error:
            if error.status == 404:
                raise FileNotFoundError(name) from None
            raise

    def quarantine(self, segment: Segment, problem: str) -> None:
        _mark(self._cache, segment, problem)

    @property
    def _cache(self) -> Path:
        return cache_of(self.url)

    @property
    def _port(self) -> AdminPort:
        return AdminPort(self.url, self.token, answer_seconds=ANSWER_SECONDS, tls=self.tls)


def _listed(response: http.client.HTTPResponse) -> tuple[list[Segment], str]:
    found = [
        Segment(int(match[1]), int(match[2]), Path(row["name"]), row["bytes"])
        for row in json.load(response)
        if (match := NAME.fullmatch(row["name"]))  # it becomes the name of a file here
    ]
    return found, response.headers.get(IDENTITY_HEADER, "")


# The cache of this machine.


def cache_of(source: str, *, make: bool = True) -> Path:
    """A folder of this user for one feed. It may be removed at any time."""
    ours = Path(tempfile.gettempdir()) / f"headgate-{os.getuid()}"
    folder = ours / hashlib.sha256(source.encode()).hexdigest()[:16]
    if make:
        ours.mkdir(mode=0o700, exist_ok=True)
    if ours.exists() and ours.stat().st_uid != os.getuid():
        raise PipelineError(f"{ours} belongs to somebody else; set TMPDIR to a folder of yours")
    if make:
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def trim(folder: Path, *, keep: Path) -> None:
    """Remove what was used least recently, until the rest is within its bound."""
    files = []
    for path in folder.iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.suffix != MARK:
            files.append((status.st_mtime_ns, status.st_size, path))
    size = sum(each for _, each, _ in files)
    for _, each, path in sorted(files):
        if size <= CACHE_BYTES:
            break
        if path != keep:
            path.unlink(missing_ok=True)
            size -= each


def _save(response: http.client.HTTPResponse, path: Path) -> None:
    with _whole(path) as file:
        shutil.copyfileobj(response, file, MiB)
        length = response.headers.get("content-length")
        if length is not None and file.tell() != int(length):
            raise http.client.IncompleteRead(b"", int(length) - file.tell())


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that is written under a temporary name: it is there whole, or not at all."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, suffix=PART)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.replace(part, path)
    except BaseException as error:
        os.unlink(part)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PipelineError(f"there is no room in {path.parent}; TMPDIR says where") from error
        raise


# Marks.


def _sorted_out(files: Iterable[Segment], marks: Iterable[Quarantined], identity: str) -> Listing:
    """A mark counts for a file of its size only, not for what another journal, or a repair, put
    in its place."""
    marked = {(mark.name, mark.bytes): mark for mark in marks}
    good, bad = [], []
    for file in files:
        mark = marked.get((file.path.name, file.bytes))
        if mark is None:
            good.append(file)
        else:
            bad.append(mark)
    return Listing(current(good), bad, identity)


def _mark(folder: Path, segment: Segment, problem: str) -> None:
    mark = folder / (segment.path.name + MARK)
    if any(
        (each.name, each.bytes) == (segment.path.name, segment.bytes) for each in _marks(folder)
    ):
        return  # somebody who reads another part of it was faster
    why = " ".join(problem.split())[:400]
    with _whole(mark) as file:
        file.write(json.dumps({"bytes": segment.bytes, "problem": why}).encode())
    print(
        f"headgate: left out {segment.path.name}, which cannot be read ({why}); `headgate journal"
        f" verify` tells more, and without {mark} it is read again; tables get its facts by"
        f" `headgate pipeline rebuild --from {segment.first} --to {segment.last}`",
        file=sys.stderr,
    )


def _marks(folder: Path) -> list[Quarantined]:
    found = []
    for mark in folder.glob(f"*.parquet{MARK}"):
        match = NAME.fullmatch(name := mark.name.removesuffix(MARK))
        if match is None:
            continue
        try:
            mark_fields = json.loads(mark.read_text())
        except (OSError, ValueError):
            continue  # it is being written, or is of somebody else
        first, last = int(match[1]), int(match[2])
        found.append(Quarantined(first, last, name, mark_fields["bytes"], mark_fields["problem"]))
    return found
