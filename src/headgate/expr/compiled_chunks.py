"""Expressions compiled together, where an index cannot distinguish them.

A pile holds entries in their order and cuts them into chunks. A chunk that was used often enough
since its last change becomes one generated function, which reads the properties and checks their
types once for all its expressions; each then costs a quarter of what it costs alone. Until then a
chunk selects all of its entries. In both cases the predicates decide about the selected ones.

The generated code for ``x % 7 == 3`` and ``x < y``::

    p0 = get(k0)
    p1 = get(k1)
    p0_integer = p0.__class__ is int and MIN <= p0 <= MAX
    while True:
     if not p0_integer: break
     v1 = p0 % 7 if (p0 < 0) == (7 < 0) else -(-p0 % 7)
     if (v1 == 3): add(e0)
     break
    while True:
     if p0.__class__ is not p1.__class__: break
     if not is_readable(p0) or not is_readable(p1): break
     if p0.__class__ is bool: break
     if precedes(p0, p1): add(e1)
     break
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from headgate.expr.nodes import Binary, Boolean, Exists, Integer, Property, Text, Tree
from headgate.expr.predicate import GLOBALS, Failure, Matches, Operand, Writer
from headgate.expr.types import Kind, Properties

T = TypeVar("T")

Entry: TypeAlias = tuple[int, Matches, T, Tree | None]
"""Its rank, which is unique and orders the entries; its predicate; the indexed item; the tree of
the predicate, None if it is true for every message."""

Select: TypeAlias = Callable[[Properties], list[Entry[T]]]


@dataclass(frozen=True, slots=True)
class Tuning:
    """Where the index switches between methods. The results do not depend on it."""

    scanned: int = 16
    """Up to so many entries are tried one by one, without any key."""
    bucket: int = 16
    """Entries under one key; more of them are a pile."""
    chunk: int = 64
    """Entries of a chunk."""
    heat: int = 200
    """Messages after which a chunk is compiled. By then, trying its entries one by one has cost
    about as much as compiling them."""
    bounds: int = 64
    """Different bounds of half-open ranges that are tried one by one."""


DEFAULT_TUNING = Tuning()


class Chunk(Generic[T]):
    """Some expressions of a pile, compiled into one function that selects those that are true."""

    __slots__ = ("_heat", "_select", "entries")

    def __init__(self, entries: list[Entry[T]]) -> None:
        self.entries = entries
        self.cool()

    def cool(self) -> None:
        """Drop the compiled function: the entries have changed."""
        self._heat = 0
        self._select: Select[T] | None = None

    def selected(self, properties: Properties, tuning: Tuning) -> Sequence[Entry[T]]:
        """The entries that may match, in order."""
        if self._select is None:
            self._heat += 1
            if self._heat <= tuning.heat:
                return self.entries
            self._select = compiled_together(self.entries)
        return self._select(properties)


class Pile(Generic[T]):
    """Entries in order, in chunks."""

    __slots__ = ("_tuning", "chunks", "size")

    def __init__(self, tuning: Tuning, entries: Sequence[Entry[T]] = ()) -> None:
        self._tuning = tuning
        self.chunks: list[Chunk[T]] = []
        self.size = 0
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return self.size

    def add(self, entry: Entry[T]) -> None:
        self.size += 1
        if not self.chunks:
            self.chunks.append(Chunk([entry]))
            return
        place = max(bisect_right(self.chunks, entry, key=first) - 1, 0)
        chunk = self.chunks[place]
        full = len(chunk.entries) >= self._tuning.chunk
        if full and entry > chunk.entries[-1] and place == len(self.chunks) - 1:
            self.chunks.append(Chunk([entry]))  # entries added last leave full chunks behind
            return
        insort(chunk.entries, entry)
        chunk.cool()
        if full:
            half = len(chunk.entries) // 2
            self.chunks.insert(place + 1, Chunk(chunk.entries[half:]))
            del chunk.entries[half:]

    def remove(self, entry: Entry[T]) -> None:
        place = bisect_right(self.chunks, entry, key=first) - 1
        chunk = self.chunks[place]
        take(chunk.entries, entry)
        chunk.cool()
        if not chunk.entries:
            del self.chunks[place]
        self.size -= 1


def first(chunk: Chunk[T]) -> Entry[T]:
    return chunk.entries[0]


def take(entries: list[Entry[T]], entry: Entry[T]) -> None:
    """Remove an entry from an ordered list."""
    place = bisect_left(entries, entry)
    assert entries[place] is entry, "an entry is where its rank says"
    del entries[place]


def compiled_together(entries: Sequence[Entry[T]]) -> Select[T]:
    """A function that selects the matching ones of these entries."""
    writer = _JointWriter()
    for number, (_, _, _, tree) in enumerate(entries):
        writer.entry(f"e{number}", tree)
    arguments = ", ".join([*(f"e{number}" for number in range(len(entries))), *writer.constants])
    body = "\n".join(writer.head + writer.lines)
    source = (
        f"def make({arguments}):\n def select(properties):\n"
        f"  get = properties.get\n  found = []\n  add = found.append\n{body}\n"
        "  return found\n return select\n"
    )
    namespace = dict(GLOBALS)
    exec(compile(source, "<expressions>", "exec"), namespace)
    make = cast(Callable[..., Any], namespace["make"])
    return cast("Select[T]", make(*entries, *writer.constants.values()))


FLAGS = {
    Kind.INTEGER: "{0}.__class__ is int and MIN <= {0} <= MAX",
    Kind.STRING: "{0}.__class__ is str",
    Kind.BOOLEAN: "{0}.__class__ is bool",
}


class _JointWriter(Writer):
    """Writes one expression after the other. Each is a loop that ends in its first round, so that a
    failing one can be left without leaving the others."""

    def __init__(self) -> None:
        super().__init__(explicit=False)
        self.head: list[str] = []
        """Code before the first expression, which reads and checks properties."""
        self.shared: dict[str, str] = {}
        """The variables of that code, by the names of properties."""
        self.flags: set[str] = set()
        self.texts: dict[str, str] = {}
        self.found = ""

    def entry(self, name: str, tree: Tree | None) -> None:
        self.found = f"add({name})"
        if tree is None:
            self.emit(self.found)
            return
        with self.block("while True:"):
            self.result(tree)

    def result(self, tree: Tree) -> None:
        match tree:
            case Binary("&&", left, right):
                self.conjunct(left)
                self.result(right)
            case Binary("||", left, right):
                self.emit(f"if {self.boolean(left)}: {self.found}; break")
                self.result(right)
            case _:
                self.emit(f"if {self.shortcut(tree) or self.boolean(tree)}: {self.found}")
                self.emit("break")

    def conjunct(self, tree: Tree) -> None:
        match tree:
            case Binary("&&", left, right):
                self.conjunct(left)
                self.conjunct(right)
            case _:
                self.emit(f"if not ({self.shortcut(tree) or self.boolean(tree)}): break")

    def fail(self, failure: Failure, condition: str = "") -> None:
        self.emit(f"if {condition}: break" if condition else "break")

    def shortcut(self, tree: Tree) -> str | None:
        match tree:
            case Binary("==", Property(name), literal) | Binary("==", literal, Property(name)):
                match literal:
                    case Text(text):
                        return f"{self.load(name)} == {self.constant(text)}"
                    case Boolean(flag):
                        return f"{self.load(name)} is {flag}"
                    case Integer(number) if number not in (0, 1):
                        return f"{self.load(name)} == {self.constant(number)}"
        return None

    def operand(self, tree: Tree) -> Operand:
        match tree:
            case Exists(name):
                return self.flag(self.load(name), "readable", "is_readable({0})"), Kind.BOOLEAN
            case _:
                return super().operand(tree)

    def load(self, name: str) -> str:
        variable = self.shared.get(name)
        if variable is None:
            variable = self.shared[name] = f"p{len(self.shared)}"
            self.head.append(f"  {variable} = get({self.constant(name)})")
        return variable

    def require(self, operand: Operand, kind: Kind) -> str:
        text, known = operand
        if known is not None:
            return super().require(operand, kind)
        self.fail(Failure.TYPE, f"not {self.flag(text, kind, FLAGS[kind])}")
        self.checked[text] = kind
        return text

    def flag(self, variable: str, question: str, answer: str) -> str:
        flag = f"{variable}_{question}"
        if flag not in self.flags:
            self.flags.add(flag)
            self.head.append(f"  {flag} = {answer.format(variable)}")
        return flag

    def constant(self, value: int | str) -> str:
        if isinstance(value, int):
            return str(value) if value >= 0 else f"({value})"
        if value not in self.texts:
            self.texts[value] = super().constant(value)
        return self.texts[value]
