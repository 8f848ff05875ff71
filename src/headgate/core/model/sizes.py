"""Sizes as people read them."""

from __future__ import annotations


def in_bytes(size: float) -> str:
    """A size for people: ``512 B``, ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
