"""The options of a query: where it begins and ends, how much of it is read at once.

Spark hands them over as text, with names whose case does not matter. `Options.of` is where each is
read; what is wrong with one is a `PipelineError` that says what it can be. Where the journal is,
`feed_of` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.errors import PipelineError
from headgate.pipeline.source.schema import ARROW

MAX_FACTS = 1_000_000
"""Facts of one micro batch, unless the option says otherwise."""

END = 2**63 - 1
"""No fact has a larger number."""

STARTS = {"earliest": 0, "latest": None}
"""Where a query can begin, besides with the fact of a number."""


@dataclass(frozen=True)
class Options:
    """The options of a query, besides where the journal is."""

    start: int | None
    """The number after which to begin; None is the end of the journal as it is now."""
    moment: float | None
    """Begin with the first fact at or after this time instead."""
    end: int
    """The last fact that is read, if it ever comes."""
    max_facts: int
    max_bytes: int | None
    """Of messages; none leaves it to the stream, which bounds them where it can look into files."""
    columns: tuple[str, ...]
    """The columns that are read; the others are null. Spark never says which it needs."""
    skip_expired: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        given = {name.lower(): text.strip() for name, text in options.items()}
        start = given.get("startingoffset", "earliest")
        first = STARTS[start] if start in STARTS else _whole("startingOffset", start, *STARTS)
        moment = given.get("startingtimestamp")
        if moment is not None and "startingoffset" in given:
            raise PipelineError("keep one of startingOffset and startingTimestamp")
        names = [name.strip() for name in given.get("columns", "").split(",") if name.strip()]
        for name in set(names).difference(ARROW.names):
            known = ", ".join(ARROW.names)
            raise PipelineError(f"facts have no column {name!r}; they have {known}")
        heavy, expired = given.get("maxbytes"), given.get("onexpired", "fail")
        if expired not in ("fail", "skip"):
            raise PipelineError(f"onExpired is fail or skip, not {expired!r}")
        return cls(
            start=None if first is None else max(0, first - 1),
            moment=_moment(moment) if moment is not None else None,
            end=_whole("endingOffset", given["endingoffset"]) if "endingoffset" in given else END,
            max_facts=max(1, _whole("maxFacts", given.get("maxfacts", str(MAX_FACTS)))),
            max_bytes=max(1, _whole("maxBytes", heavy)) if heavy is not None else None,
            columns=tuple(dict.fromkeys(["number", "kind", *names]) if names else ARROW.names),
            skip_expired=expired == "skip",
        )


def _whole(name: str, text: str, *words: str) -> int:
    if not text.isdecimal():
        raise PipelineError(f"{name} is {' or '.join([*words, 'a number'])}, not {text!r}")
    return int(text)


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"startingTimestamp is a moment such as 2026-11-15T12:00:00Z, not {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
