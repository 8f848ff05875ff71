"""What the documents promise about shared queues, as a model that is told what was seen.

The model does not guess who of several equals gets a message, since that is not promised. It is
told of every delivery and says whether it was allowed, and once all is quiet it says which
messages should have been delivered and were not. Where the documents leave a window open (what
counts against a subscription that came twice, or came back), it holds a least and a most, and
complains about neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.strangers.bmq_expressions import Tree, matches, tree
from tests.strangers.bmq_wire import Properties, Wanted

PRIORITY, FANOUT, BROADCAST = "priority", "fanout", "broadcast"
SUCCESS, LIMIT_MESSAGES, LIMIT_BYTES = 0, 1, 2


class Difference(Exception):
    """The router did what the documents do not allow."""


@dataclass(frozen=True)
class Domain:
    """What the configuration says about a domain."""

    name: str
    mode: str
    apps: tuple[str, ...] = ("",)
    """The apps of a fanout domain; every other has one without a name."""
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_messages: int = 100_000
    max_bytes: int = 1 << 28
    total: int = 1_000_000
    """Messages in all of its queues."""
    attempts: int = 0
    consumers: int = 0


@dataclass(eq=False)
class Message:
    guid: bytes
    order: int
    properties: Properties
    data: bytes
    """Properties and body as they are on the wire."""
    size: int
    label: str
    known: dict[str, bool] = field(default_factory=dict)
    """Which expressions are true for it, as far as somebody asked."""

    def is_wanted_by(self, text: str | None) -> bool:
        if text is None:
            return True
        if text not in self.known:
            self.known[text] = matches(_tree(text), self.properties)
        return self.known[text]


_TREES: dict[str, Tree] = {}


def _tree(text: str) -> Tree:
    if text not in _TREES:
        _TREES[text] = tree(text)
    return _TREES[text]


@dataclass(eq=False)
class Window:
    """One subscription of a reader, and how much of it is unconfirmed."""

    wanted: Wanted
    reader: Reader
    shut: bool | None = False
    """Whether it is full and not yet down to four fifths; None if that cannot be known."""

    @property
    def text(self) -> str | None:
        return self.wanted.text

    def look(self) -> None:
        """Find out anew whether it is shut."""
        limit, limit_bytes = self.wanted.messages, self.wanted.bytes
        least, least_bytes, most, most_bytes = self.reader.charges(self)
        low, low_bytes = -(-limit * 4 // 5), -(-limit_bytes * 4 // 5)
        if least >= limit or least_bytes >= limit_bytes:
            self.shut = True
        elif most >= limit or most_bytes >= limit_bytes:
            self.shut = None
        elif most <= low and most_bytes <= low_bytes:
            self.shut = False
        elif self.shut and least <= low and least_bytes <= low_bytes:
            self.shut = None


@dataclass
class Held:
    """A message in a reader's hands."""

    message: Message
    window: Window | None
    """What it surely counts against."""
    text: str | None
    """What it came for."""


@dataclass(eq=False)
class Reader:
    """A session that has one app of a queue open for reading."""

    client: str
    windows: list[Window] = field(default_factory=list)
    hands: dict[bytes, Held] = field(default_factory=dict)

    def charges(self, window: Window) -> tuple[int, int, int, int]:
        """Messages and bytes that surely count against the window, and those that may."""
        sure = sure_bytes = maybe = maybe_bytes = 0
        for held in self.hands.values():
            if held.window is window:
                sure += 1
                sure_bytes += held.message.size
            elif held.window is None and held.text == window.text:
                maybe += 1
                maybe_bytes += held.message.size
        return sure, sure_bytes, sure + maybe, sure_bytes + maybe_bytes

    def configure(self, wanted: Sequence[Wanted]) -> None:
        """Have these subscriptions and no others; what is in hand stays there."""
        before = Counter(window.text for window in self.windows)
        after = Counter(one.text for one in wanted)
        old = {window.text: window for window in self.windows}
        self.windows = [Window(one, self) for one in wanted]
        new = {window.text: window for window in self.windows}
        for held in self.hands.values():
            lasting = held.window is not None and before[held.text] == after[held.text] == 1
            held.window = new[held.text] if lasting else None
        for window in self.windows:
            same = old.get(window.text)
            if same is not None and (same.shut is not False or before[window.text] > 1):
                window.shut = None
            window.look()

    def give_up(self) -> list[Message]:
        given = [held.message for held in self.hands.values()]
        self.hands.clear()
        return given

    def let_go(self, guid: bytes) -> bool:
        held = self.hands.pop(guid, None)
        if held is None:
            return False
        for window in self.windows:
            if window.text == held.text:
                window.look()
        return True


