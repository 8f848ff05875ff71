"""Keys with a time to live: what Pub/Sub clients expect beside the channels, strings only.

A key dies at its deadline. Whoever touches it later finds nothing; a sweep finds the others, so a
death is noticed without being looked for. Each death by time is recorded once, for those who
want to be told. A key that is deleted, replaced or flushed did not die by time.

The sweep looks at a heap of alarms, not at the keys. A key has one alarm at most. An alarm is not
moved when the deadline is: it goes off, sees that it is too early and is set anew, so the usual
``SET key value EX 60``, again and again, costs the heap nothing. What is left of keys that are
gone is cleared away when it is more than half.

What is flushed is out of sight at once, and cleared away by the sweep: giving back the memory of a
million keys takes a while. Until then its bytes count against the limit.

Keys are also kept in a list, each knowing its place, and the last one takes the place of one that
goes. A scan walks that list from its end: what it has not seen yet can only move further ahead of
it, so every key that stays is seen, at the cost of those that are seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from zlib import crc32

from headgate.core.model.limits import KiB, Limits
from headgate.errors import LimitReached

DATABASES = 16

BIRTHS = 4096
"""Counters for the stamps of keys that are not there; keys share them."""

SCAN_KEYS = 1000
SCAN_BYTES = 64 * KiB
"""A scan looks at no more keys, or bytes of their names, in one step, whatever it is told."""

ALARMS_SLACK = 1024
"""So few alarms of keys that are gone are not worth clearing away."""


def milliseconds(now: float) -> int:
    """The time in the unit of deadlines."""
    return round(now * 1000)


class Item:
    """A key and its value."""

    __slots__ = ("alarm", "db", "deadline", "key", "place", "stamp", "value")

    def __init__(self, db: int, key: bytes, place: int) -> None:
        self.db = db
        self.key = key
        self.value: bytes | bytearray = b""
        """What grows at its end is a bytearray, so that it is not copied each time."""
        self.deadline: int | None = None
        """When it dies, in milliseconds."""
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
        """Decides between alarms of the same moment, so that items need no order."""
        self._count = 0
        """Items with an alarm."""

    def set(self, item: Item) -> None:
        """Have an item looked at when its deadline is over, or before."""
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
        """The items whose deadline is over, of the next alarms, at most so many."""
        found = []
        while self._heap and self._heap[0][0] <= now and most > 0:
            most -= 1
            when, _, item = heappop(self._heap)
            if item.alarm != when:
                continue  # the item is gone, or got an earlier alarm
            item.alarm = None
            self._count -= 1
            if item.deadline is not None and item.deadline <= now:
                found.append(item)
            else:
                self.set(item)
        return found

    def is_due(self, now: int) -> bool:
        """Whether there is something to look at."""
        return bool(self._heap) and self._heap[0][0] <= now

    def __len__(self) -> int:
        return len(self._heap)

    def _tidy(self) -> None:
        if len(self._heap) > 2 * self._count + ALARMS_SLACK:
            self._heap = [alarm for alarm in self._heap if alarm[2].alarm == alarm[0]]
            heapify(self._heap)


class Keyspace:
    """All databases. A method that is given the time sees no key whose time is over."""

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
        """Keys, those included whose death nobody noticed yet."""
        self.bytes = 0
        """Of their names and values."""
        self._db_bytes = [0] * DATABASES
        self._flushed: list[dict[bytes, Item]] = []
        self._flushed_keys = 0
        self._flushed_bytes = 0

    # Dying.

    def sweep(self, now: float) -> int:
        """Let keys die whose time is over, up to the limit; return how many died. What is left of
        the limit goes to what was flushed."""
        most = self._limits.key_expiries
        due = self._alarms.due(milliseconds(now), most)
        died = 0
        for item in due:
            # RESP-66, RESP-69: dead though nobody looked; what was deleted or flushed is not told.
            if self._items[item.db].get(item.key) is item:  # it was not flushed meanwhile
                self._expire(item)
                died += 1
        self._clear_away(most - len(due))
        return died

    def _clear_away(self, most: int) -> None:
        """Give back the memory of so many keys that were flushed."""
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
        """Whether there is more for a sweep to do."""
        return bool(self._flushed) or self._alarms.is_due(milliseconds(now))

    def take_expired(self) -> list[tuple[int, bytes]]:
        """The keys that died by time since the last call, with their databases."""
        expired, self._expired = self._expired, []
        return expired

    # Values.

    def get(self, db: int, key: bytes, now: float) -> bytes | None:
        item = self._find(db, key, now)
        if item is None:
            return None
        return item.value if isinstance(item.value, bytes) else bytes(item.value)

    def length(self, db: int, key: bytes) -> int:
        """The bytes of a value, or 0."""
        item = self._items[db].get(key)
        return 0 if item is None else len(item.value)

    def append(self, db: int, key: bytes, more: bytes, now: float) -> int:
        """Let a value grow at its end; return how long it is."""
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
        """Write a value; the key lives until the deadline, or on and on. A deadline that is
        over already makes a key that dies as soon as somebody looks."""
        self._write(db, key, value, deadline, self._find(db, key, now))

    def change(self, db: int, key: bytes, value: bytes, now: float) -> None:
        """Write a value and leave the deadline as it is."""
        item = self._find(db, key, now)
        self._write(db, key, value, None if item is None else item.deadline, item)

    def set_all(self, db: int, values: dict[bytes, bytes], now: float) -> None:
        """Write several values, all of them or, beyond a limit, none."""
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
        """Whether there was such a key."""
        item = self._find(db, key, now)
        if item is not None:
            self._remove(item)
        return item is not None

    def rename(self, db: int, key: bytes, name: bytes, now: float) -> None:
        """Give a key that is there another name, with its deadline, in place of whatever has
        that name."""
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
        """When a key will die; nothing if it lives on and on, or is not there."""
        item = self._find(db, key, now)
        return None if item is None else item.deadline

    def expire(self, db: int, key: bytes, deadline: int | None, now: float) -> bool:
        """Set or take away a deadline; return whether there was such a key. If it is over
        already, the key is deleted, which is no death by time."""
        item = self._find(db, key, now)
        if item is None:
            return False
        # RESP-69: deleted by its deadline's past, which is no death by time.
        if deadline is not None and deadline <= milliseconds(now):
            self._remove(item)
        elif deadline is not None or item.deadline is not None:
            self._set_deadline(item, deadline)
        return True

    # Looking around.

    def has(self, db: int, key: bytes, now: float) -> bool:
        return self._find(db, key, now) is not None

    def size(self, db: int) -> int:
        """How many keys a database has, those included whose death nobody noticed yet."""
        return len(self._items[db])

    def sizes(self) -> list[tuple[int, int, int]]:
        """Each database that has keys, how many, and how many of them have a deadline."""
        return [(db, len(items), self._mortal[db]) for db, items in enumerate(self._items) if items]

    def names(self, db: int, now: float) -> list[bytes]:
        """All keys of a database."""
        return self.living(self.items(db), now)

    def items(self, db: int) -> list[Item]:
        """All items of a database, for who looks at them bit by bit with `living`."""
        return self._places[db].copy()

    def living(self, items: Iterable[Item], now: float) -> list[bytes]:
        """The keys of those of these that are still there and alive."""
        return [item.key for item in items if self._find(item.db, item.key, now) is item]

    def scan(self, db: int, cursor: int, count: int, now: float) -> tuple[int, list[bytes]]:
        """The next keys of a database, at most so many, and where to go on. It begins and ends
        at 0. A key that is there all the time is met at least once."""
        places = self._places[db]
        end = start = min(cursor or len(places), len(places))
        least, room = max(end - min(count, SCAN_KEYS), 0), SCAN_BYTES
        while start > least and room > 0:
            start -= 1
            room -= len(places[start].key)
        return start, self.living(places[start:end], now)

    def pick(self, db: int, number: int, now: float) -> bytes | None:
        """A key of a database, as the number decides."""
        places = self._places[db]
        while places:
            item = places[number % len(places)]
            if self._find(db, item.key, now) is not None:
                return item.key
        return None

    def stamp(self, db: int, key: bytes) -> int:
        """Another number whenever the key was written, deleted or died since. A key whose death
        nobody noticed is still there. One that is not there changes by coming to be, and whatever
        takes it away again leaves that number. Such keys share numbers, so the stamp of one may
        change for nothing; but what changed never looks unchanged."""
        item = self._items[db].get(key)
        return item.stamp if item is not None else -self._births[_birth(db, key)]

    # Inside.

    def _find(self, db: int, key: bytes, now: float) -> Item | None:
        """The key, if it is there and alive."""
        item = self._items[db].get(key)
        # RESP-67: a dead key is not found, and whoever looks first makes its death known.
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
        """Write what there is room for."""
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
        """Take an item out of the sums."""
        self.count -= 1
        self._count_bytes(item.db, -len(item.key) - len(item.value))
        self._mortal[item.db] -= item.deadline is not None
        self._bury(item)

    def _bury(self, item: Item) -> None:
        """Its alarm may stay for long, and should hold nothing."""
        self._alarms.drop(item)
        item.key = item.value = b""


def _birth(db: int, key: bytes) -> int:
    """The counter of a key."""
    return crc32(key, db) % BIRTHS
