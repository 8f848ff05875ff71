"""A look into the records, beside a server that uses them."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.errors import ConfigError, StoreError
from headgate.ntf_server.records import Records, subscriptions, tokens
from headgate.ntf_server.records.audit import audit
from headgate.ntf_server.records.tables import IDS
from headgate.ntf_server.records.view import view
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.statuses import TokenStatus
from tests.support.ntf_tokens import token_in

OWNER = token_in(TokenStatus.ACTIVE)


@pytest.fixture
async def records(store: str, tmp_path: Path) -> AsyncIterator[Records]:
    async with await Records.open(store, tmp_path) as records:
        yield records


async def test_what_is_stored_is_seen_while_a_server_has_it(
    records: Records, store: str, tmp_path: Path
) -> None:
    await records.write(tokens.put, OWNER)
    with view(store, tmp_path) as tables:
        assert tokens.get(tables, OWNER.id) == OWNER
        assert tokens.counts_by_provider(tables) == {(Provider.APNS_TEST, TokenStatus.ACTIVE): 1}
        assert subscriptions.counts_by_router(tables) == {}
        assert audit(tables) == []
        found = tables.ask_about(f"SELECT id FROM tokens WHERE id {IDS}", [OWNER.id, b"x"])
        assert [bytes(id) for (id,) in found] == [OWNER.id]
        await records.write(tokens.remove, OWNER.id)
        assert tokens.get(tables, OWNER.id) == OWNER, "it is one moment"
    with view(store, tmp_path) as tables:
        assert tokens.get(tables, OWNER.id) is None


def test_a_store_that_nobody_made_is_not_made(store: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="headgate ntf serve"), view(store, tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


async def test_a_file_of_another_program_or_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ntf.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE notes (text)")
    with pytest.raises(StoreError, match="no file of a not"), view("sqlite:ntf.db", tmp_path):
        pass
    path.unlink()
    async with await Records.open("sqlite:ntf.db", tmp_path):
        pass
    for version, advice in ((1, "an older headgate wrote it"), (99, "upgrade headgate")):
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(StoreError, match=advice), view("sqlite:ntf.db", tmp_path):
            pass


def test_a_url_of_no_known_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError), view("memory:", tmp_path):
        pass


def test_a_database_that_is_away_is_one_error(tmp_path: Path) -> None:
    url = "postgresql://me:sesame@127.0.0.1:1/nothing"
    with pytest.raises(StoreError, match="cannot be reached") as error, view(url, tmp_path):
        pass
    assert "sesame" not in str(error.value)