Active = dict[str | None, tuple[int, list[Window]]]
"""By text, the highest priority that somebody gives it, and who does."""


def active(windows: Iterable[Window]) -> Active:
    """Of equal texts, those of the highest priority."""
    found: Active = {}
    for window in windows:
        priority = window.wanted.priority
        there = found.get(window.text)
        if there is None or there[0] < priority:
            found[window.text] = (priority, [window])
        elif there[0] == priority:
            there[1].append(window)
    return found


def best(groups: Active, message: Message) -> list[Window]:
    """Whose the message is, with room or without: the highest priority that matches."""
    windows: list[Window] = []
    highest = 0
    for text, (priority, members) in groups.items():
        if windows and priority < highest:
            continue
        if message.is_wanted_by(text):
            windows = [*windows, *members] if windows and priority == highest else members
            highest = priority
    return windows


def due(windows: Iterable[Window], message: Message) -> list[Window]:
    """Whose the message is, of these."""
    return best(active(windows), message)


@dataclass(eq=False)
class App:
    """What one app of a queue still has to do."""

    name: str
    readers: dict[str, Reader] = field(default_factory=dict)
    waiting: dict[bytes, Message] = field(default_factory=dict)
    crashes: Counter[bytes] = field(default_factory=Counter)
    returned: set[bytes] = field(default_factory=set)
    """What was in somebody's hands before: its order is not promised."""
    parked: set[bytes] = field(default_factory=set)
    """What waits for room of somebody: each subscription has its own in order, but one may have
    room before another of the same session."""
    _active: Active | None = None

    def changed(self) -> None:
        self._active = None

    @property
    def active(self) -> Active:
        if self._active is None:
            readers = self.readers.values()
            self._active = active(window for reader in readers for window in reader.windows)
        return self._active

    def due(self, message: Message) -> list[Window]:
        return best(self.active, message)

    def park(self) -> None:
        self.parked = {guid for guid, message in self.waiting.items() if self.due(message)}

    def stuck(self) -> Iterator[tuple[Message, Window]]:
        """Messages that wait although somebody surely has room for them."""
        if any(
            window.shut is False for reader in self.readers.values() for window in reader.windows
        ):
            for message in self.waiting.values():
                for window in self.due(message):
                    if window.shut is False:
                        yield message, window
                        break

    def is_undecided(self) -> bool:
        """Whether a message waits that may be delivered, or not."""
        return any(
            window.shut is None for message in self.waiting.values() for window in self.due(message)
        )

    def take(self, client: str, guid: bytes, number: int, queue: str) -> Message:
        """A delivery was seen; raises Difference if it should not have been."""
        where = f"{queue} app {self.name!r}"
        reader = self.readers.get(client)
        if reader is None:
            raise Difference(f"{client} was given {guid.hex()} of {where}, which it does not read")
        message = self.waiting.get(guid)
        if message is None:
            owners = [one.client for one in self.readers.values() if guid in one.hands]
            raise Difference(
                f"{client} was given {guid.hex()} of {where}, which "
                + (f"{owners[0]} has" if owners else "should be gone")
            )
        window = next((one for one in reader.windows if one.wanted.number == number), None)
        if window is None:
            raise Difference(
                f"{client} was given {message.label} of {where} for subscription {number}, which "
                "it does not have"
            )
        due = self.due(message)
        if window not in due:
            names = ", ".join(_named(one) for one in due) or "nobody"
            raise Difference(
                f"{client} was given {message.label} of {where} for {_named(window)}; it is due to "
                f"{names}"
            )
        if window.shut:
            least, least_bytes, _, _ = reader.charges(window)
            raise Difference(
                f"{client} was given {message.label} of {where} for {_named(window)}, which is "
                f"full with {least} messages and {least_bytes} bytes"
            )
        del self.waiting[guid]
        reader.hands[guid] = Held(message, window, window.text)
        for one in reader.windows:
            if one.text == window.text:
                one.look()
        return message

    def take_in_a_rush(self, window: Window, message: Message, queue: str) -> None:
        """A delivery was seen that was due at some moment of several."""
        reader = window.reader
        where = f"{queue} app {self.name!r}"
        if self.readers.get(reader.client) is not reader:
            # It has closed meanwhile, and the message has gone back.
            self.returned.add(message.guid)
            return
        if message.guid not in self.waiting:
            raise Difference(f"{reader.client} was given {message.label} of {where}, not to be had")
        del self.waiting[message.guid]
        lasting = window in reader.windows
        reader.hands[message.guid] = Held(message, window if lasting else None, window.text)
        if reader.charges(window)[0] > window.wanted.messages:
            raise Difference(f"{reader.client} has more of {where} than {_named(window)} allows")
        for one in reader.windows:
            one.shut = None
            one.look()


