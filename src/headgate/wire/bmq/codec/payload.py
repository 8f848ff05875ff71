"""The data of a message: its properties and its payload, plain or compressed."""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Final

import google_crc32c

from headgate.core.model.message import NO_PROPERTIES, Properties
from headgate.errors import LimitReached
from headgate.wire.bmq.codec.frames import Buffer
from headgate.wire.bmq.codec.properties import BadData, encode_area, parse_area

__all__ = [
    "BadData",
    "Compression",
    "PayloadDecoder",
    "checksum",
    "close_data",
    "open_data",
    "split_data",
]

INPUT_BYTES = 256 * 1024
"""Compressed bytes that are handled together: the unused rest is copied."""


class Compression(IntEnum):
    """How the data of a message is compressed."""

    NONE = 0
    ZLIB = 1


NONE: Final = int(Compression.NONE)
ZLIB: Final = int(Compression.ZLIB)


def checksum(data: Buffer) -> int:
    """The CRC32-C of a PUT's data, as the data is on the wire."""
    return int(google_crc32c.value(bytes(data)))


def open_data(
    data: Buffer, *, has_properties: bool, compression: int, schema: int, bytes_max: int
) -> tuple[Properties, bytes]:
    """The properties and the payload.

    A schema other than 0 means the new style of properties, which are never compressed. In the old
    style they are compressed with the payload. Inflating stops at `bytes_max`.
    """
    if compression == NONE:
        return split_data(data, has_properties, schema)
    opening = PayloadDecoder(
        data,
        has_properties=has_properties,
        compression=compression,
        schema=schema,
        bytes_max=bytes_max,
    )
    opening.inflate(bytes_max + 1)
    return opening.content()


class PayloadDecoder:
    """Compressed data that is inflated in parts: a few bytes may become many, and others should get
    a turn in between."""

    __slots__ = (
        "_data",
        "_has_properties",
        "_inflater",
        "_parts",
        "_place",
        "_properties",
        "_size",
        "_tail",
        "bytes_max",
    )

    def __init__(
        self, data: Buffer, *, has_properties: bool, compression: int, schema: int, bytes_max: int
    ) -> None:
        if compression != ZLIB:
            raise BadData(f"compression {compression} is not known")
        self.bytes_max = bytes_max
        self._properties: Properties | None = None
        """In the new style, where the properties are not compressed."""
        self._has_properties = has_properties
        self._place = 0
        if has_properties and schema != 0:
            self._properties, self._place = parse_area(data, True)
        self._data = data
        self._inflater = zlib.decompressobj()
        self._tail: Buffer = b""
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def is_done(self) -> bool:
        return self._inflater.eof

    def inflate(self, most: int) -> int:
        """Inflate at most so many more bytes; return how many."""
        before = self._size
        end = min(before + most, self.bytes_max + 1)
        while not self._inflater.eof and self._size < end:
            self._inflate_some(end - self._size)
        if self._size > self.bytes_max:
            raise LimitReached("body_bytes", self.bytes_max)
        if self._inflater.eof and (self._inflater.unused_data or self._place < len(self._data)):
            raise BadData("bytes are left behind the compressed data")
        return self._size - before

    def _inflate_some(self, most: int) -> None:
        if not self._tail:
            self._tail = self._data[self._place : self._place + INPUT_BYTES]
            self._place += len(self._tail)
        is_last = not self._tail
        try:
            part = self._inflater.decompress(self._tail, most)
        except zlib.error as error:
            raise BadData(f"the data cannot be inflated: {error}") from None
        self._tail = self._inflater.unconsumed_tail
        if is_last and not part and not self._inflater.eof:
            raise BadData("the compressed data is cut off")
        self._parts.append(part)
        self._size += len(part)

    def content(self) -> tuple[Properties, bytes]:
        """The properties and the payload, when all is inflated."""
        inflated = b"".join(self._parts)
        if self._properties is not None:
            return self._properties, inflated
        return split_data(inflated, self._has_properties, 0)


def split_data(data: Buffer, has_properties: bool, schema: int) -> tuple[Properties, bytes]:
    """The properties and the payload of data that is not compressed."""
    if not has_properties:
        return NO_PROPERTIES, bytes(data)
    properties, size = parse_area(data, schema != 0)
    return properties, bytes(data[size:])


def close_data(properties: Properties, body: bytes, compression: int = NONE) -> bytes:
    """In the old style: with schema 0, and all of it compressed."""
    data = encode_area(properties) + body if properties else body
    return zlib.compress(data) if compression == ZLIB else data
