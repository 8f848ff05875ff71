"""The store that a command is about."""

from __future__ import annotations

from pathlib import Path

from headgate.errors import StoreError
from headgate.store.backends import backend_of, open_store
from headgate.store.base import Store


def existing(url: str, directory: Path) -> Store:
    """The store of a URL, not opened yet; a file that is not there is not made."""
    file = backend_of(url).file(url, directory)
    if file is not None and not file.exists():
        raise StoreError(
            f"{file}: there is no such file; a store's file is relative to the state directory"
        )
    return open_store(url, directory)
