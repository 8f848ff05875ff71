"""How values of the configuration are written: sizes, durations, choices, secrets."""

from __future__ import annotations

import json
import math
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from headgate.core.model.ids import AppId
from headgate.core.model.limits import KiB, MiB
from headgate.core.model.property_type import BY_LABEL, PropertyType
from headgate.store.backends import FORMS, PATTERN, masked


class Secret:
    """A text that is not shown: not by repr, not in a log, not by ``config show``."""

    __slots__ = ("_text", "shown")

    def __init__(self, text: str, shown: str = "(hidden)") -> None:
        self._text = text
        self.shown = shown

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Secret({self.shown})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


# How values are written. A kind reads what TOML gives (`read`) or the text of an environment
# variable (`parse`), raises ValueError if that is not its `form`, and writes a value as TOML.


class Kind(ABC):
    """How a value of the configuration is read and shown."""

    form: str

    @abstractmethod
    def read(self, raw: object) -> Any:  # noqa: ANN401  each kind has its own type
        """The value of what TOML gave; ValueError if it is not of this form."""

    def parse(self, text: str) -> Any:  # noqa: ANN401
        return self.read(text)

    def show(self, value: Any) -> str:  # noqa: ANN401
        return quoted(value) if isinstance(value, str) else str(value)

    @property
    def secret(self) -> bool:
        return False


class Text(Kind):
    """A text."""

    def __init__(
        self,
        form: str = "a text",
        pattern: str = r"[^\x00-\x1f\x7f\ud800-\udfff]+",
        example: str = "",
    ) -> None:
        self.form = form
        self.pattern = re.compile(pattern)
        self.example = example
        """The example in the default file for a key that is not set."""

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or not self.pattern.fullmatch(raw) or len(raw) > 4096:
            raise ValueError
        return raw


class FileName(Text):
    """The path of a file that the operator keeps beside the configuration."""

    def __init__(self, example: str = "") -> None:
        super().__init__("the path of a file", example=example)


class Choice(Kind):
    """One of some words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.form = "one of " + ", ".join(map(quoted, words))

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or raw not in self.words:
            raise ValueError
        return raw


class Flag(Kind):
    """Yes or no."""

    form = "true or false"

    def read(self, raw: object) -> bool:
        if not isinstance(raw, bool):
            raise ValueError
        return raw

    def parse(self, text: str) -> bool:
        return {"true": True, "false": False}[text] if text in ("true", "false") else self.read("")

    def show(self, value: bool) -> str:
        return str(value).lower()


class Whole(Kind):
    """A whole number within bounds."""

    def __init__(self, least: int = 0, most: int = 2**53) -> None:
        self.least, self.most = least, most
        to = f" to {most}" if most < 2**53 else ""
        self.form = f"a whole number from {least}{to or ' on'}"

    def read(self, raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not self.least <= raw <= self.most:
            raise ValueError
        return raw

    def parse(self, text: str) -> int:
        return self.read(int(text) if re.fullmatch("[0-9]{1,17}", text) else None)


class Cores(Whole):
    """A number of processes, or as many as there are cores."""

    def __init__(self) -> None:
        super().__init__(1, 64)
        self.form = f'{self.form}, or "cores"'

    def read(self, raw: object) -> int | str:  # type: ignore[override]
        return "cores" if raw == "cores" else super().read(raw)

    def parse(self, text: str) -> int | str:  # type: ignore[override]
        return "cores" if text == "cores" else super().parse(text)


class Quantity(Kind):
    """A number with a unit, or without one for the base unit."""

    units: ClassVar[Mapping[str, float]]
    most: ClassVar[float]

    def amount(self, raw: object) -> float:
        if isinstance(raw, str):
            found = re.fullmatch(r"([0-9]{1,17}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)", raw.strip())
            if not found or found[2].lower() not in self.units:
                raise ValueError
            raw = float(found[1]) * self.units[found[2].lower()]
        # NaN is not between any two numbers.
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= self.most:
            raise ValueError
        return raw


class Size(Quantity):
    """A number of bytes, with or without a unit."""

    form = 'a size, such as 65536, "64 KiB" or "8 MiB"'
    units: ClassVar[Mapping[str, float]] = {"": 1, "b": 1} | {
        f"{prefix}{unit}": base**power
        for power, prefix in enumerate("kmgt", 1)
        for unit, base in (("b", 1000), ("ib", 1024))
    }
    most = 2.0**53

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def read(self, raw: object) -> int:
        amount = self.amount(raw)
        if amount != int(amount) or amount < self.least:
            raise ValueError
        return int(amount)

    def show(self, value: int) -> str:
        for unit, size in (("GiB", 1024 * MiB), ("MiB", MiB), ("KiB", KiB)):
            if value and value % size == 0:
                return f'"{value // size} {unit}"'
        return str(value)


class Duration(Quantity):
    """Seconds, with or without a unit."""

    form = 'a duration, such as 30, "500ms", "60s" or "7 days"'
    units: ClassVar[Mapping[str, float]] = {
        unit: seconds
        for seconds, names in (
            (0.001, ("ms",)),
            (1.0, ("", "s", "sec", "second", "seconds")),
            (60.0, ("m", "min", "minute", "minutes")),
            (3600.0, ("h", "hour", "hours")),
            (86_400.0, ("d", "day", "days")),
            (604_800.0, ("w", "week", "weeks")),
        )
        for unit in names
    }
    most = 36_500 * 86_400.0

    def read(self, raw: object) -> float:
        return float(self.amount(raw))

    def show(self, value: float) -> str:
        for unit, seconds in ((" days", 86_400), (" hours", 3600), (" minutes", 60), ("s", 1)):
            if value and value % seconds == 0:
                count = int(value // seconds)
                return f'"{count}{unit.removesuffix("s") if count == 1 and seconds > 1 else unit}"'
        milliseconds = value * 1000
        if value and milliseconds == math.floor(milliseconds):
            return f'"{int(milliseconds)}ms"'
        return str(value) if value else "0"


class Unlimited(Kind):
    """Another kind, or a word for no limit."""

    def __init__(self, kind: Kind, word: str = "none") -> None:
        self.kind = kind
        self.word = word
        self.form = f"{kind.form}, or {quoted(word)}"

    def read(self, raw: object) -> Any:  # noqa: ANN401
        return None if raw == self.word else self.kind.read(raw)

    def parse(self, text: str) -> Any:  # noqa: ANN401
        return None if text == self.word else self.kind.parse(text)

    def show(self, value: Any) -> str:  # noqa: ANN401
        return quoted(self.word) if value is None else self.kind.show(value)


class SecretText(Kind):
    """A text that is never shown."""

    form = 'a text, or "file:PATH" for the text in a file'

    def read(self, raw: object) -> Secret:
        text = Text().read(raw)
        return Secret(text, text if text.startswith("file:") else "(hidden)")

    def show(self, value: Secret) -> str:
        return quoted(value.shown)

    @property
    def secret(self) -> bool:
        return True


class Secrets(Kind):
    """A table whose names are the operator's own."""

    form = 'a table of secrets by name, such as { orders = "file:orders.token" }'

    def __init__(self, names: str) -> None:
        self.names = Text(pattern=names)

    def read(self, raw: object) -> dict[str, Secret]:
        if not isinstance(raw, dict):
            raise ValueError
        return {self.names.read(name): SecretText().read(text) for name, text in raw.items()}

    def parse(self, text: str) -> dict[str, Secret]:
        return self.read(toml_value(text))

    def show(self, value: Mapping[str, Secret]) -> str:
        inside = ", ".join(f"{quoted(name)} = {quoted(s.shown)}" for name, s in value.items())
        return f"{{ {inside} }}" if inside else "{}"

    @property
    def secret(self) -> bool:
        return True


