"""Rows that wait for their commit: one file for each attempt of a partition of a batch.

A file is the body of a request as it came, then its length and checksum. It is not synced: what
a crash of the machine takes is found missing at the commit, and the sink sends the batch again.
A body is a sequence of frames, each four bytes of length and a MessagePack array of rows, each an
array of id, body, properties and, for channels, the channel.

The rows of a batch that lands in pieces are kept, synced, from before the first piece lands: a
batch that is repeated may be cut otherwise, and what of it has landed is known by its place.
"""

from __future__ import annotations

import asyncio
import os
import re
import struct
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from headgate.core.model.limits import KiB, Limits, MiB
from headgate.errors import LimitReached
from headgate.store.private import make_file, make_folder

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
NUMBER = re.compile(r"[0-9]{1,18}")
FILE = re.compile(rf"({NAME.pattern})@({NUMBER.pattern})-({NUMBER.pattern})-({NUMBER.pattern})")

KEPT = re.compile(rf"({NAME.pattern})@({NUMBER.pattern})\.pieces")
"""The file that says what is kept of a batch."""

SILENCE_SECONDS = 30.0
"""How long a request may say nothing in the middle of its body."""

BODY_SECONDS = 300.0
"""How long a body may take in all."""

WRITE_BYTES = 1 * MiB
"""Bytes of a body that are gathered before they go to the disk."""

FILE_BYTES = 4 * KiB
"""The least that a file counts for: the disk gives no less, and there could be many."""

ID_BYTES = 255

TRAILER = struct.Struct(">QI")
"""Length and checksum of what stands before it in a staged file."""

FRAME = struct.Struct(">I")


class Place(NamedTuple):
    """The place of rows: their sink, batch and partition."""

    sink: str
    batch: int
    partition: int
    attempt: int


class Row(msgspec.Struct, array_like=True, gc=False):
    """A row as a sink stages it."""

    id: bytes
    body: bytes
    properties: dict[str, bool | int | str] = {}
    channel: bytes | None = None


class Kept(msgspec.Struct, frozen=True):
    """The attempts of a batch that lands in pieces, in their order, and the queue for them."""

    parts: list[tuple[int, int]]
    queue: str


_decode_rows = msgspec.msgpack.Decoder(list[Row]).decode
_decode_kept = msgspec.json.Decoder(Kept).decode
_encode_row = msgspec.msgpack.Encoder().encode


