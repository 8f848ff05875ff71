"""State directory: where a router of a configuration keeps its store and its journal.

`serve` opens what is there; commands that ask about a router look here without one that runs.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from headgate.errors import ConfigError
from headgate.journal.sealer_process import JournalSettings
from headgate.server.config import Config
from headgate.server.config.sections import ServerConfig
from headgate.store import backends
from headgate.store.backends import backend_of
from headgate.store.base import Store
from headgate.store.ownership import Ownership
from headgate.store.private import FOLDER


def open_store(config: Config, ownership: Ownership | None = None) -> Store:
    """The store of a configuration, not opened yet."""
    return backends.open_store(config.store.url, config.directory, ownership)


def database(config: Config) -> Path | None:
    """The file of the store, if it has one."""
    return backend_of(config.store.url).file(config.store.url, config.directory)


def is_durable(config: Config) -> bool:
    """Whether anything outlives the router's process."""
    return backend_of(config.store.url).is_durable


def journal_settings(config: Config) -> JournalSettings | None:
    """Where and how the journal of a configuration is kept, if it is."""
    journal = config.journal
    if not journal.enabled or not is_durable(config):
        return None
    return JournalSettings(
        directory=config.directory / journal.directory,
        segment_bytes=journal.segment_size,
        keep_seconds=journal.keep,
        keep_bytes=journal.max_bytes,
    )


def is_running(config: Config) -> bool:
    """Whether a router holds the lock beside the database."""
    path = backend_of(config.store.url).lock_file(config.store.url, config.directory)
    return path is not None and is_locked(path)


def is_locked(path: Path) -> bool:
    """Whether the lock file of a database is held."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def make_directory(config: ServerConfig) -> None:
    """Make the state directory, and see whether it can be written."""
    folder = config.directory
    try:
        folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"the state directory {folder} cannot be written: {error.strerror};"
            " change its rights, or set directory in the configuration"
        ) from error
