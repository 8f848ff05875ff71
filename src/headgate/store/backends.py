"""The backends of stores: how each is named by a URL, opened, locked and displayed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import ConfigError
from headgate.store.base import Outbox, Store
from headgate.store.memory import MemoryStore
from headgate.store.ownership import Ownership, Survey
from headgate.store.sqlite import SqliteOutbox, SqliteStore
from headgate.store.sqlite.file import lock_of
from headgate.store.urls import without_secrets

ROUTER_SCHEMA = "headgate"
"""The schema of a database in which a router has its tables."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of store. Code that depends on the place of a store uses the backend of its URL."""

    kind: str
    """The kind of its stores."""
    form: str
    """The form of its URL, for people."""
    pattern: str
    """The pattern that its URL matches."""
    is_durable: bool
    """Whether its data outlives the router's process."""
    open_store: Callable[[str, Path, Ownership | None], Store]
    """Makes the store of a URL, not opened yet. A file is relative to the state directory. With an
    ownership it waits for other routers, and they for it."""
    survey: Callable[[str, bool], Survey] | None
    """Surveys it from outside, given whether another router waits for it; None if no other machine
    can reach it."""
    open_outbox: Callable[[str, str], Outbox] | None
    """Opens the outbox of `Store.source` for another process, with its schema if it is in a
    database; None if there is none."""
    file: Callable[[str, Path], Path | None]
    """The file of a URL, if it is one on this machine."""
    shown: Callable[[str], str]
    """The URL without secrets."""

    @property
    def is_shared(self) -> bool:
        """Whether routers can take it over from one another."""
        return self.survey is not None

    def lock_file(self, url: str, directory: Path) -> Path | None:
        """The file that a router locks while it uses the store, if there is one."""
        file = self.file(url, directory)
        return None if file is None else lock_of(file)


def _path(url: str, directory: Path = Path()) -> Path:
    return directory / url.partition(":")[2]


def _postgres_store(url: str, directory: Path, ownership: Ownership | None) -> Store:
    try:
        from headgate.store.postgres import PostgresStore
    except ImportError as error:
        raise ConfigError(
            f"store {without_secrets(url)!r}: psycopg is missing ({error});"
            " install it with: pip install 'headgate[postgres]'"
        ) from error
    return PostgresStore(url, ownership=ownership)


def _postgres_survey(url: str, has_standby: bool) -> Survey:
    from headgate.store.postgres.survey import survey

    return survey(url, has_standby=has_standby)


def _postgres_outbox(url: str, schema: str) -> Outbox:
    from headgate.store.postgres import PostgresOutbox  # psycopg is optional

    return PostgresOutbox(url, schema)


MEMORY = Backend(
    kind="memory",
    form='"memory:"',
    pattern=r"memory:",
    is_durable=False,
    open_store=lambda url, directory, ownership: MemoryStore(),
    survey=None,
    open_outbox=None,
    file=lambda url, directory: None,
    shown=str,
)
SQLITE = Backend(
    kind="sqlite",
    form='"sqlite:FILE"',
    pattern=r"sqlite:[^\x00-\x1f\ud800-\udfff]+",
    is_durable=True,
    open_store=lambda url, directory, ownership: SqliteStore(_path(url, directory)),
    survey=None,
    open_outbox=lambda url, schema: SqliteOutbox(_path(url)),
    file=_path,
    shown=str,
)
POSTGRES = Backend(
    kind="postgresql",
    form='"postgresql://USER@HOST/DATABASE"',
    pattern=r"postgres(?:ql)?://[^\x00-\x20\x7f\ud800-\udfff]*",
    is_durable=True,
    open_store=_postgres_store,
    survey=_postgres_survey,
    open_outbox=_postgres_outbox,
    file=lambda url, directory: None,
    shown=without_secrets,
)

BACKENDS: tuple[Backend, ...] = (MEMORY, SQLITE, POSTGRES)

FORMS = f"{', '.join(backend.form for backend in BACKENDS[:-1])} or {BACKENDS[-1].form}"
PATTERN = "|".join(backend.pattern for backend in BACKENDS)
"""A pattern for all URLs of the known forms."""


def backend_of(url: str) -> Backend:
    """The backend that a URL names."""
    found = _found(url)
    if found is None:
        raise ConfigError(f"store {masked(url)!r} is not of a known form: {FORMS}")
    return found


def _found(url: str) -> Backend | None:
    return next((each for each in BACKENDS if re.fullmatch(each.pattern, url)), None)


def open_store(url: str, directory: Path, ownership: Ownership | None = None) -> Store:
    """The store that a URL names, not opened yet. A relative FILE is below the directory; its
    folders are made when the store is opened."""
    return backend_of(url).open_store(url, directory, ownership)


def open_outbox(url: str, schema: str = ROUTER_SCHEMA) -> Outbox:
    """Open the outbox that `Store.source` names."""
    backend = backend_of(url)
    assert backend.open_outbox is not None, "a store without an outbox has no source"
    return backend.open_outbox(url, schema)


def masked(url: str) -> str:
    """The URL without secrets. One of an unknown form may have a password in it, too."""
    found = _found(url)
    return without_secrets(url) if found is None else found.shown(url)
