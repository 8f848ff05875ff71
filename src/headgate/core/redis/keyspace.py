"""Keys with a time to live, as Pub/Sub clients need them beside channels: strings only.

A key expires at its deadline. A later access finds nothing; a sweep finds the others, so that every
expiry is noticed. Each is recorded once, for subscribers of key events. A key that is deleted,
replaced or flushed does not expire.

The sweep looks at a heap of alarms, not at the keys. A key has one alarm at most. An alarm is not
moved with the deadline: it goes off too early and is set anew, so the usual ``SET key value EX
60``, again and again, costs the heap nothing. Alarms of removed keys are cleared away when they are
more than half.

Flushed keys are invisible at once, and cleared away by the sweep: freeing the memory of a million
keys takes a while. Until then their bytes count against the limit.

Keys are also kept in a list, each with its index, and the last one takes the place of a removed
one. A scan walks that list from its end: a key that it has not seen can only move ahead of it, so
every key that stays is seen, at the cost of those seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from zlib import crc32

from headgate.core.model.limits import KiB, Limits
from headgate.errors import LimitReached

DATABASES = 16

BIRTHS = 4096
"""Counters for the stamps of missing keys, which share them."""

SCAN_KEYS = 1000
SCAN_BYTES = 64 * KiB
"""Most keys, and bytes of their names, that a scan looks at in one step, whatever its COUNT."""

ALARMS_SLACK = 1024
"""Number of alarms of removed keys below which they are not cleared away."""


def milliseconds(now: float) -> int:
    """The time in milliseconds, the unit of deadlines."""
    return round(now * 1000)


class Item:
    """A key and its value."""

    __slots__ = ("alarm", "db", "deadline", "key", "place", "stamp", "value")

    def __init__(self, db: int, key: bytes, place: int) -> None:
        self.db = db
        self.key = key
        self.value: bytes | bytearray = b""
        """A value that was appended to is a bytearray, so that it is not copied each time."""
        self.deadline: int | None = None
        """When it expires, in milliseconds."""
        self.alarm: int | None = None
        """When a sweep will look at it, which is not later."""
        self.place = place
        self.stamp = 0


class Alarms:
    """When to look at which key."""

    __slots__ = ("_count", "_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Item]] = []
        self._serial = 0
        """Orders alarms of the same millisecond, so that items need no order."""
        self._count = 0
        """Number of items with an alarm."""

    def set(self, item: Item) -> None:
        """Have an item looked at by its deadline."""
        if item.deadline is None or (item.alarm is not None and item.alarm <= item.deadline):
            return
        self._count += item.alarm is None
        self._serial += 1
        item.alarm = item.deadline
        heappush(self._heap, (item.alarm, self._serial, item))
        self._tidy()

    def drop(self, item: Item) -> None:
        if item.alarm is not None:
            item.alarm = None
            self._count -= 1
            self._tidy()

    def due(self, now: int, most: int) -> list[Item]:
        """The expired items among the next alarms, at most so many."""
        found = []
        while self._heap and self._heap[0][0] <= now and most > 0:
            most -= 1
            when, _, item = heappop(self._heap)
            if item.alarm != when:
                continue  # the item was removed, or got an earlier alarm
            item.alarm = None
            self._count -= 1
            if item.deadline is not None and item.deadline <= now:
                found.append(item)
            else:
                self.set(item)
        return found

    def is_due(self, now: int) -> bool:
        """Whether an alarm has gone off."""
        return bool(self._heap) and self._heap[0][0] <= now

    def __len__(self) -> int:
        return len(self._heap)

    def _tidy(self) -> None:
        if len(self._heap) > 2 * self._count + ALARMS_SLACK:
            self._heap = [alarm for alarm in self._heap if alarm[2].alarm == alarm[0]]
            heapify(self._heap)


class Keyspace:
    """The keys of all databases, strings only, with their deadlines.

    Owned by the hub. Methods with a time argument see no expired key, removed or not.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._items: list[dict[bytes, Item]] = [{} for _ in range(DATABASES)]
        self._places: list[list[Item]] = [[] for _ in range(DATABASES)]
        self._alarms = Alarms()
        self._mortal = [0] * DATABASES
        """Keys with a deadline, by database."""
        self._expired: list[tuple[int, bytes]] = []
        self._changes = 0
        self._births = [0] * BIRTHS
        self.count = 0
        """Number of keys, with expired ones that were not noticed yet."""
        self.bytes = 0
        """Bytes of their names and values."""
        self._db_bytes = [0] * DATABASES
        self._flushed: list[dict[bytes, Item]] = []
        self._flushed_keys = 0
        self._flushed_bytes = 0

    # Expiry.

    def sweep(self, now: float) -> int:
        """Remove expired keys, up to the limit; return their number. The rest of the limit is for
        flushed keys."""
        most = self._limits.key_expiries
        due = self._alarms.due(milliseconds(now), most)
        died = 0
        for item in due:
            # RESP-66, RESP-69: expired without an access; deleted or flushed keys are not recorded.
            if self._items[item.db].get(item.key) is item:  # it was not flushed meanwhile
                self._expire(item)
                died += 1
        self._clear_away(most - len(due))
        return died

    def _clear_away(self, most: int) -> None:
        """Free the memory of so many flushed keys."""
        while self._flushed and most > 0:
            items = self._flushed[-1]
            for _ in range(min(most, len(items))):
                _, item = items.popitem()
                self._flushed_keys -= 1
                self._flushed_bytes -= len(item.key) + len(item.value)
                self._bury(item)
                most -= 1
            if not items:
                self._flushed.pop()

    def is_behind(self, now: float) -> bool:
        """Whether a sweep has more to do."""
        return bool(self._flushed) or self._alarms.is_due(milliseconds(now))

    def take_expired(self) -> list[tuple[int, bytes]]:
        """The keys that expired since the last call, with their databases."""
        expired, self._expired = self._expired, []
        return expired

    # Values.

    def get(self, db: int, key: bytes, now: float) -> bytes | None:
        item = self._find(db, key, now)
        if item is None:
            return None
        return item.value if isinstance(item.value, bytes) else bytes(item.value)

    def length(self, db: int, key: bytes) -> int:
        """The length of a value in bytes, or 0."""
        item = self._items[db].get(key)
        return 0 if item is None else len(item.value)

    def append(self, db: int, key: bytes, more: bytes, now: float) -> int:
        """Append to a value; return its length."""
        item = self._find(db, key, now)
        if item is None:
            self.set(db, key, more, now)
            return len(more)
        longest = self._limits.bulk_bytes
        if len(item.value) + len(more) > longest:
            raise LimitReached("bulk_bytes", longest)
        self._require(0, len(more))
        if isinstance(item.value, bytes):
            item.value = bytearray(item.value)
        item.value += more
        self._count_bytes(db, len(more))
        item.stamp = self._next_stamp()
        return len(item.value)

    def set(
        self, db: int, key: bytes, value: bytes, now: float, deadline: int | None = None
    ) -> None:
        """Set a value, with a deadline or without. If the deadline has passed, the key expires on
        the next access."""
        self._write(db, key, value, deadline, self._find(db, key, now))

    def change(self, db: int, key: bytes, value: bytes, now: float) -> None:
        """Set a value and keep the deadline."""
        item = self._find(db, key, now)
        self._write(db, key, value, None if item is None else item.deadline, item)

    def set_all(self, db: int, values: dict[bytes, bytes], now: float) -> None:
        """Set several values, all of them or, beyond a limit, none."""
        found = {key: self._find(db, key, now) for key in values}
        new = [key for key, item in found.items() if item is None]
        size = sum(map(len, values.values())) + sum(map(len, new))
        size -= sum(len(item.value) for item in found.values() if item is not None)
        for key in new:
            self._check_name(key)
        self._require(len(new), size)
        for key, value in values.items():
            self._put(db, key, value, None, found[key])

    def delete(self, db: int, key: bytes, now: float) -> bool:
        """Delete a key; return whether it existed."""
        item = self._find(db, key, now)
        if item is not None:
            self._remove(item)
        return item is not None

    def rename(self, db: int, key: bytes, name: bytes, now: float) -> None:
        """Rename an existing key, with its deadline, replacing any key of that name."""
        item, other = self._find(db, key, now), self._find(db, name, now)
        assert item is not None, "only what is there is renamed"
        if item is other:
            return
        if other is None:
            self._check_name(name)
            self._require(0, len(name) - len(key))
        value, deadline = item.value, item.deadline
        self._remove(item)
        self._put(db, name, value, deadline, other)

    def flush(self, db: int) -> None:
        """Delete all keys of a database."""
        items, size = self._items[db], self._db_bytes[db]
        if items:
            self._flushed.append(items)
        self._flushed_keys += len(items)
        self._flushed_bytes += size
        self.count -= len(items)
        self._count_bytes(db, -size)
        self._mortal[db] = 0
        self._items[db] = {}
        self._places[db] = []

    # Deadlines.

    def deadline(self, db: int, key: bytes, now: float) -> int | None:
        """The deadline of a key; None if it has none, or does not exist."""
        item = self._find(db, key, now)
        return None if item is None else item.deadline

    def expire(self, db: int, key: bytes, deadline: int | None, now: float) -> bool:
        """Set or remove a deadline; return whether the key exists. If the deadline has passed, the
        key is deleted, which does not count as expiry."""
        item = self._find(db, key, now)
        if item is None:
            return False
        # RESP-69: deleted by a deadline in the past, which does not count as expiry.
        if deadline is not None and deadline <= milliseconds(now):
            self._remove(item)
        elif deadline is not None or item.deadline is not None:
            self._set_deadline(item, deadline)
        return True

    # Scanning.

    def has(self, db: int, key: bytes, now: float) -> bool:
        return self._find(db, key, now) is not None

    def size(self, db: int) -> int:
        """Number of keys of a database, with expired ones that were not noticed yet."""
        return len(self._items[db])

    def sizes(self) -> list[tuple[int, int, int]]:
        """Each database with keys: their number, and how many have a deadline."""
        return [(db, len(items), self._mortal[db]) for db, items in enumerate(self._items) if items]

    def names(self, db: int, now: float) -> list[bytes]:
        """All keys of a database."""
        return self.living(self.items(db), now)

    def items(self, db: int) -> list[Item]:
        """All items of a database, to be filtered bit by bit with `living`."""
        return self._places[db].copy()

    def living(self, items: Iterable[Item], now: float) -> list[bytes]:
        """The keys of those items that still exist and have not expired."""
        return [item.key for item in items if self._find(item.db, item.key, now) is item]

    def scan(self, db: int, cursor: int, count: int, now: float) -> tuple[int, list[bytes]]:
        """The next keys of a database, at most so many, and the next cursor. It begins and ends at
        0. A key that exists all the time is returned at least once."""
        places = self._places[db]
        end = start = min(cursor or len(places), len(places))
        least, room = max(end - min(count, SCAN_KEYS), 0), SCAN_BYTES
        while start > least and room > 0:
            start -= 1
            room -= len(places[start].key)
        return start, self.living(places[start:end], now)

    def pick(self, db: int, number: int, now: float) -> bytes | None:
        """A key of a database, chosen by the number."""
        places = self._places[db]
        while places:
            item = places[number % len(places)]
            if self._find(db, item.key, now) is not None:
                return item.key
        return None

    def stamp(self, db: int, key: bytes) -> int:
        """A number that changes whenever the key was written, deleted or expired. A key whose
        expiry was not noticed still exists. The stamp of a missing key changes when the key is
        made, and stays when that one is removed. Missing keys share stamps, so one may change for
        no reason; but a changed key never has the same stamp."""
        item = self._items[db].get(key)
        return item.stamp if item is not None else -self._births[_birth(db, key)]

    # Inside.

    def _find(self, db: int, key: bytes, now: float) -> Item | None:
        """The key, if it exists and has not expired."""
        item = self._items[db].get(key)
        # RESP-67: an expired key is not found, and the first access records it.
        if item is None or item.deadline is None or item.deadline > milliseconds(now):
            return item
        self._expire(item)
        return None

    def _write(
        self, db: int, key: bytes, value: bytes, deadline: int | None, item: Item | None
    ) -> None:
        if item is None:
            self._check_name(key)
            self._require(1, len(key) + len(value))
        else:
            self._require(0, len(value) - len(item.value))
        self._put(db, key, value, deadline, item)

    def _put(
        self, db: int, key: bytes, value: bytes | bytearray, deadline: int | None, item: Item | None
    ) -> None:
        """Write a value if there is room."""
        if item is None:
            item = self._items[db][key] = Item(db, key, len(self._places[db]))
            self._places[db].append(item)
            self._births[_birth(db, key)] += 1
            self.count += 1
            self._count_bytes(db, len(key))
        self._count_bytes(db, len(value) - len(item.value))
        item.value = value
        self._set_deadline(item, deadline)

    def _set_deadline(self, item: Item, deadline: int | None) -> None:
        self._mortal[item.db] += (deadline is not None) - (item.deadline is not None)
        item.deadline = deadline
        item.stamp = self._next_stamp()
        self._alarms.set(item)

    def _require(self, keys: int, size: int) -> None:
        """Refuse to grow beyond a limit."""
        limits = self._limits
        if keys > 0 and self.count + self._flushed_keys + keys > limits.keys:
            raise LimitReached("keys", limits.keys)
        if size > 0 and self.bytes + self._flushed_bytes + size > limits.keys_bytes:
            raise LimitReached("keys_bytes", limits.keys_bytes)

    def _check_name(self, key: bytes) -> None:
        if len(key) > self._limits.name_bytes:
            raise LimitReached("name_bytes", self._limits.name_bytes)

    def _count_bytes(self, db: int, more: int) -> None:
        self.bytes += more
        self._db_bytes[db] += more

    def _next_stamp(self) -> int:
        self._changes += 1
        return self._changes

    def _expire(self, item: Item) -> None:
        self._expired.append((item.db, item.key))
        self._remove(item)

    def _remove(self, item: Item) -> None:
        del self._items[item.db][item.key]
        last = self._places[item.db].pop()
        if last is not item:
            last.place = item.place
            self._places[item.db][item.place] = last
        self._forget(item)

    def _forget(self, item: Item) -> None:
        """Subtract an item from the sums."""
        self.count -= 1
        self._count_bytes(item.db, -len(item.key) - len(item.value))
        self._mortal[item.db] -= item.deadline is not None
        self._bury(item)

    def _bury(self, item: Item) -> None:
        """Empty a removed item: its alarm may stay for long, and should hold no memory."""
        self._alarms.drop(item)
        item.key = item.value = b""


def _birth(db: int, key: bytes) -> int:
    """The counter for the stamp of a missing key."""
    return crc32(key, db) % BIRTHS
