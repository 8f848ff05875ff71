"""Versions of a schema, checked before reading without writing."""

from __future__ import annotations

from headgate.errors import StoreError


def check_viewed(place: str, version: int, known: int, upgrade: str) -> None:
    """Refuse a schema of another version: a reader cannot bring it up to date. `upgrade` is the
    command that does."""
    if version > known:
        raise StoreError(
            f"{place}: its schema has version {version}, this headgate knows versions up to"
            f" {known}; upgrade headgate"
        )
    if version < known:
        raise StoreError(f"{place}: an older headgate wrote it; run `{upgrade}` of this one once")
