"""Versions of a schema that can be read by somebody who only looks."""

from __future__ import annotations

from headgate.errors import StoreError


def check_viewed(place: str, version: int, known: int, upgrade: str) -> None:
    """Refuse a schema that is not the one that is known: nothing is written by who looks, so it
    cannot be brought up to date. `upgrade` is the command that does."""
    if version > known:
        raise StoreError(
            f"{place}: its schema has version {version}, this headgate knows versions up to"
            f" {known}; upgrade headgate"
        )
    if version < known:
        raise StoreError(f"{place}: an older headgate wrote it; run `{upgrade}` of this one once")
