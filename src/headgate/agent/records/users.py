"""Users of an agent: each has sessions and services of its own."""

from __future__ import annotations

from headgate.agent.model import UserId
from headgate.agent.records.database import Database
from headgate.core.model.value import value


@value
class User:
    """A user. Services are set when it is made, and may be switched."""

    id: UserId
    services: bool


def add(tables: Database, *, services: bool = False) -> UserId:
    # S004-22: a user may have services from the beginning.
    return tables.insert("INSERT INTO users (services) VALUES (?)", services)


def get(tables: Database, user: UserId) -> User | None:
    row = tables.one("SELECT id, services FROM users WHERE id = ?", user)
    return None if row is None else User(row[0], bool(row[1]))


def everyone(tables: Database) -> list[User]:
    """All users; there are few."""
    return [User(id, bool(on)) for id, on in tables.ask("SELECT * FROM users ORDER BY id")]


def switch_services(tables: Database, user: UserId, *, on: bool) -> None:
    """Change only the setting; `services.switch_off` removes the records too."""
    tables.change("UPDATE users SET services = ? WHERE id = ?", on, user)
