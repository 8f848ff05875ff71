"""A survey of a database without changing it: its owner, and whether its server could lose
committed data."""

from __future__ import annotations

import psycopg

from headgate.errors import StoreError
from headgate.store.ownership import Survey
from headgate.store.postgres.advice import describe
from headgate.store.postgres.database import OPTIONS, OWNER, options
from headgate.store.postgres.schema import ROUTER
from headgate.store.urls import without_secrets

STATEMENT_MILLISECONDS = 10_000

SETTINGS = """
SELECT name, setting FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')
"""

KNOWN = "SELECT fingerprint FROM {schema}.owners WHERE shard = 0"


def survey(url: str, *, has_standby: bool) -> Survey:
    """Survey a database. If a router waits to take it over, the loss of the database's own machine
    is worth a warning, too."""
    name, given = without_secrets(url), options(url)
    try:
        with psycopg.connect(**(OPTIONS | given), autocommit=True) as db:
            limit = "SELECT set_config('statement_timeout', %s, false)"
            db.execute(limit, (str(STATEMENT_MILLISECONDS),))
            owners = db.execute(OWNER, (ROUTER.key, 0)).fetchall()
            made = f"SELECT to_regclass('{ROUTER.schema}.owners') IS NOT NULL"
            known = []
            if db.execute(made).fetchall() == [(True,)]:
                known = db.execute(KNOWN.format(schema=ROUTER.schema)).fetchall()
            settings: dict[str, str] = dict(db.execute(SETTINGS).fetchall())
    except psycopg.Error as error:
        raise StoreError(describe(name, error)) from error
    is_replicated = has_standby or "," in str(given.get("host", ""))
    return Survey(
        owner=str(owners[0][0] or "a connection of another role") if owners else None,
        fingerprint=known[0][0] if known else None,
        warnings=tuple(warnings(settings, is_replicated=is_replicated)),
    )


def warnings(settings: dict[str, str], *, is_replicated: bool) -> list[str]:
    """Settings by which the server could lose committed data."""
    found = [
        f"{name} is off: if the server's machine dies, what was accepted is lost"
        for name in ("fsync", "full_page_writes")
        if settings.get(name) == "off"
    ]
    names, commit = settings.get("synchronous_standby_names"), settings.get("synchronous_commit")
    if is_replicated and not names:
        found.append(
            "synchronous_standby_names is empty: if the server's machine is lost, a replica of it"
            " may lack what was accepted last"
        )
    if names and commit in ("off", "local"):
        found.append(
            f"synchronous_commit is {commit}: commits do not wait for a replica, which may lack"
            " what was accepted last; set it to on"
        )
    return found
