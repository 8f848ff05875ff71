"""The pages of docs/requirements/ and the map of all rules, filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tools.requirements.places import Place
from tools.requirements.rules import FAMILIES, Family
from tools.requirements.showing import RuleTest, leading

CELL = re.compile(r"(?<!\\)\|")
NOT_PLANNED = "not planned: "
TABLE = re.compile(r"^\| family \|.*\n(?:\|.*\n)+", re.MULTILINE)
COLUMNS = (
    *("family", "document", "rules", "with a code place", "shown"),
    *("better", "differs", "not planned"),
)


@dataclass(frozen=True)
class Row:
    """A rule: what is written by hand, and what stands for it."""

    rule: str
    text: str
    remark: str = ""
    """Remarks, with semicolons between them."""
    places: Sequence[Place] = ()
    tests: Sequence[RuleTest] = field(default=(), repr=False)

    @property
    def remarks(self) -> list[str]:
        return self.remark.split("; ") if self.remark else []

    @property
    def is_not_planned(self) -> bool:
        return any(re.match(rf"{NOT_PLANNED}\S", remark) for remark in self.remarks)

    def is_marked(self, word: str) -> bool:
        return any(remark.startswith(f"{word}: ") for remark in self.remarks)

    def __str__(self) -> str:
        cells = (
            self.rule,
            self.text,
            "<br>".join(place.cell for place in self.places),
            f"`{leading(self.rule, self.tests).name}`" if self.tests else "",
            str(len(self.tests) or ""),
            self.remark,
        )
        return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def read(page: str) -> list[Row]:
    """The rows of a page, as far as they are written by hand."""
    return [row for line in page.splitlines() if (row := _row(line)) is not None]


def fill(
    page: str, places: Mapping[str, Sequence[Place]], tests: Mapping[str, Sequence[RuleTest]]
) -> str:
    """The page, with the code and the leading test of each rule."""
    lines = []
    for line in page.splitlines():
        row = _row(line)
        lines.append(line if row is None else str(stand(row, places, tests)))
    return "\n".join(lines) + "\n"


def stand(
    row: Row, places: Mapping[str, Sequence[Place]], tests: Mapping[str, Sequence[RuleTest]]
) -> Row:
    """The row with what stands for its rule."""
    return replace(row, places=places.get(row.rule, ()), tests=tests.get(row.rule, ()))


def fill_index(index: str, pages: Mapping[Family, tuple[str, Sequence[Row]]]) -> str:
    """The index, with a line for each page, given with its title and its rows."""
    lines = [_line(COLUMNS), "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    for family, (title, rows) in pages.items():
        lines.append(_line((family.name, f"[{title}]({family.page})", *_counts(rows))))
    lines.append(_line(("", "all", *_counts([row for _, rows in pages.values() for row in rows]))))
    table = "\n".join(lines) + "\n"
    return TABLE.sub(lambda _: table, index, count=1)


def title_of(page: str) -> str:
    return page.partition("\n")[0].removeprefix("# ")


def as_json(rows: Iterable[Row]) -> str:
    """Every rule with its text, code, tests and remarks."""
    rules = {
        row.rule: {
            "text": row.text.replace("\\|", "|"),
            "code": [str(place) for place in row.places],
            "tests": [test.name for test in row.tests],
            "remarks": row.remarks,
        }
        for row in rows
    }
    return json.dumps(rules, indent=1, ensure_ascii=False) + "\n"


def _row(line: str) -> Row | None:
    cells = [cell.strip() for cell in CELL.split(line)]
    if len(cells) != 8 or not any(cells[1] in family.rules for family in FAMILIES):
        return None
    _, rule, text, _, _, _, remark, _ = cells
    return Row(rule, text, remark)


def _counts(rows: Sequence[Row]) -> tuple[str, ...]:
    counts = (
        len(rows),
        sum(bool(row.places) for row in rows),
        sum(bool(row.tests) for row in rows),
        sum(row.is_marked("better") for row in rows),
        sum(row.is_marked("differs") for row in rows),
        sum(row.is_not_planned for row in rows),
    )
    return tuple(f"{count}" for count in counts)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