class Staging:
    """The staged files of all sinks, and the bytes that they take.

    Owned by `SinkAdmin`. A file is known here from its first byte to its removal, and all together
    stay below the limit.
    """

    def __init__(self, directory: Path, limits: Limits, clock: Callable[[], float]) -> None:
        self.directory = directory
        self._clock = clock
        self._limits = limits
        self._parts = count()
        self._files: dict[Place, tuple[int, float]] = {}
        """The bytes that each file counts for, and when it came."""
        self.bytes: Counter[str] = Counter()
        """The bytes of each sink here, including files that are not whole yet."""
        self.kept: dict[tuple[str, int], Kept] = {}
        """By sink and batch."""

    def open(self) -> None:
        """Find what an earlier router left, and remove what it did not finish."""
        make_folder(self.directory)
        for path in self.directory.iterdir():
            if kept := KEPT.fullmatch(path.name):
                self._read_kept(path, kept[1], int(kept[2]))
                continue
            match = FILE.fullmatch(path.name)
            if match is None:
                path.unlink()
                continue
            sink, *numbers = match.groups()
            found = path.stat()
            size = max(found.st_size - TRAILER.size, FILE_BYTES)
            self._files[Place(sink, *map(int, numbers))] = (size, found.st_mtime)
            self.bytes[sink] += size

    def path(self, place: Place) -> Path:
        return self.directory / "{}@{}-{}-{}".format(*place)

    async def write(self, place: Place, chunks: AsyncIterator[bytes], most: int) -> int:
        """Write a body of so many bytes at most as it comes; it is there when it is whole. Return
        its size."""
        path = self.path(place)
        part = path.with_name(f"{path.name}.{next(self._parts)}.part")
        size = crc = 0
        try:
            with open(await asyncio.to_thread(make_file, part), "wb") as file:  # noqa: ASYNC230
                async for data in _gathered(chunks):
                    self._check(place.sink, size, len(data), most)
                    size += len(data)
                    self.bytes[place.sink] += len(data)
                    crc = zlib.crc32(data, crc)
                    await asyncio.to_thread(file.write, data)
                file.write(TRAILER.pack(size, crc))
            now = self._clock()
            os.utime(part, (now, now))  # the next router finds it there
            part.replace(path)
            before, _ = self._files.get(place, (0, 0.0))
            counts = max(size, FILE_BYTES)
            self._files[place] = (counts, now)
            self._change(place.sink, counts - before)
        finally:
            part.unlink(missing_ok=True)
            self._change(place.sink, -size)
        return size

    def read(self, places: Sequence[Place]) -> list[Row]:
        """The rows of these attempts, all of them within the bounds of a batch. For a thread."""
        rows: list[Row] = []
        size = 0
        for place in places:
            body = self._body(place)
            size += len(body)
            if size > self._limits.sink_bytes:
                raise LimitReached("sink_bytes", self._limits.sink_bytes)
            for frame in _frames(body, place):
                rows += _rows(frame, place)
                if len(rows) > self._limits.sink_messages:
                    raise LimitReached("sink_messages", self._limits.sink_messages)
        return rows

    def pieces(
        self, places: Sequence[Place], after: int, messages: int, size: int
    ) -> Iterator[list[Row]]:
        """The rows of these attempts after so many of them, in pieces of so many rows and bytes at
        most, but of one row at least. For a thread."""
        piece: list[Row] = []
        room = size
        for row in islice(self._each(places), after, None):
            needed = len(_encode_row(row))
            if piece and (len(piece) == messages or needed > room):
                yield piece
                piece, room = [], size
            piece.append(row)
            room -= needed
        yield piece

    def keep(self, sink: str, batch: int, kept: Kept) -> None:
        """Have attempts of a batch outlive the machine, until they are let go. For a thread."""
        for part in kept.parts:
            _sync(self.path(Place(sink, batch, *part)))
        path = self._kept_path(sink, batch)
        part_path = path.with_name(f"{path.name}.part")
        with open(make_file(part_path), "wb") as file:
            file.write(msgspec.json.encode(kept))
        _sync(part_path)
        part_path.replace(path)
        _sync(self.directory)
        self.kept[sink, batch] = kept

    async def let_go(self, sink: str, batch: int) -> None:
        """Keep nothing of a batch any longer; its files are then like all others."""
        if self.kept.pop((sink, batch), None) is not None:
            await asyncio.to_thread(_remove, [self._kept_path(sink, batch)])

    async def drop(self, is_unwanted: Callable[[Place, float], bool]) -> None:
        """Remove files that are not kept, by their place and their time."""
        gone = [
            place
            for place, (_, at) in self._files.items()
            if is_unwanted(place, at) and not self._is_kept(place)
        ]
        for place in gone:
            self._change(place.sink, -self._files.pop(place)[0])
        if gone:
            await asyncio.to_thread(_remove, [self.path(place) for place in gone])

    def _check(self, sink: str, before: int, size: int, most: int) -> None:
        limits = self._limits
        if before + size > most:
            raise LimitReached("sink_bytes", limits.sink_bytes)
        if self.bytes[sink] + size > limits.sink_staged_bytes:
            raise LimitReached("sink_staged_bytes", limits.sink_staged_bytes)
        if self.bytes.total() + size > limits.staged_bytes:
            raise LimitReached("staged_bytes", limits.staged_bytes)

    def _change(self, sink: str, by: int) -> None:
        self.bytes[sink] += by
        if not self.bytes[sink]:
            del self.bytes[sink]

    def _kept_path(self, sink: str, batch: int) -> Path:
        return self.directory / f"{sink}@{batch}.pieces"

    def _read_kept(self, path: Path, sink: str, batch: int) -> None:
        try:
            self.kept[sink, batch] = _decode_kept(path.read_bytes())
        except (OSError, msgspec.MsgspecError):
            path.unlink()

    def _is_kept(self, place: Place) -> bool:
        kept = self.kept.get((place.sink, place.batch))
        return kept is not None and (place.partition, place.attempt) in kept.parts

    def _each(self, places: Sequence[Place]) -> Iterator[Row]:
        for place in places:
            for frame in _frames(self._body(place), place):
                yield from _rows(frame, place)

    def _body(self, place: Place) -> memoryview:
        """The staged rows, if they are whole: a machine that died may have left less."""
        try:
            data = memoryview(self.path(place).read_bytes())
            body = data[: -TRAILER.size]
            if TRAILER.unpack(data[-TRAILER.size :]) == (len(body), zlib.crc32(body)):
                return body
        except (OSError, struct.error):
            pass
        raise HTTPException(
            409,
            f"partition {place.partition}, attempt {place.attempt} of batch {place.batch} is not"
            " staged here; send the batch again",
        )


def _sync(path: Path) -> None:
    """Have a file or a folder outlive the machine; one that is gone is found missing later."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # it is found again when the router starts
            path.unlink()


async def read_away(chunks: AsyncIterator[bytes], most: int) -> None:
    """Read the rest of a body that is not wanted, up to a bound: who is still sending it would
    not read an answer."""
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(SILENCE_SECONDS):
            async for chunk in chunks:
                most -= len(chunk)
                if most < 0:
                    return


async def _gathered(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join the pieces of a body into larger ones, for as long as they keep coming."""
    gathered = bytearray()
    end = asyncio.get_running_loop().time() + BODY_SECONDS
    try:
        while True:
            left = end - asyncio.get_running_loop().time()
            async with asyncio.timeout(min(SILENCE_SECONDS, left)):
                chunk = await anext(chunks, None)
            if chunk is None:
                break
            gathered += chunk
            if len(gathered) >= WRITE_BYTES:
                yield bytes(gathered)
                gathered.clear()
    except (TimeoutError, ClientDisconnect):
        raise HTTPException(408, "the body of the request did not come to its end") from None
    if gathered:
        yield bytes(gathered)


def _frames(body: memoryview, place: Place) -> Iterator[memoryview]:
    start = 0
    while start < len(body):
        after = start + FRAME.size
        length = FRAME.unpack(body[start:after])[0] if after <= len(body) else len(body)
        start = after + length
        if start > len(body):
            raise _unreadable(place, "the last frame is cut")
        yield body[after:start]


def _rows(frame: memoryview, place: Place) -> list[Row]:
    try:
        rows = _decode_rows(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(place, str(error)) from None
    if not all(0 < len(row.id) <= ID_BYTES for row in rows):
        raise _unreadable(place, f"an id has 1 to {ID_BYTES} bytes")
    return rows


def _unreadable(place: Place, why: str) -> HTTPException:
    return HTTPException(
        400, f"partition {place.partition}, attempt {place.attempt} cannot be read: {why}"
    )
