"""Questions to the API: parameters and bodies, checked before anything is done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from headgate.core.model.message import PropertyValue
from headgate.server.admin.bodies import property_of, read_body
from headgate.server.admin.responses import Refusal

T = TypeVar("T")

ROWS_DEFAULT = 25
ROWS_MAX = 100
OFFSET_MAX = 10_000
"""Further back nobody looks: search instead."""
TEXT_CHARS_MAX = 200
BODY_BYTES = 512 * 1024
"""Properties are less, but JSON makes up to six bytes of one."""


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that somebody sends."""


class ExpressionQuestion(Question, frozen=True, kw_only=True):
    """An expression to be tried."""

    expression: str
    properties: dict[str, Any] = {}
    """Of a message that somebody thinks of. Bytes are written as {"hex": "00ff"}."""
    domain: str = ""
    """On whose recent messages it is tried."""
    queue: str = ""
    """``bmq://DOMAIN/NAME``, for `impact`."""
    app: str = ""
    priority: int = 0


class ExplainQuestion(Question, frozen=True, kw_only=True):
    """A message that somebody thinks of."""

    queue: str
    """``bmq://DOMAIN/NAME``."""
    properties: dict[str, Any] = {}


class ComparedSubscription(Question, frozen=True, kw_only=True):
    """A subscription of a set that is compared."""

    expression: str | None = None
    """None is true for every message."""
    app: str = ""
    priority: int = 0


class CompareQuestion(Question, frozen=True, kw_only=True):
    """Two sets of subscriptions."""

    domain: str
    before: list[ComparedSubscription]
    after: list[ComparedSubscription]


class ActionQuestion(Question, frozen=True, kw_only=True):
    """An action, confirmed by the name of what it is done to."""

    confirm: str = ""
    """The exact name."""
    reason: str = ""
    dry_run: bool = False
    """Only count what would be done."""


class QueueActionQuestion(ActionQuestion, frozen=True, kw_only=True):
    """An action on a shared queue."""

    queue: str
    """``bmq://DOMAIN/NAME``."""
    app: str | None = None
    count: int | None = None
    """The count of a dry run: if it has changed by more than a hundredth since, nothing is done."""
    forced: bool = False
    """Remove the queue although somebody has it open."""


class LogLevelQuestion(ActionQuestion, frozen=True, kw_only=True):
    """A log level for some time."""

    level: str
    minutes: float = 10.0


class AuditQuestion(ActionQuestion, frozen=True, kw_only=True):
    """An audit of the tallies of services."""


class Asked:
    """The parameters of a request. A route names those that it knows; others are refused."""

    def __init__(self, request: Request, *known: str) -> None:
        self._query: Mapping[str, str] = request.query_params
        unknown = sorted(set(self._query) - set(known))
        if unknown:
            names = ", ".join(known) or "none"
            raise Refusal(
                400,
                f"there is no parameter {shown(unknown[0])}",
                "unknown_parameter",
                f"known here: {names}",
            )
        for name in known:
            if len(request.query_params.getlist(name)) > 1:
                raise Refusal(400, f"{name} is given twice", "bad_parameter", "give it once")

    def text(self, name: str, default: str = "", most: int = TEXT_CHARS_MAX) -> str:
        text = self._query.get(name, default)
        if len(text) > most:
            raise Refusal(400, f"{name} has more than {most} characters", "bad_parameter", "cut it")
        return text

    def choice(self, name: str, *choices: str) -> str:
        """One of some words; the first is the default."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise Refusal(
                400, f"{name} is none of its values", "bad_parameter", f"use {', '.join(choices)}"
            )
        return text

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self._query.get(name)
        if text is None:
            return default
        if not re.fullmatch("[0-9]{1,15}", text) or not least <= int(text) <= most:
            raise Refusal(
                400, f"{name} is not right", "bad_parameter", f"a number from {least} to {most}"
            )
        return int(text)

    def flag(self, name: str) -> bool:
        return self.choice(name, "false", "true", "0", "1") in ("true", "1")

    def page(self) -> tuple[int, int]:
        """How many rows, and after how many others."""
        limit = self.number("limit", ROWS_DEFAULT, 1, ROWS_MAX)
        text = self._query.get("offset", "0")
        if text.isdigit() and len(text) < 15 and int(text) > OFFSET_MAX:
            raise Refusal(
                400,
                f"offset is at most {OFFSET_MAX}",
                "too_far",
                "search with q, or sort the other way round",
            )
        return limit, self.number("offset", 0, 0, OFFSET_MAX)


async def question(request: Request, kind: type[T]) -> T:
    """The body of a request."""
    body = await read_body(request, BODY_BYTES)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        hint = "docs/reference/openapi.json has the form"
        raise Refusal(400, f"not what is asked for here: {error}", "bad_body", hint) from None


def properties_of(given: Mapping[str, object]) -> dict[str, PropertyValue]:
    """Properties as JSON has them."""
    return {name: property_of(name, item) for name, item in given.items()}


# What peers chose is text.


def shown(text: str, most: int = TEXT_CHARS_MAX) -> str:
    """A text as it may be shown: cut, and without control characters."""
    cut = text if len(text) <= most else text[:most] + "…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in cut)


def shown_bytes(name: bytes, most: int = TEXT_CHARS_MAX) -> str:
    """A name of bytes, as it is shown."""
    return shown(name[: 4 * most + 4].decode(errors="replace"), most)


def shown_value(value: PropertyValue) -> object:
    """The value of a property, as JSON has it."""
    match value:
        case bytes():
            return {"hex": value[:TEXT_CHARS_MAX].hex()}
        case str():
            return shown(value)
    return value
