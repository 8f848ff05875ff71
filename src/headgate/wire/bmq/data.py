"""The data of a message: its properties and its payload, plain or compressed."""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Final

import google_crc32c

from headgate.core.message import NO_PROPERTIES, Properties
from headgate.errors import LimitReached
from headgate.wire.bmq.events import Buffer
from headgate.wire.bmq.properties import BadData, encode_area, parse_area

__all__ = ["BadData", "Compression", "checksum", "close_data", "open_data"]


class Compression(IntEnum):
    NONE = 0
    ZLIB = 1


NONE: Final = int(Compression.NONE)
ZLIB: Final = int(Compression.ZLIB)


def checksum(data: Buffer) -> int:
    """The CRC32-C that a PUT carries of its data, as the data stands on the wire."""
    return int(google_crc32c.value(bytes(data)))


def open_data(
    data: Buffer, *, has_properties: bool, compression: int, schema: int, bytes_max: int
) -> tuple[Properties, bytes]:
    """The properties and the payload.

    A schema other than 0 means the new style of properties, which are never compressed. In the old
    style they are compressed with the payload. What would become longer than `bytes_max` when it
    is inflated is not inflated further.
    """
    if compression not in (NONE, ZLIB):
        raise BadData(f"compression {compression} is not known")
    is_new = has_properties and schema != 0
    if compression and not is_new:
        data = _inflate(data, bytes_max)
    if not has_properties:
        return NO_PROPERTIES, bytes(data)
    properties, size = parse_area(data, is_new)
    payload = data[size:]
    if compression and is_new:
        return properties, _inflate(payload, bytes_max)
    return properties, bytes(payload)


def _inflate(data: Buffer, bytes_max: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise BadData(f"the data cannot be inflated: {error}") from None
    if len(inflated) > bytes_max:
        raise LimitReached("body_bytes", bytes_max)
    if not inflater.eof:
        raise BadData("the compressed data is cut off")
    if inflater.unused_data:
        raise BadData("bytes are left behind the compressed data")
    return inflated


def close_data(properties: Properties, body: bytes, compression: int = NONE) -> bytes:
    """In the old style: with schema 0, and all of it compressed."""
    data = encode_area(properties) + body if properties else body
    return zlib.compress(data) if compression == ZLIB else data
