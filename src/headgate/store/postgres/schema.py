"""A schema of a database: its owner, and its migrations."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import psycopg

from headgate.errors import StoreError

KEY = 0x48474154
"""The first half of a router's locks; the other is the shard of a connection."""

MIGRATING = -1
"""In place of a shard: shards start at the same time, and one of them makes the tables."""


@dataclass(frozen=True)
class SchemaOwner:
    """The kind of program that a schema belongs to."""

    name: str
    schema: str
    key: int
    """The first half of its locks."""
    package: str
    """The package with its folder of migrations."""


ROUTER = SchemaOwner("router", "headgate", KEY, "headgate.store")


def migrations(owner: SchemaOwner = ROUTER) -> list[tuple[int, str]]:
    """The steps from an empty schema to the newest: version and script, in order."""
    folder = resources.files(owner.package) / "migrations"
    return sorted(
        (int(file.name[:4]), file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".postgres.sql")
    )


def prepare(
    db: psycopg.Connection[tuple[Any, ...]], name: str, shard: int, owner: SchemaOwner = ROUTER
) -> None:
    """Bring the schema up to date, all steps in one transaction, and make a mark for the shard."""
    steps = migrations(owner)
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s::int4, %s::int4)", (owner.key, MIGRATING))
        version = _version(db, name, owner.schema)
        newest = steps[-1][0]
        if version > newest:
            raise StoreError(
                f"{name}: its schema has version {version}, this headgate knows versions"
                f" up to {newest}; upgrade headgate"
            )
        for step, script in steps:
            if step > version:
                db.execute(script)
                db.execute("DELETE FROM version")
                db.execute("INSERT INTO version (number) VALUES (%s)", (step,))
        mark = "INSERT INTO marks (shard, number) VALUES (%s, 0) ON CONFLICT DO NOTHING"
        db.execute(mark, (shard,))


def _version(db: psycopg.Connection[tuple[Any, ...]], name: str, schema: str) -> int:
    """The version of the schema. An empty one may have been made for us by an administrator."""
    if db.execute(f"SELECT to_regclass('{schema}.version')").fetchall() != [(None,)]:
        number: int = db.execute("SELECT max(number) FROM version").fetchall()[0][0]
        return number
    if db.execute(f"SELECT to_regnamespace('{schema}')").fetchall() == [(None,)]:
        db.execute(f"CREATE SCHEMA {schema}")
    used = f"SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('{schema}') LIMIT 1"
    if db.execute(used).fetchall():
        raise StoreError(
            f"{name}: its schema {schema} is of another program; name another database"
        )
    return 0
