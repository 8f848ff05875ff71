"""The certificate of a service, and secrets that are not shown."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path

import pytest

from headgate.client.smp import requests
from headgate.client.smp.recipient import Queue, make_key, spki
from headgate.client.smp.service import make_service
from headgate.client.smp.tls import as_file, pem, tls_context
from headgate.wire.smp.codec.replies import Ids


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files without a place of their own go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files in memory")
def test_a_private_key_is_not_written_to_a_disk(folder: Path) -> None:
    with as_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert Path(path).read_bytes() == b"secret"
        assert list(folder.iterdir()) == []
    assert not Path(path).exists()


def test_elsewhere_it_is_in_a_file_that_nobody_else_may_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with as_file(b"secret") as path:
        assert [str(file) for file in folder.iterdir()] == [path]
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert Path(path).read_bytes() == b"secret"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_context_with_the_certificate_of_a_service(
    folder: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    tls_context(make_service(time.time()))
    after = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    assert after == before
    assert list(folder.iterdir()) == []


def test_no_secret_is_shown() -> None:
    raw, service = make_key("x25519"), make_service(time.time())
    assert isinstance(raw, bytes)
    new = requests.new_queue(raw, notifier_key=raw)
    ids = Ids(b"recipient", b"sender", spki(b"d" * 32))
    queue = Queue(ids, raw, b"the secret of the queue", raw, b"the secret of notices")
    for shown in (repr(new), repr(requests.subscribe(b"id", raw)), repr(queue), repr(service)):
        assert repr(raw) not in shown
        assert "secret of" not in shown
        assert "PrivateKey" not in shown
    assert repr(new.dh) not in repr(new)
    assert pem(service).startswith(b"-----BEGIN PRIVATE KEY-----")
