"""`make hold`: plays every case against a router, and writes docs/hold.md.

    python -m tests.hold                 all of them, about half an hour
    python -m tests.hold resp: bmq:PUT   those whose titles begin so
    python -m tests.hold --quick         those that every run of the tests plays
    python -m tests.hold --merge FILE... none; the page, of what runs with --results wrote

Ends with 1 if a case holds the loop for longer than it may. Only all cases make the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.hold.case import Case, Part, Result, play
from tests.hold.clients import raise_descriptors
from tests.hold.crew import Crew
from tests.hold.innocent import Innocent
from tests.hold.page import PAGE, growth, line, page
from tests.hold.router import Router
from tests.hold.table import CASES

SHARED_BYTES = 500_000_000
"""A router that has grown so much is not played on any longer."""


class Inhabited(NamedTuple):
    router: Router
    innocent: Innocent


class House:
    """Routers, one for each case or for several that may share one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared: Inhabited | None = None
        self._count = 0

    async def play(self, case: Case, *, shares: bool = False) -> tuple[Result, float]:
        """The case's result, and how long somebody else waited for an answer meanwhile."""
        inhabited = await self._inhabited(case.shares or shares, case.wire == "workers")
        router, innocent = inhabited
        try:
            await innocent.worst()
            result = await play(case, router)
            return result, await innocent.worst()
        finally:
            is_fit = router.is_running and router.memory()[0] < SHARED_BYTES
            if inhabited is not self._shared or not is_fit:
                await self._close(inhabited)

    async def close(self) -> None:
        if self._shared is not None:
            await self._close(self._shared)

    async def _close(self, inhabited: Inhabited) -> None:
        if inhabited is self._shared:
            self._shared = None
        await inhabited.innocent.stop()
        await inhabited.router.stop()

    async def _inhabited(self, shares: bool, has_workers: bool) -> Inhabited:
        if shares and self._shared is not None:
            return self._shared
        self._count += 1
        folder = self._folder / str(self._count)
        router = Crew(folder) if has_workers else Router(folder)
        await router.start()
        inhabited = Inhabited(router, await Innocent.start(router.address("resp")))
        if shares:
            self._shared = inhabited
        return inhabited


async def play_all(cases: Sequence[Case], results: Path | None) -> list[Result]:
    found: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="hold-") as folder:
        house = House(Path(folder))
        try:
            for number, case in enumerate(cases, 1):
                result, waited = await house.play(case)
                found.append(result)
                print(
                    f"{number}/{len(cases)} {line(result)} ping {waited * 1000:.0f} ms", flush=True
                )
                if results is not None:
                    with results.open("a") as file:
                        file.write(json.dumps(told(result, waited)) + "\n")
        finally:
            await house.close()
    return found


def told(result: Result, waited: float) -> dict[str, object]:
    return {
        "wire": result.case.wire,
        "name": result.case.name,
        "sent": result.case.sent,
        "outcome": result.outcome,
        "unit": result.unit,
        "hold": result.hold,
        "while_sent": vars(result.sent),
        "while_left": vars(result.left),
        "grown": result.grown,
        "kept": result.kept,
        "mistakes": result.mistakes,
        "ended": result.is_ended,
        "ping": waited,
    }


def merged(paths: Sequence[Path]) -> list[Result]:
    """What earlier runs found, of each case the last, in the order of the table."""
    cases = {case.title: case for case in CASES}
    found: dict[str, Result] = {}
    for text in (text for path in paths for text in path.read_text().splitlines()):
        said = json.loads(text)
        case = cases.get(f"{said['wire']}: {said['name']}")
        if case is not None:
            found[case.title] = Result(
                case,
                said["outcome"],
                said["unit"],
                Part(**said["while_sent"]),
                Part(**said["while_left"]),
                said["grown"],
                said["kept"],
                said["mistakes"],
                said["ended"],
            )
    return [found[title] for title in cases if title in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("titles", nargs="*", help="beginnings of titles")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--without-general", action="store_true", help="no cases that are drawn up from tables"
    )
    parser.add_argument("--results", type=Path, help="a file that gets a line of JSON for each")
    parser.add_argument("--merge", type=Path, nargs="+", help="files that --results made")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    raise_descriptors()
    cases = [
        case
        for case in CASES
        if (not options.quick or case.is_quick)
        and (not options.without_general or not case.is_general)
        and (not options.titles or case.title.startswith(tuple(options.titles)))
    ]
    began = time.monotonic()
    if options.merge is not None:
        results = merged(options.merge)
        cases = [result.case for result in results]
    else:
        results = asyncio.run(play_all(cases, options.results))
    over = [result for result in results if result.is_over]
    for result in over:
        print(f"over: {line(result)}")
    print(growth(results))
    print(f"{len(cases)} cases, {len(over)} over, {time.monotonic() - began:.0f} s")
    if len(cases) == len(CASES):
        options.page.write_text(page(results))
    return 1 if over else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
