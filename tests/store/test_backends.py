"""Every kind of store is named, opened, locked and shown by its backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.server.config.kinds import StoreUrl
from headgate.store.backends import BACKENDS, Backend, backend_of, masked, open_outbox, open_store

URLS = {
    "memory": "memory:",
    "sqlite": "sqlite:queues.db",
    "postgresql": "postgresql://me:sesame@127.0.0.1/db",
}

each = pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.kind)


@each
def test_a_url_names_one_backend_whose_store_is_of_its_kind(
    backend: Backend, tmp_path: Path
) -> None:
    url = URLS[backend.kind]
    assert backend_of(url) is backend
    assert StoreUrl().read(url) == url
    assert backend.form in StoreUrl().form
    store = open_store(url, tmp_path)
    assert store.kind == backend.kind
    assert (store.source is None) is not backend.is_durable
    assert (backend.open_outbox is None) is (store.source is None)
    assert store.source is None or backend_of(store.source) is backend


def test_a_short_name_of_the_database_will_do() -> None:
    assert backend_of("postgres://HOST/db").kind == "postgresql"


@each
def test_no_password_is_shown(backend: Backend) -> None:
    assert "sesame" not in masked(URLS[backend.kind])
    assert masked(URLS[backend.kind]) == backend.shown(URLS[backend.kind])


@pytest.mark.parametrize("url", ["", "memory", "memory:x", "sqlite:", "mysql://me:sesame@host/db"])
def test_another_url_is_an_error_without_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not of a known form") as caught:
        open_store(url, tmp_path)
    assert "sesame" not in str(caught.value)


def test_only_a_file_of_this_machine_has_a_lock_beside_it(tmp_path: Path) -> None:
    locks = {b.kind: b.lock_file(URLS[b.kind], tmp_path) for b in BACKENDS}
    assert locks == {
        "memory": None,
        "sqlite": tmp_path / "queues.db.lock",
        "postgresql": None,
    }


async def test_the_lock_is_what_an_open_store_has(tmp_path: Path) -> None:
    url = URLS["sqlite"]
    store = open_store(url, tmp_path)
    await store.open()
    try:
        lock = backend_of(url).lock_file(url, tmp_path)
        assert lock is not None
        assert lock.exists()
        assert store.source is not None
        outbox = open_outbox(store.source)
        assert outbox.rows(0, 100, 100) == []
        outbox.close()
    finally:
        await store.close()
