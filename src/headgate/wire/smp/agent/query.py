"""Parameters behind the question mark of an address or a link."""

from __future__ import annotations

from urllib.parse import quote, unquote, unquote_to_bytes

from headgate.errors import Malformed


class Query:
    """Parameters by name, in any order. Unknown ones are ignored, since later versions may add
    some; of two with one name the first counts."""

    __slots__ = ("_values",)

    def __init__(self, text: str) -> None:
        self._values: dict[str, str] = {}
        for part in text.split("&"):
            name, _, escaped = part.partition("=")
            self._values.setdefault(name, escaped)

    def find(self, name: str) -> str | None:
        escaped = self._values.get(name)
        return None if escaped is None else unquote(escaped)

    def find_bytes(self, name: str) -> bytes | None:
        escaped = self._values.get(name)
        return None if escaped is None else unquote_to_bytes(escaped)

    def need(self, name: str) -> str:
        text = self.find(name)
        if text is None:
            raise Malformed(f"the parameter {name} is missing")
        return text


def escape(text: str | bytes) -> str:
    """Escape a value for a parameter."""
    return quote(text, safe="")
