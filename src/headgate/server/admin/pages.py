"""The status in pages. Of a long list only the rows of the page are made; to sort it, one value of
each item is looked at. Both in slices, so that nobody waits for a page that somebody reads.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar, overload

from starlette.exceptions import HTTPException

from headgate.core.turn.slices import GLANCE_UNITS, GLANCES, Slices, at_once, parts

T = TypeVar("T")
R = TypeVar("R")

Row = dict[str, object]

SLICE_UNITS = 1000
"""Units of work between one turn of others and the next: some milliseconds."""

PAGE_UNITS = 50_000
"""Work for one list of an answer. A page whose rows are large has fewer of them, but one."""


async def in_slices(work: Slices[R]) -> R:
    """Carry out work, and let others have their turn in between."""
    done = 0
    while True:
        try:
            done += next(work)
        except StopIteration as end:
            result: R = end.value
            return result
        if done >= SLICE_UNITS:
            done = 0
            await asyncio.sleep(0)


class Page(NamedTuple):
    """Some rows of a list, and how many it has."""

    rows: list[Row]
    total: int


class Table(Sequence[Row], Generic[T]):
    """Rows that are made of items when they are asked for."""

    def __init__(
        self,
        items: Sequence[T],
        fields: Mapping[str, Callable[[T], object]],
        more: Callable[[T], Slices[Row]] | None = None,
        order: str | None = None,
    ) -> None:
        self.items = items
        self.fields = fields
        """Columns that a row has and can be sorted by."""
        self.more = more
        """More columns of a row, if they take work."""
        self.order = order
        """The field it is sorted by unless somebody says otherwise."""

    def row(self, item: T) -> Slices[Row]:
        row = {name: value(item) for name, value in self.fields.items()}
        yield 1
        if self.more is not None:
            row |= yield from self.more(item)
        return row

    def page(self, offset: int, limit: int, sort: str | None) -> Slices[list[Row]]:
        """Some rows, in the order of a field. A minus in front of its name is the other way
        round."""
        items = self.items[offset : offset + limit]
        sort = sort or self.order
        if sort is not None and sort.removeprefix("-") in self.fields:
            places = yield from self._sorted(sort, offset + limit)
            items = [self.items[place] for place in places[offset:]]
        rows: list[Row] = []
        done = 0
        for item in items:
            if done >= PAGE_UNITS:
                break
            making = self.row(item)
            while True:
                try:
                    units = next(making)
                except StopIteration as end:
                    rows.append(end.value)
                    break
                done += units
                yield units
        return rows

    def _sorted(self, sort: str, most: int) -> Slices[list[int]]:
        """The places of the first items in an order, of which each slice is sorted by itself."""
        value, is_reverse = self.fields[sort.removeprefix("-")], sort.startswith("-")
        sign = -1 if is_reverse else 1  # equal ones stay in their order
        runs = []
        place = 0
        for part in parts(self.items):
            ranked = [(_rank(value(item)), sign * (place + n)) for n, item in enumerate(part)]
            runs.append(sorted(ranked, reverse=is_reverse))
            place += len(part)
            yield GLANCE_UNITS
        merged = merge(*runs, reverse=is_reverse)
        places: list[int] = []
        while len(places) < most and (
            found := list(islice(merged, min(GLANCES, most - len(places))))
        ):
            places += [abs(place) for _, place in found]
            yield GLANCE_UNITS
        return places

    async def paged(self, offset: int, limit: int, sort: str | None) -> Page:
        """The rows of a page, and the number of all rows."""
        rows = await in_slices(self.page(offset, limit, sort))
        return Page(rows, len(self.items))

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [at_once(self.row(item)) for item in self.items[index]]
        return at_once(self.row(self.items[index]))

    def __iter__(self) -> Iterator[Row]:
        return (at_once(self.row(item)) for item in self.items)


class SpreadTable(Table[T]):
    """Rows of which others have some, too. `elsewhere` is asked for the first so many of each of
    them, in the order of a field."""

    def __init__(
        self, table: Table[T], elsewhere: Callable[[int, str | None], Awaitable[list[Page]]]
    ) -> None:
        super().__init__(table.items, table.fields, table.more, table.order)
        self._elsewhere = elsewhere

    async def paged(self, offset: int, limit: int, sort: str | None) -> Page:
        most, field = offset + limit, (sort or "").removeprefix("-")
        pages = [await super().paged(0, most, sort), *await self._elsewhere(most, sort)]
        runs = [page.rows for page in pages]
        rows: Iterable[Row] = chain.from_iterable(runs)
        if field in self.fields:
            is_reverse = sort is not None and sort.startswith("-")
            rows = merge(*runs, key=lambda row: _rank(row[field]), reverse=is_reverse)
        return Page(list(islice(rows, offset, most)), sum(page.total for page in pages))


class Made(Table[Any]):
    """Rows that are there already. They can be sorted by what all of them have."""

    def __init__(self, rows: Sequence[Any]) -> None:
        first = rows[0] if rows and isinstance(rows[0], dict) else {}
        names = [name for name in first if all(name in row for row in rows)]
        super().__init__(rows, {name: itemgetter(name) for name in names})

    def row(self, item: Any) -> Slices[Any]:  # noqa: ANN401
        yield 1
        return item


def _rank(value: object) -> tuple[bool, float, str]:
    if isinstance(value, int | float):
        return False, value, ""
    return True, 0, str(value)


async def page(
    status: Mapping[str, object], query: Mapping[str, str], rows: int
) -> dict[str, object]:
    """The status with every list cut to a page; ``total`` says how long the lists are."""
    unknown = set(query) - {"limit", "offset", "sort"}
    if unknown:
        raise HTTPException(400, "known parameters are limit, offset and sort")
    limit = _number(query, "limit", 1, rows, rows)
    offset = _number(query, "offset", 0, 10**9, 0)
    sort = query.get("sort")
    if sort is not None and not re.fullmatch("-?[a-z_]{1,64}", sort):
        raise HTTPException(400, "sort is the name of a field, with a - in front for descending")
    tables = _tables(status)
    fields = {field for table in tables.values() for field in table.fields}
    if sort is not None and fields and sort.removeprefix("-") not in fields:
        raise HTTPException(400, f"no list can be sorted by that; by {', '.join(sorted(fields))}")
    pages = {name: await table.paged(offset, limit, sort) for name, table in tables.items()}
    cut = {name: found.rows for name, found in pages.items()}
    paged: dict[str, object] = {}
    for name, value in status.items():
        if isinstance(value, dict):
            paged[name] = {k: cut.get(f"{name}.{k}", v) for k, v in value.items()}
        else:
            paged[name] = cut.get(name, value)
    total = {name: found.total for name, found in pages.items()}
    paged["page"] = {"limit": limit, "offset": offset, "sort": sort, "total": total}
    return paged


def _tables(status: Mapping[str, object]) -> dict[str, Table[Any]]:
    """The lists of a status, and those one level below."""
    found: dict[str, Table[Any]] = {}
    for name, value in status.items():
        inner = value if isinstance(value, dict) else {}
        for path, each in [(name, value), *((f"{name}.{k}", v) for k, v in inner.items())]:
            if isinstance(each, Table):
                found[path] = each
            elif isinstance(each, list):
                found[path] = Made(each)
    return found


def _number(query: Mapping[str, str], name: str, least: int, most: int, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch("[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise HTTPException(400, f"{name} is a whole number from {least} to {most}")
    return int(text)
