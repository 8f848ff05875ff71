"""Rows that wait for their commit: one file for each attempt of a partition of a batch.

A file is the body of a request as it came, then its length and checksum. It is not synced: what
a crash of the machine takes is found missing at the commit, and the sink sends the batch again.
A body is a sequence of frames, each four bytes of length and a MessagePack array of rows, each an
array of id, body, properties and, for channels, the channel.
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
from itertools import count
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

SILENCE_SECONDS = 30.0
"""How long a request may say nothing in the middle of its body."""

BODY_SECONDS = 300.0
"""How long a body may take in all."""

WRITE_BYTES = 1 * MiB
"""Bytes of a body that are gathered before they go to the disk."""

FILE_BYTES = 4 * KiB
"""What a file counts for at least: the disk gives no less, and there could be many."""

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


_decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


class Staging:
    """The files, and how much they take."""

    def __init__(self, directory: Path, limits: Limits, clock: Callable[[], float]) -> None:
        self.directory = directory
        self._clock = clock
        self._limits = limits
        self._parts = count()
        self._files: dict[Place, tuple[int, float]] = {}
        """What each file counts for, and when it came."""
        self.bytes: Counter[str] = Counter()
        """What each sink has here, files that are not whole yet included."""

    def open(self) -> None:
        """Find what an earlier router left, and remove what it did not finish."""
        make_folder(self.directory)
        for path in self.directory.iterdir():
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

    async def write(self, place: Place, chunks: AsyncIterator[bytes]) -> int:
        """Write a body as it comes; it is there when it is whole. Return its size."""
        path = self.path(place)
        part = path.with_name(f"{path.name}.{next(self._parts)}.part")
        size = crc = 0
        try:
            with open(await asyncio.to_thread(make_file, part), "wb") as file:  # noqa: ASYNC230
                async for data in _gathered(chunks):
                    self._check(place.sink, size, len(data))
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

    async def drop(self, is_unwanted: Callable[[Place, float], bool]) -> None:
        """Remove files, by their place and their time."""
        gone = [place for place, (_, at) in self._files.items() if is_unwanted(place, at)]
        for place in gone:
            self._change(place.sink, -self._files.pop(place)[0])
        if gone:
            await asyncio.to_thread(_remove, [self.path(place) for place in gone])

    def _check(self, sink: str, before: int, size: int) -> None:
        limits = self._limits
        if before + size > limits.sink_bytes:
            raise LimitReached("sink_bytes", limits.sink_bytes)
        if self.bytes[sink] + size > limits.sink_staged_bytes:
            raise LimitReached("sink_staged_bytes", limits.sink_staged_bytes)
        if self.bytes.total() + size > limits.staged_bytes:
            raise LimitReached("staged_bytes", limits.staged_bytes)

    def _change(self, sink: str, by: int) -> None:
        self.bytes[sink] += by
        if not self.bytes[sink]:
            del self.bytes[sink]

    def _body(self, place: Place) -> memoryview:
        """What was staged, if it is whole: a machine that died may have left less."""
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
    """The same bytes in larger pieces, for as long as they keep coming."""
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
