"""Keys with a time to live: what Pub/Sub clients expect beside the channels, strings only.

A key dies at its deadline. Whoever touches it later finds nothing; a sweep finds the others, so a
death is noticed without being looked for. Each death by time is recorded once, for those who
want to be told. A key that is deleted, replaced or flushed did not die by time.

The sweep looks at a heap of alarms, not at the keys. A key has one alarm at most. An alarm is not
moved when the deadline is: it goes off, sees that it is too early and is set anew, so the usual
``SET key value EX 60``, again and again, costs the heap nothing. What is left of keys that are
gone is cleared away when it is more than half.

Keys are also kept in a list, each knowing its place, and the last one takes the place of one that
goes. A scan walks that list from its end: what it has not seen yet can only move further ahead of
it, so every key that stays is seen, at the cost of those that are seen.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from zlib import crc32

from headgate.core.limits import Limits
from headgate.errors import LimitReached

DATABASES = 16

GRAVES = 4096
"""Counters for the stamps of keys that are not there; keys share them."""

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
        self.value = b""
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

    def __len__(self) -> int:
        return len(self._heap)

    def _tidy(self) -> None:
        if len(self._heap) > 2 * self._count + ALARMS_SLACK:
            self._heap = [alarm for alarm in self._heap if alarm[2].alarm == alarm[0]]
            heapify(self._heap)


class Keys:
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
        self._graves = [0] * GRAVES
        self._flushes = 0
        self.count = 0
        """Keys, those included whose death nobody noticed yet."""
        self.bytes = 0
        """Of their names and values."""

    # Dying.

    def sweep(self, now: float) -> int:
        """Let keys die whose time is over, up to the limit; return how many died."""
        due = self._alarms.due(milliseconds(now), self._limits.key_expiries)
        for item in due:
            self._expire(item)
        return len(due)

    def take_expired(self) -> list[tuple[int, bytes]]:
        """The keys that died by time since the last call, with their databases."""
        expired, self._expired = self._expired, []
        return expired

    # Values.

    def get(self, db: int, key: bytes, now: float) -> bytes | None:
        item = self._find(db, key, now)
        return None if item is None else item.value

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
            self._require(0, len(name) - len(key))
        value, deadline = item.value, item.deadline
        self._remove(item)
        self._put(db, name, value, deadline, other)

    def flush(self, db: int) -> None:
        """Delete all keys of a database."""
        for item in self._places[db]:
            self._forget(item)
        self._items[db] = {}
        self._places[db] = []
        self._flushes += 1

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
        if deadline is not None and deadline <= milliseconds(now):
            self._remove(item)
        else:
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
        return self._living(self._places[db].copy(), now)

    def scan(self, db: int, cursor: int, count: int, now: float) -> tuple[int, list[bytes]]:
        """The next keys of a database, at most so many, and where to go on. It begins and ends
        at 0. A key that is there all the time is met at least once."""
        places = self._places[db]
        end = min(cursor or len(places), len(places))
        start = max(end - count, 0)
        return start, self._living(places[start:end], now)

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
        nobody noticed is still there. Keys that are not there share stamps, so the stamp of such
        a key may change for nothing; but what changed never looks unchanged."""
        item = self._items[db].get(key)
        if item is not None:
            return item.stamp
        return -self._flushes - self._graves[crc32(key) % GRAVES]

    # Inside.

    def _find(self, db: int, key: bytes, now: float) -> Item | None:
        """The key, if it is there and alive."""
        item = self._items[db].get(key)
        if item is None or item.deadline is None or item.deadline > milliseconds(now):
            return item
        self._expire(item)
        return None

    def _living(self, items: list[Item], now: float) -> list[bytes]:
        return [
            item.key
            for item in items
            if item.deadline is None or self._find(item.db, item.key, now) is not None
        ]

    def _write(
        self, db: int, key: bytes, value: bytes, deadline: int | None, item: Item | None
    ) -> None:
        if item is None:
            self._require(1, len(key) + len(value))
        else:
            self._require(0, len(value) - len(item.value))
        self._put(db, key, value, deadline, item)

    def _put(
        self, db: int, key: bytes, value: bytes, deadline: int | None, item: Item | None
    ) -> None:
        """Write what there is room for."""
        if item is None:
            item = self._items[db][key] = Item(db, key, len(self._places[db]))
            self._places[db].append(item)
            self.count += 1
            self.bytes += len(key)
        self.bytes += len(value) - len(item.value)
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
        if keys > 0 and self.count + keys > limits.keys:
            raise LimitReached("keys", limits.keys)
        if size > 0 and self.bytes + size > limits.keys_bytes:
            raise LimitReached("keys_bytes", limits.keys_bytes)

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
        self._graves[crc32(item.key) % GRAVES] += 1
        self._forget(item)

    def _forget(self, item: Item) -> None:
        """Take an item out of the sums. Its alarm may stay for long, and should hold nothing."""
        self.count -= 1
        self.bytes -= len(item.key) + len(item.value)
        self._mortal[item.db] -= item.deadline is not None
        self._alarms.drop(item)
        item.key = item.value = b""