class StoreUrl(Text):
    """Not echoed when wrong: addresses of databases have passwords in them."""

    def __init__(self, forms: str = FORMS, pattern: str = PATTERN) -> None:
        super().__init__(forms, pattern)

    def show(self, value: str) -> str:
        return quoted(masked(value))

    @property
    def secret(self) -> bool:
        return True


class Texts(Kind):
    """A list of texts."""

    form = 'a list of different texts, such as ["billing", "audit"]'

    def read(self, raw: object) -> tuple[str, ...]:
        if not isinstance(raw, list) or len(raw) > 1000:
            raise ValueError
        texts = tuple(map(Text().read, raw))
        if len(set(texts)) < len(texts):
            raise ValueError
        return texts

    def parse(self, text: str) -> tuple[str, ...]:
        return self.read(toml_value(text))

    def show(self, value: Iterable[str]) -> str:
        return f"[{', '.join(map(quoted, value))}]"


class Subscriptions(Kind):
    """Expressions by app."""

    form = 'a table of lists of expressions by app, such as { "" = ["price > 10"] }'

    def read(self, raw: object) -> dict[AppId, tuple[str, ...]]:
        if not isinstance(raw, dict):
            raise ValueError
        for expressions in raw.values():
            if not isinstance(expressions, list):
                raise ValueError
            for expression in expressions:
                if not isinstance(expression, str):
                    raise ValueError
                expression.encode()  # a lone surrogate is a ValueError too
        return {app: tuple(expressions) for app, expressions in raw.items()}

    def parse(self, text: str) -> dict[AppId, tuple[str, ...]]:
        return self.read(toml_value(text))

    def show(self, value: Mapping[AppId, Iterable[str]]) -> str:
        inside = ", ".join(f"{quoted(app)} = {Texts().show(e)}" for app, e in value.items())
        return f"{{ {inside} }}" if inside else "{}"


class Types(Kind):
    """Types of properties by name."""

    form = (
        f'a table of types by name, such as {{ zip = "string" }}; types are {", ".join(BY_LABEL)}'
    )

    def read(self, raw: object) -> dict[str, PropertyType]:
        if not isinstance(raw, dict) or not all(isinstance(each, str) for each in raw.values()):
            raise ValueError
        if not set(raw.values()) <= BY_LABEL.keys():
            raise ValueError
        return {Text().read(name): BY_LABEL[label] for name, label in raw.items()}

    def parse(self, text: str) -> dict[str, PropertyType]:
        return self.read(toml_value(text))

    def show(self, value: Mapping[str, PropertyType]) -> str:
        inside = ", ".join(f"{quoted(name)} = {quoted(t.label)}" for name, t in value.items())
        return f"{{ {inside} }}" if inside else "{}"


def toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        raise ValueError from None


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
