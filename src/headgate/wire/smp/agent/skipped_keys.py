"""Skipped keys: the keys of messages that have not come, while later ones have.

Each opens one message and is then removed. The store has a row for each; the result of decrypting a
message lists the keys added, used and dropped. Their number is bounded whatever a peer sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from headgate.core.model.value import value

GAP_MAX: Final = 512
"""Messages that may be missing before a received one."""

KEPT_MAX: Final = 2048
"""Keys of a connection; beyond it the oldest are dropped."""


@value
class SkippedKey:
    """The key of one message that has not come."""

    header_key: bytes = field(repr=False)
    number: int
    message_key: bytes = field(repr=False)
    iv: bytes = field(repr=False)


@value
class SkippedKeys:
    """The skipped keys of a connection, oldest first."""

    keys: tuple[SkippedKey, ...] = ()

    def by_header_key(self) -> Iterator[tuple[bytes, Mapping[int, SkippedKey]]]:
        """For each header key the message numbers that are expected under it."""
        chains: dict[bytes, dict[int, SkippedKey]] = {}
        for key in self.keys:
            chains.setdefault(key.header_key, {})[key.number] = key
        return iter(chains.items())

    def without(self, used: SkippedKey) -> SkippedKeys:
        return SkippedKeys(tuple(key for key in self.keys if key is not used))

    def with_added(self, added: Sequence[SkippedKey]) -> tuple[SkippedKeys, tuple[SkippedKey, ...]]:
        """The keys with these added, and those dropped for them."""
        keys = (*self.keys, *added)
        dropped = max(0, len(keys) - KEPT_MAX)
        return SkippedKeys(keys[dropped:]), keys[:dropped]

    def __len__(self) -> int:
        return len(self.keys)
