"""The primitive fields of this wire, read and written.

`FieldReader` walks once over the bytes of a command. A field is a plain Python value, so reading
one costs a slice; wrong bytes raise `Malformed`. The functions beside it write fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.crypto.keys import KEY_BYTES, PREFIX, X25519
from headgate.crypto.x448 import decode_x448, encode_x448
from headgate.errors import Malformed

T = TypeVar("T")

PURPOSES: Final = {ord(purpose.value): purpose for purpose in Purpose}

HASH_BYTES: Final = 16
"""Length of the hash over a set of queue ids."""


BYTE: Final = tuple(bytes((n,)) for n in range(256))


class FieldReader:
    """A position in some bytes.

    Made for the bytes of one command or message. Every method reads a field and moves behind it, or
    raises `Malformed`.
    """

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at
        self._end = len(data)

    def take(self, length: int) -> bytes:
        at = self._at
        end = at + length
        if end > self._end:
            raise Malformed("the bytes end too early")
        self._at = end
        return self._data[at:end]

    def rest(self) -> bytes:
        at, self._at = self._at, self._end
        return self._data[at:]

    def byte(self) -> int:
        at = self._at
        if at >= self._end:
            raise Malformed("the bytes end too early")
        self._at = at + 1
        return self._data[at]

    def char(self) -> bytes:
        return BYTE[self.byte()]

    def boolean(self) -> bool:
        byte = self.byte()
        if byte == 0x54:  # T
            return True
        if byte == 0x46:  # F
            return False
        raise Malformed("neither true nor false")

    def word16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def word32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def string(self) -> bytes:
        """Up to 255 bytes behind their length: the most frequent field, so without further
        calls."""
        at = self._at + 1
        if at > self._end:
            raise Malformed("the bytes end too early")
        end = at + self._data[at - 1]
        if end > self._end:
            raise Malformed("the bytes end too early")
        self._at = end
        return self._data[at:end]

    def large(self) -> bytes:
        """Up to 65,535 bytes behind their length."""
        return self.take(self.word16())

    def queue_key(self) -> bytes:
        """A public key that a party of a queue may have."""
        key = self.string()
        if KEY_BYTES.get(key[:PREFIX]) != len(key):
            raise Malformed("no key that a queue can have")
        return key

    def dh_key(self) -> bytes:
        """A public key for an exchange."""
        key = self.string()
        if key[:PREFIX] != X25519 or len(key) != KEY_BYTES[X25519]:
            raise Malformed("no key of X25519")
        return key

    def ratchet_key(self) -> bytes:
        """A public key of X448, raw."""
        return decode_x448(self.string())

    def purpose(self) -> Purpose:
        purpose = PURPOSES.get(self.byte())
        if purpose is None:
            raise Malformed("no purpose of a queue")
        return purpose

    def tally(self) -> Tally:
        count = self.int64()
        hashed = self.string()
        if len(hashed) != HASH_BYTES:
            raise Malformed("no hash of ids")
        return Tally.parse(count, hashed)

    def maybe(self, read: Callable[[FieldReader], T]) -> T | None:
        """The field that `read` reads, as in ``reader.maybe(Reader.string)``, or None if it is
        absent."""
        byte = self.byte()
        if byte == 0x30:  # 0
            return None
        if byte == 0x31:  # 1
            return read(self)
        raise Malformed("neither there nor absent")

    def items(self, read: Callable[[FieldReader], T]) -> list[T]:
        return [read(self) for _ in range(self.byte())]

    def some(self, read: Callable[[FieldReader], T]) -> list[T]:
        """A list of at least one item."""
        items = self.items(read)
        if not items:
            raise Malformed("an empty list")
        return items

    def skip_past(self, mark: bytes) -> None:
        """Skip everything up to a mark, and the mark."""
        at = self._data.find(mark, self._at)
        if at < 0:
            raise Malformed("the bytes end too early")
        self._at = at + len(mark)

    def peek(self) -> bytes:
        """The next byte, which is not consumed; empty at the end."""
        return self._data[self._at : self._at + 1]

    def mark(self) -> int:
        """The position, for `rewind`."""
        return self._at

    def rewind(self, mark: int) -> None:
        self._at = mark

    @property
    def is_done(self) -> bool:
        return self._at == self._end

    def finish(self) -> None:
        """Check that nothing is left."""
        if self._at != self._end:
            raise Malformed("bytes are left over")


def string(data: bytes) -> bytes:
    assert len(data) < 256, "a string has at most 255 bytes"
    return BYTE[len(data)] + data


def large(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def boolean(is_true: bool) -> bytes:
    return b"T" if is_true else b"F"


def word16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def word32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def int64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def ratchet_key(raw: bytes) -> bytes:
    return string(encode_x448(raw))


def maybe(encoded: bytes | None) -> bytes:
    """A field that may be absent, encoded beforehand."""
    return b"0" if encoded is None else b"1" + encoded


def maybe_string(data: bytes | None) -> bytes:
    return b"0" if data is None else b"1" + string(data)


def items(encoded: Sequence[bytes]) -> bytes:
    """A list, its items encoded beforehand."""
    assert len(encoded) < 256, "a list has at most 255 items"
    return BYTE[len(encoded)] + b"".join(encoded)
