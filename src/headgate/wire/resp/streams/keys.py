"""Keys that are streams: which queue of which domain each one is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headgate.core.model.domain import Domain, Mode
from headgate.core.model.glob import Glob
from headgate.core.model.ids import QueueId
from headgate.core.model.queue_uri import QUEUE_CHARS_MAX, SCHEME
from headgate.core.model.value import value
from headgate.wire.resp.codec.replies import CommandError, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KNOWN_MAX = 10_000
"""Keys remembered with their queues."""

FIND_STEPS = 5
"""Work of making the name of a queue of a key, besides a step for each pattern."""

SPELLED = re.compile(rb"[^-a-zA-Z0-9_.]")
"""Characters that are written as digits in the address of a queue."""
ADDRESS = SCHEME.encode()
"""How the address of a queue begins."""
QUEUE_NAME = re.compile(rb"[-a-zA-Z0-9_~.]{1,%d}" % QUEUE_CHARS_MAX)


@value
class StreamName:
    """A stream: its key and its queue."""

    key: bytes
    domain: Domain
    queue: QueueId


class StreamKeys:
    """Finds the queue of a key by the present domains.

    Owned by the hub. Its cache is checked again when a domain has new settings.
    """

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self._known: dict[bytes, StreamName] = {}
        self._globs: dict[str, Glob] = {}

    @property
    def is_used(self) -> bool:
        """Whether any domain takes keys by a pattern."""
        return any(domain.streams for domain in self._domains.values())

    def candidates(self, keys: Sequence[bytes]) -> list[bytes]:
        """The keys that may be streams: they begin as one of the patterns does, or name a
        domain."""
        begins = tuple({self._glob(pattern).test[0] for pattern in self._patterns()})
        return [key for key in keys if key.startswith(begins) or b"/" in key]

    def weigh(self, keys: Sequence[bytes]) -> int:
        """Steps of finding the streams among keys: half a one for each that is ruled out."""
        candidates = self.candidates(keys)
        found = len(candidates) * (FIND_STEPS + len(self._patterns())) if candidates else 0
        return len(keys) // 2 + found

    def _patterns(self) -> list[str]:
        return [pattern for domain in self._domains.values() for pattern in domain.streams]

    def find(self, key: bytes) -> StreamName:
        """The stream of a key; raise if no domain takes it."""
        found = self.get(key)
        if found is None:
            raise CommandError(
                f"ERR no domain takes the stream '{text_of(key[:128])}';"
                " name it in streams of a domain"
            )
        return found

    def get(self, key: bytes) -> StreamName | None:
        """The stream that a key names; None if no domain takes it."""
        known = self._known.get(key)
        if known is not None and self._domains.get(known.domain.name) is known.domain:
            return known
        found = self._find(key)
        if found is not None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = found
        return found

    def _find(self, key: bytes) -> StreamName | None:
        first, slash, rest = key.partition(b"/")
        domain = self._domains.get(text_of(first)) if slash else None
        if domain is not None:
            return _stream(key, domain, rest, is_spelled=QUEUE_NAME.fullmatch(rest) is not None)
        for domain in self._domains.values():
            if any(self._glob(pattern).matches(key) for pattern in domain.streams):
                return _stream(key, domain, key)
        return None

    def _glob(self, pattern: str) -> Glob:
        found = self._globs.get(pattern)
        if found is None:
            found = self._globs[pattern] = Glob(pattern.encode())
        return found


def domain_in(channel: bytes) -> str | None:
    """The domain in the name of a channel that is written as the address of a queue."""
    domain, slash, _ = channel.removeprefix(ADDRESS).partition(b"/")
    return text_of(domain) if slash and channel.startswith(ADDRESS) else None


def spelled(key: bytes) -> bytes:
    """A key as the name of a queue: other characters are written as two hex digits."""
    return SPELLED.sub(lambda found: b"~%02X" % found[0][0], key)


def _stream(key: bytes, domain: Domain, name: bytes, *, is_spelled: bool = False) -> StreamName:
    if domain.mode is Mode.EXCLUSIVE:
        raise CommandError(f"ERR the queue '{text_of(key[:128])}' is not for this wire")
    # A key that is too long does not become shorter, and may be megabytes.
    if not is_spelled and len(name) <= QUEUE_CHARS_MAX:
        name = spelled(name)
    if not name or len(name) > QUEUE_CHARS_MAX:
        raise CommandError(
            f"ERR the name of a stream has 1 to {QUEUE_CHARS_MAX} characters, as the name of a"
            " queue has them; others than letters, digits and -_. count three times"
        )
    return StreamName(key, domain, QueueId(f"{SCHEME}{domain.name}/".encode() + name))
