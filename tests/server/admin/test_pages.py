"""Lists of the status in pages: what is made of them, and what others get meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from headgate.core.commands import Open
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.shared.statistics import Statistics
from headgate.core.turn import slices
from headgate.core.turn.slices import Slices, at_once
from headgate.server.admin import pages
from headgate.server.admin.pages import Row, Table, page
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

MANY = 10_000


class Counted:
    """A long list that counts what is made of it."""

    def __init__(self, size: int = MANY, units: int = 1) -> None:
        self.made: Counter[str] = Counter()
        self.units = units
        fields = {"number": self._number, "name": self._name}
        self.table = Table(range(size), fields, self._more)

    def _number(self, item: int) -> int:
        self.made["number"] += 1
        return item * 7919 % MANY

    def _name(self, item: int) -> str:
        self.made["name"] += 1
        return f"n{item}"

    def _more(self, item: int) -> Slices[Row]:
        self.made["rows"] += 1
        yield self.units
        return {"more": item}

    async def page(self, **query: str) -> dict[str, Any]:
        return await page({"things": self.table}, query, 100)


async def test_no_more_rows_are_made_than_the_page_has() -> None:
    counted = Counted()
    told = await counted.page(offset="5000", limit="10")
    assert [row["more"] for row in told["things"]] == list(range(5000, 5010))
    assert told["page"]["total"] == {"things": MANY}
    assert counted.made == {"number": 10, "name": 10, "rows": 10}


async def test_to_sort_takes_one_value_of_each_item_and_no_rows() -> None:
    counted = Counted()
    told = await counted.page(sort="-number", limit="10")
    assert [row["number"] for row in told["things"]] == list(range(MANY - 1, MANY - 11, -1))
    assert counted.made == {"number": MANY + 10, "name": 10, "rows": 10}


@pytest.mark.parametrize("query", [{"sort": "name"}, {"sort": "-number", "offset": "9000"}])
async def test_others_have_their_turn_while_a_page_is_made(query: dict[str, str]) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await Counted(size=100_000).page(**query)
    task.cancel()
    assert turns >= 100_000 // slices.GLANCES * slices.GLANCE_UNITS // pages.SLICE_UNITS


async def test_a_page_of_large_rows_is_shorter_but_never_empty() -> None:
    small = Counted(units=pages.PAGE_UNITS // 10)
    assert len((await small.page())["things"]) == 10
    huge = Counted(units=10 * pages.PAGE_UNITS)
    told = await huge.page(offset="3")
    assert [row["more"] for row in told["things"]] == [3]
    assert huge.made["rows"] == 1


Items = st.lists(st.integers(-3, 3) | st.sampled_from(["a", "b", None, True, 0.5]), max_size=40)


@given(Items, st.integers(0, 45), st.integers(1, 45), st.booleans())
def test_a_sorted_page_is_that_of_the_whole_list_sorted(
    items: list[object], offset: int, limit: int, is_reverse: bool
) -> None:
    def rank(item: object) -> tuple[bool, float, str]:
        return (False, item, "") if isinstance(item, int | float) else (True, 0, str(item))

    table = Table(list(enumerate(items)), {"place": lambda i: i[0], "value": lambda i: i[1]})
    wanted = sorted(range(len(items)), key=lambda n: rank(items[n]), reverse=is_reverse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "GLANCES", 7)
        patch.setattr(pages, "GLANCES", 7)
        found = at_once(table.page(offset, limit, "-value" if is_reverse else "value"))
    assert [row["place"] for row in found] == wanted[offset : offset + limit]


def test_a_table_can_be_read_like_a_list() -> None:
    table = Table([3, 1, 2], {"n": lambda item: item})
    assert list(table) == [{"n": 3}, {"n": 1}, {"n": 2}]
    assert (table[0], table[1:], len(table)) == ({"n": 3}, [{"n": 1}, {"n": 2}], 3)


STATUS: dict[str, object] = {"sessions": [{"session": n, "age": None} for n in range(10)]}


@given(
    st.dictionaries(
        st.sampled_from(["limit", "offset", "sort", "x"]),
        st.text(max_size=5) | st.integers(-2, 20).map(str) | st.sampled_from(["session", "-age"]),
    )
)
def test_any_parameters_are_a_page_or_a_400(query: dict[str, str]) -> None:
    """The limit status_rows: never more, whatever is asked for."""
    try:
        rows = asyncio.run(page(STATUS, query, 5))["sessions"]
    except HTTPException as refusal:
        rows = [] if refusal.status_code == 400 else None
    assert isinstance(rows, list)
    assert len(rows) <= 5


# The router's own.


async def test_the_status_of_a_router_makes_what_is_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    router = Router(store=MemoryStore(), domains={"d": Domain("d", Mode.PRIORITY)}, limits=Limits())
    await router.start()
    for n in range(50):
        session = InProcessSession(router, f"session {n}")
        await session.ask(Open, QueueId(b"bmq://d/%d" % n), "d")
    made: list[QueueId] = []
    by_app = Statistics.by_app

    def counted(self: Statistics, queue: QueueId) -> dict[str | None, dict[str, int]]:
        made.append(queue)
        return by_app(self, queue)

    monkeypatch.setattr(Statistics, "by_app", counted)
    told: Any = await page(router.tables(), {"limit": "5", "sort": "-queue"}, 1000)
    assert [row["queue"] for row in told["queues"]] == [f"bmq://d/{n}" for n in (9, 8, 7, 6, 5)]
    assert len(made) == 5
    assert told["page"]["total"] == {"sessions": 50, "closed": 0, "domains": 1, "queues": 50}
    await router.stop()
