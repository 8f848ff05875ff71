"""``headgate cert``: certificates that end soon, and a new leaf under the same address."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.server.identity import Identity
from tests.support.certificates import make_certificate


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="headgate")


def test_a_certificate_that_ends_soon_is_found(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    Path("headgate.toml").write_text(
        '[listen.resp.tls]\ncertificate = "server.crt"\nkey = "server.key"\n'
    )
    soon = run("cert", "ls", "--json")
    assert soon.exit_code == 3
    [row] = [json.loads(line) for line in soon.stdout.splitlines()]
    assert (row["what"], row["state"]) == ("listen.resp", "ends in 2 days")
    assert run("cert", "ls", "--days", "1").exit_code == 0
    (tmp_path / "server.crt").write_text("no certificate")
    assert "cannot be read" in run("cert", "ls").stdout


def test_a_new_leaf_has_the_same_address(tmp_path: Path) -> None:
    Path("headgate.toml").write_text("[listen.smp]\n")
    address = run("init", "--host", "relay.example.org").stdout
    folder = tmp_path / "var" / "identity"
    before = Identity.load(folder, time.time())
    done = run("cert", "renew", "--json")
    assert done.exit_code == 0, done.output
    after = Identity.load(folder, time.time())
    assert after.chain[0] != before.chain[0]
    assert after.chain[1] == before.chain[1]
    assert run("init").stdout == address
    assert (folder / "server.key").stat().st_mode & 0o777 == 0o600


def test_a_leaf_is_signed_by_the_right_key_alone(tmp_path: Path) -> None:
    Path("headgate.toml").write_text("[listen.smp]\n")
    run("init")
    folder = tmp_path / "var" / "identity"
    before = Identity.load(folder, time.time())
    wrong = run("cert", "renew", "--ca-key", str(folder / "server.key"))
    assert wrong.exit_code == 1
    assert "is not the key of" in wrong.stderr
    kept = tmp_path / "kept.key"
    (folder / "ca.key").rename(kept)
    assert "cannot be read" in run("cert", "renew").stderr
    assert Identity.load(folder, time.time()).chain == before.chain
    assert run("cert", "renew", "--ca-key", str(kept)).exit_code == 0