def _named(window: Window) -> str:
    wanted = window.wanted
    return (
        f"{window.reader.client}'s [{'everything' if wanted.text is None else wanted.text}] at "
        f"{wanted.priority}, {wanted.messages} messages, {wanted.bytes} bytes"
    )


@dataclass(eq=False)
class Queue:
    """A queue of a domain, what it stores and for whom."""

    uri: str
    domain: Domain
    apps: dict[str, App] = field(default_factory=dict)
    stored: dict[bytes, Message] = field(default_factory=dict)
    pending: dict[bytes, set[str]] = field(default_factory=dict)
    """By message, the apps that have not confirmed it."""
    seen: set[bytes] = field(default_factory=set)
    siblings: list[Queue] = field(default_factory=list)
    """The other queues of the domain."""
    size: int = 0

    def __post_init__(self) -> None:
        self.apps = {name: App(name) for name in self.domain.apps}

    @property
    def is_broadcast(self) -> bool:
        return self.domain.mode == BROADCAST

    def readers(self) -> int:
        return len({client for app in self.apps.values() for client in app.readers})

    # -- posts

    def post(self, message: Message) -> tuple[set[int], list[str]]:
        """The statuses that the answer may have, and the apps that take the message."""
        if message.guid in self.seen:
            return {SUCCESS}, []
        takers = [name for name in self.apps if self._lets_through(name, message)]
        if not takers or self.is_broadcast:
            return {SUCCESS}, takers
        refused = set()
        total = len(self.stored) + sum(len(one.stored) for one in self.siblings)
        if len(self.stored) + 1 > self.domain.max_messages or total + 1 > self.domain.total:
            refused.add(LIMIT_MESSAGES)
        if self.size + message.size > self.domain.max_bytes:
            refused.add(LIMIT_BYTES)
        if refused:
            return refused, []
        self.seen.add(message.guid)
        self.stored[message.guid] = message
        self.pending[message.guid] = set(takers)
        self.size += message.size
        for name in takers:
            self.apps[name].waiting[message.guid] = message
        return {SUCCESS}, takers

    def _lets_through(self, app: str, message: Message) -> bool:
        filters = self.domain.filters.get(app, ())
        return not filters or any(message.is_wanted_by(text) for text in filters)

    def audience(self, message: Message) -> dict[str, tuple[bool, set[int]]]:
        """Of a broadcast: by client, whether it must be reached, and for which subscriptions."""
        reached: dict[str, tuple[bool, set[int]]] = {}
        for text, (_, windows) in self.apps[""].active.items():
            if not message.is_wanted_by(text):
                continue
            for window in windows:
                must, numbers = reached.get(window.reader.client, (True, set()))
                if window.shut:
                    must = False
                else:
                    numbers.add(window.wanted.number)
                reached[window.reader.client] = (must, numbers)
        return reached

    # -- readers

    def confirm(self, app: App, client: str, guid: bytes) -> None:
        reader = app.readers.get(client)
        if reader is not None and reader.let_go(guid):
            self._done(app, guid)

    def _done(self, app: App, guid: bytes) -> None:
        pending = self.pending[guid]
        pending.discard(app.name)
        app.crashes.pop(guid, None)
        app.returned.discard(guid)
        if not pending:
            del self.pending[guid]
            self.size -= self.stored.pop(guid).size

    def leave(self, app: App, client: str, crashed: bool) -> None:
        """The client does not read any more; what it has in its hands is to be given again."""
        reader = app.readers.pop(client)
        app.changed()
        for message in reader.give_up():
            app.returned.add(message.guid)
            if crashed and self.domain.attempts:
                app.crashes[message.guid] += 1
                if app.crashes[message.guid] >= self.domain.attempts:
                    self._done(app, message.guid)
                    continue
            app.waiting[message.guid] = message

    # -- what /status.json should say

    def figures(self) -> dict[str, object]:
        """Numbers of the queue as a whole and of each app."""
        return {
            "messages": len(self.stored),
            "bytes": self.size,
            **{
                f"{what} of {name!r}": value
                for name, app in self.apps.items()
                for what, value in (
                    ("undelivered", len(app.waiting)),
                    ("unconfirmed", sum(len(one.hands) for one in app.readers.values())),
                )
            },
        }


def turns_are_fair(counts: Iterable[int]) -> bool:
    """Whether equals that took turns got the same, but for one."""
    numbers = list(counts)
    return max(numbers) - min(numbers) <= 1
