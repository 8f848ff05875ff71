"""What clients may do to shared queues, and how sequences of it are drawn.

A step names clients and queues by number and messages by their place in somebody's hands, so that
a sequence still means something when steps are taken out of it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence as Many
from dataclasses import dataclass

from tests.strangers.bmq_model import BROADCAST, FANOUT, PRIORITY, Domain
from tests.strangers.bmq_wire import (
    BINARY,
    BOOL,
    CHAR,
    INT32,
    INT64,
    READ,
    SHORT,
    STRING,
    WRITE,
    Value,
)

DOMAINS = (
    Domain("plain", PRIORITY),
    Domain("sieve", PRIORITY, filters={"": ("x >= 0", 's == "a"')}),
    Domain(
        "fan", FANOUT, apps=("a", "b", "c"), filters={"b": ("x != 1",), "c": ("x >= 10", "flag")}
    ),
    Domain("cast", BROADCAST),
    Domain("castsieve", BROADCAST, filters={"": ("x != 2",)}),
    Domain("small", PRIORITY, max_messages=5),
    Domain(
        "smallfan",
        FANOUT,
        apps=("a", "b"),
        filters={"b": ("exists(s)",)},
        max_messages=6,
        max_bytes=400,
    ),
    Domain("frail", PRIORITY, attempts=2),
    Domain("frailfan", FANOUT, apps=("a", "b"), attempts=1),
    Domain("few", PRIORITY, consumers=2),
    Domain("tight", PRIORITY, total=6),
)
BY_NAME = {domain.name: domain for domain in DOMAINS}
RUSHED = ("plain", "sieve", "fan")
"""Where it does not matter to the outcome who is first."""
WEIGHTS = {"plain": 6, "fan": 4, "sieve": 2}

CLIENTS = ("pia", "ann", "bob", "cat", "dan")
"""The first one posts, and takes what is left at the end."""
UNKNOWN_APP = "nobody"
LARGE = 1 << 30


@dataclass(frozen=True)
class Want:
    """A subscription: an expression, or None for everything."""

    text: str | None
    priority: int = 0
    messages: int = 1000
    bytes: int = LARGE

    def __str__(self) -> str:
        window = "" if self.messages == 1000 else f" messages={self.messages}"
        size = "" if self.bytes == LARGE else f" bytes={self.bytes}"
        return f"[{self.text or 'everything'} @{self.priority}{window}{size}]"


@dataclass(frozen=True)
class Draft:
    """A message to be posted."""

    properties: tuple[tuple[str, int, Value], ...]
    body: int = 1
    """Bytes of its body, at least."""
    ack: bool = True

    def __str__(self) -> str:
        values = " ".join(f"{name}={value!r}" for name, _, value in self.properties)
        return (
            f"({values}{'' if self.body < 10 else f' +{self.body}'}{'' if self.ack else ' quiet'})"
        )


@dataclass(frozen=True)
class Open:
    client: int
    queue: int
    app: str | None
    flags: int


@dataclass(frozen=True)
class Configure:
    client: int
    queue: int
    app: str | None
    wants: tuple[Want, ...]
    plainly: bool = False
    """In the way of clients that have no expressions."""


@dataclass(frozen=True)
class Close:
    client: int
    queue: int
    app: str | None


@dataclass(frozen=True)
class Leave:
    """The client goes and comes back as a new session that has nothing open."""

    client: int
    how: str
    """stop: it says so; end, reset: its connection ends; torn: in the middle of a post."""


@dataclass(frozen=True)
class Post:
    client: int
    queue: int
    drafts: tuple[Draft, ...]


@dataclass(frozen=True)
class Repeat:
    """Post messages again that the queue has seen."""

    client: int
    queue: int
    places: tuple[int, ...]


@dataclass(frozen=True)
class Confirm:
    client: int
    queue: int
    app: str | None
    places: tuple[int, ...] | None
    """Of what it has in its hands; None is everything."""
    twice: bool = False


@dataclass(frozen=True)
class Meddle:
    """Confirm what others have."""

    client: int
    queue: int
    app: str | None
    place: int


@dataclass(frozen=True)
class Stray:
    """Ask for something that cannot be."""

    client: int
    what: str


@dataclass(frozen=True)
class Look:
    """Compare /status.json with the model."""


@dataclass(frozen=True)
class Rush:
    """Several clients act at once."""

    parts: tuple[Step, ...]
    """One of each client."""


Step = Open | Configure | Close | Leave | Post | Repeat | Confirm | Meddle | Stray | Look | Rush


@dataclass(frozen=True)
class Sequence:
    domains: tuple[str, ...]
    """A queue in each."""
    clients: int
    steps: tuple[Step, ...]


# -- expressions that meet in the same places of an index

INTEGERS = (
    *("x == 1", "x != 1", "x != 2", "x == 2", "x >= 0", "x >= 10", "x < 5", "x > 5", "x <= 5"),
    *("x >= 1 && x <= 5", "x >= 10 && x < 20", "x >= 1 && x < 11", "x == 1 || x == 2"),
    *("x % 2 == 0", "x * 2 + 1 == 3", "x / 10 == 1", "x - y == 0", "-x < 0", "x + y > 10", "x < y"),
    *("x==1", "x  == 1", "1 == x", "!(x == 1)", "!(x != 3)", "x / y == 1", "x % y == 1"),
    *("x - 1 >= 0 - 1", "y == 1", "y != 1", "y >= 10", "x != y", "x == -1", "x > 9 - 10"),
)
TEXTS = (
    *('s == "a"', 's != "a"', 's >= "a" && s < "b"', 's >= "ab" && s < "ac"', 's < "m"', 's > "m"'),
    *('s == ""', 's >= ""', 's == "ab"', 's != "ab"', 's <= "ab"', "s == t", 't == "a"'),
)
BOOLEANS = ("flag", "!flag", "~flag", "flag == true", "flag != false", "flag == (x == 1)")
PRESENCES = (
    *("exists(x)", "exists(s)", "!exists(x)", "!exists(y)", "exists(flag)", "exists(y)"),
    *("!exists(y) || y > 3", "exists(x) && x != 1", "!exists(x) || x != 2", "exists(blob)"),
)
ODDITIES = (
    *("x", "x + 33", "s", "x < 5 && x > 5", "x < y < 3", 'x == "a"', "flag == 1", "blob == s"),
    *("x + 9223372036854775807 > 0", "x == 1 || 1 / 0 == 1", "x / 0 == 1 || true"),
)
WRONG = (
    *(
        "",
        " ",
        "x = 1",
        "x == ",
        "1 == 1",
        "true",
        "x and y",
        "x == 1 &",
        "(x",
        's == "a',
        "x <> 1",
    ),
    *(
        "x == 9223372036854775808",
        "()",
        's == "a\\n"',
        "exists(1)",
        "x == 1 ||",
        "_x == 1",
        "1x == 1",
    ),
    "x == 1" + " " * 123,
    "x" + " == 1" * 26,
)


def _solvable(draw: random.Random) -> str:
    """A comparison that is solved for its property, or not."""
    first, second, third = draw.choices(range(-4, 13), k=3)
    left = draw.choice(
        (
            *(f"x * {first} + {second}", f"x / {first}", f"{first} - x", f"-x - {second}"),
            *(f"x % {first}", f"{first} / x", f"(x + {first}) / {second}", f"x * {first} * x"),
        )
    )
    sides = [left, str(third)]
    draw.shuffle(sides)
    return draw.choice(("==", "!=", "<", "<=", ">", ">=")).join(f" {side} " for side in sides)


def _simple(draw: random.Random) -> str:
    if draw.random() < 0.15:
        return _solvable(draw)
    pools = (INTEGERS, TEXTS, BOOLEANS, PRESENCES, ODDITIES)
    (pool,) = draw.choices(pools, (10, 4, 2, 3, 1))
    return draw.choice(pool)


def expression(draw: random.Random) -> str:
    """An expression that can be used."""
    while True:
        kind = draw.random()
        if kind < 0.7:
            found = _simple(draw)
        elif kind < 0.8:
            found = f"!({_simple(draw)})"
        else:
            junction = draw.choice(("&&", "||"))
            found = f"({_simple(draw)}) {junction} ({_simple(draw)})"
        if len(found) <= 128:
            return found


def _crowd(draw: random.Random) -> list[str]:
    """So many expressions that each has to be found: of many shapes, or of few."""
    if draw.random() < 0.5:
        return [expression(draw) for _ in range(draw.choice((17, 24, 40)))]
    forms = draw.sample(
        (
            *("x == {}", "x != {}", "x >= {}", "x < {}", "x % {} == 1", "x - y == {}"),
            *("x >= {0} && x < {0} + 3", "x != {} && flag", "x == {} || y == 1", "y != {}"),
            *("exists(x) && x % {} == 0", "!exists(y) || y != {}", "x * {} - y > 3", "-x < {}"),
            *("!(x == {} || y == 2)", "x / {} == 1 || flag", "(x != {}) == flag", "~(x <= {})"),
            *('s == "a{}"', 's != "a{}"', 's != "a{}" && x != 1', 's < "a{}" || t >= s'),
        ),
        draw.randint(1, 5),
    )
    count = draw.choice((17, 20, 33, 66, 130))
    return [draw.choice(forms).format(draw.randint(0, 40)) for _ in range(count)]


# -- messages

NUMBERS = (0, 1, 1, 1, 2, 2, 3, 5, 9, 10, 11, 15, 19, 20, -1, 30)
WORDS = ("a", "a", "ab", "abc", "ac", "b", "m", "z", "")


def draft(draw: random.Random) -> Draft:
    properties: list[tuple[str, int, Value]] = []
    for name in ("x", "y"):
        if draw.random() < (0.85 if name == "x" else 0.4):
            if draw.random() < 0.06:
                properties.append((name, STRING, draw.choice(WORDS)))
            elif draw.random() < 0.03:
                properties.append((name, BINARY, b"\x01"))
            elif draw.random() < 0.03:
                properties.append((name, INT64, draw.choice((2**63 - 1, -(2**63)))))
            else:
                kind = draw.choice((CHAR, SHORT, INT32, INT64, INT64))
                properties.append((name, kind, draw.choice(NUMBERS)))
    if draw.random() < 0.6:
        properties.append(("s", STRING, draw.choice(WORDS)))
    if draw.random() < 0.1:
        properties.append(("t", STRING, draw.choice(WORDS)))
    if draw.random() < 0.3:
        properties.append(("flag", BOOL, draw.random() < 0.5))
    if draw.random() < 0.05:
        properties.append(("blob", BINARY, b"a"))
    draw.shuffle(properties)
    body = 1 if draw.random() < 0.8 else draw.choice((10, 30, 60))
    return Draft(tuple(properties), body, draw.random() < 0.9)


# -- sequences


class _Artist:
    """Draws steps, and remembers enough of them to make the next ones likely to matter."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        names = list(BY_NAME)
        weights = [WEIGHTS.get(name, 1) for name in names]
        self.domains = tuple(draw.choices(names, weights, k=draw.choice((1, 1, 2, 2, 3))))
        if "tight" in self.domains:
            self.domains += ("tight",)
        self.clients = draw.randint(2, len(CLIENTS) - 1)
        self.is_crowded = draw.random() < 0.15
        self.vocabulary: list[str | None] = [expression(draw) for _ in range(draw.randint(2, 8))]
        if draw.random() < 0.6:
            self.vocabulary += draw.sample(["x != 1", "x != 2", "x >= 0", "x >= 10", "x < 5"], 3)
        if draw.random() < 0.7:
            self.vocabulary.append(None)
        if self.is_crowded:
            self.vocabulary += _crowd(draw)
        self.priorities = draw.choice(((0,), (0, 0, 1), (0, 1, 2), (-5, 0, 10)))
        self.windows = draw.choice(((1000,), (1000, 1, 3), (1, 2, 5, 10, 0), (4, 6, 1000)))
        self.sizes = draw.choice(((LARGE,), (LARGE,), (LARGE, 40, 100), (LARGE, 1, 0, 25)))
        self.open: dict[tuple[int, int, str | None], tuple[int, list[Want]]] = {}

    def want(self) -> Want:
        draw = self.draw
        return Want(
            draw.choice(self.vocabulary),
            draw.choice(self.priorities),
            draw.choice(self.windows),
            draw.choice(self.sizes),
        )

    def wants(self) -> list[Want]:
        if self.is_crowded and self.draw.random() < 0.7:
            # Each has its own priority, or all share one: both are frequent.
            one = self.draw.random() < 0.6
            texts = self.draw.sample(self.vocabulary, len(self.vocabulary))
            return [Want(text, 0 if one else self.draw.choice(self.priorities)) for text in texts]
        return [self.want() for _ in range(self.draw.choice((1, 1, 2, 2, 3, 4)))]

    def changed(self, wants: list[Want]) -> list[Want]:
        """The same subscriptions, in part."""
        draw = self.draw
        wants = list(wants)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            kind = draw.randrange(9)
            if not wants or kind == 0:
                wants.insert(draw.randint(0, len(wants)), self.want())
                continue
            place = draw.randrange(len(wants))
            one = wants[place]
            if kind == 1:
                draw.shuffle(wants)
            elif kind == 2:
                wants.reverse()
            elif kind == 3:
                del wants[place]
            elif kind == 4:
                wants.insert(draw.randint(0, len(wants)), one)
            elif kind == 5:
                wants[place] = Want(one.text, draw.choice(self.priorities), one.messages, one.bytes)
            elif kind == 6:
                wants[place] = Want(one.text, one.priority, draw.choice(self.windows), one.bytes)
            elif kind == 7:
                wants[place] = Want(one.text, one.priority, one.messages, draw.choice(self.sizes))
            else:
                wants[place] = Want(
                    draw.choice(self.vocabulary), one.priority, one.messages, one.bytes
                )
        return wants

    def app(self, queue: int) -> str | None:
        domain = BY_NAME[self.domains[queue]]
        if domain.mode != FANOUT:
            return None
        return self.draw.choice((*domain.apps, *domain.apps, UNKNOWN_APP))

    def step(self) -> list[Step]:
        draw = self.draw
        client = draw.randint(1, self.clients)
        queue = draw.randrange(len(self.domains))
        mine = [key for key in self.open if key[0] == client]
        kind = draw.random()
        if kind < 0.22 or not self.open:
            return self._opening(client, queue)
        if kind < 0.27 and self.domains[queue] in RUSHED:
            return [self._rush(queue)]
        if kind < 0.42:
            return self._configuring(draw.choice(mine or list(self.open)))
        if kind < 0.68:
            return [self._post(queue)]
        if kind < 0.82:
            key = draw.choice(mine or list(self.open))
            places = (
                None if draw.random() < 0.3 else tuple(draw.sample(range(12), draw.randint(1, 5)))
            )
            return [Confirm(*key, places, draw.random() < 0.1)]
        if kind < 0.88:
            key = draw.choice(mine or list(self.open))
            del self.open[key]
            return [Close(*key)]
        if kind < 0.93:
            for key in mine:
                del self.open[key]
            return [Leave(client, draw.choice(("stop", "end", "reset", "torn")))]
        if kind < 0.95:
            return [Repeat(0, queue, tuple(draw.sample(range(20), draw.randint(1, 3))))]
        if kind < 0.97:
            key = draw.choice(mine or list(self.open))
            return [Meddle(*key, draw.randrange(12))]
        if kind < 0.985:
            return [
                Stray(
                    client, draw.choice(("domain", "app", "no app", "configure", "close", "post"))
                )
            ]
        return [Look()]

    def _rush(self, queue: int) -> Rush:
        draw = self.draw
        # One post alone, since nobody could say which of two was first.
        parts: list[Step] = [self._post(queue, 0)] if draw.random() < 0.7 else []
        keys = [key for key in self.open if key[1] == queue]
        draw.shuffle(keys)
        for key in {key[0]: key for key in keys}.values():
            kind = draw.random()
            if kind < 0.4:
                parts += self._configuring(key)
            elif kind < 0.6:
                parts.append(Confirm(*key, tuple(draw.sample(range(12), draw.randint(1, 5)))))
            elif kind < 0.7:
                del self.open[key]
                parts.append(Close(*key))
            elif kind < 0.8 and not any(
                BY_NAME[self.domains[one[1]]].attempts for one in self.open if one[0] == key[0]
            ):
                for one in [one for one in self.open if one[0] == key[0]]:
                    del self.open[one]
                parts.append(Leave(key[0], draw.choice(("end", "reset", "torn"))))
        draw.shuffle(parts)
        return Rush(tuple(parts))

    def _opening(self, client: int, queue: int) -> list[Step]:
        draw = self.draw
        app = self.app(queue)
        key = (client, queue, app)
        if key in self.open:
            return self._configuring(key)
        flags = READ if app is not None or draw.random() < 0.8 else READ | WRITE
        wants = self.wants()
        self.open[key] = (flags, wants)
        opening: list[Step] = [Open(client, queue, app, flags)]
        if draw.random() < 0.95:
            opening.append(self._configure(key, wants))
        return opening

    def _configuring(self, key: tuple[int, int, str | None]) -> list[Step]:
        draw = self.draw
        flags, wants = self.open[key]
        kind = draw.random()
        if kind < 0.1:
            spoiled = self.changed(wants)
            spoiled.insert(draw.randint(0, len(spoiled)), Want(draw.choice(WRONG)))
            return [Configure(*key, tuple(spoiled))]
        if kind < 0.75:
            wants = self.changed(wants)
        elif kind < 0.85:
            wants = []
        elif kind < 0.95:
            wants = self.wants()
        self.open[key] = (flags, wants)
        return [self._configure(key, wants)]

    def _configure(self, key: tuple[int, int, str | None], wants: Many[Want]) -> Configure:
        plain = len(wants) < 2 and all(one.text is None for one in wants)
        return Configure(*key, tuple(wants), plain and self.draw.random() < 0.5)

    def _post(self, queue: int, poster: int | None = None) -> Post:
        draw = self.draw
        count = draw.choice((1, 1, 1, 2, 3, 5, 8))
        if self.is_crowded and draw.random() < 0.3:
            count = draw.choice((30, 30, 250))
        drafts = [draft(draw) for _ in range(count)]
        if draw.random() < 0.2:
            drafts = [drafts[0]] * count
        writers = [
            key[0] for key, (flags, _) in self.open.items() if key[1] == queue and flags & WRITE
        ]
        if poster is None:
            poster = draw.choice([0, 0, *writers])
        return Post(poster, queue, tuple(drafts))


def sequence(seed: str) -> Sequence:
    """The sequence of a seed."""
    artist = _Artist(random.Random(seed))
    steps: list[Step] = []
    length = artist.draw.randint(15, 30)
    while len(steps) < length:
        steps += artist.step()
    return Sequence(artist.domains, artist.clients, tuple(steps))
