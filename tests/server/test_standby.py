"""What a router brings to a store that another may have: its address, and how far the store was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.server import identity
from headgate.server.config import Config, load_config
from headgate.server.identity import Identity
from headgate.server.standby import FILE, identify, keep_mark, known_mark, ownership_of

STORE = """\
directory = "state"
[store]
url = "postgresql://me:sesame@localhost/x"
standby = {standby}
owner_timeout = "{timeout}"
{rest}
"""
SMP = "[listen.smp]\nport = 0"


def config_in(
    folder: Path, *, standby: str = "true", timeout: str = "3s", rest: str = SMP
) -> Config:
    path = folder / "headgate.toml"
    path.write_text(STORE.format(standby=standby, timeout=timeout, rest=rest))
    config = load_config(path, {})
    config.directory.mkdir(exist_ok=True)
    return config


def made(config: Config) -> bytes:
    folder = config.directory / config.smp.identity
    identity.make(folder, "localhost", time.time())
    return Identity.load(folder, time.time()).fingerprint


def test_a_router_that_waits_for_nobody_has_no_ownership(tmp_path: Path) -> None:
    assert ownership_of(config_in(tmp_path, standby="false")) is None


def test_the_timeout_is_that_of_the_configuration(tmp_path: Path) -> None:
    ownership = ownership_of(config_in(tmp_path, timeout="4s"))
    assert ownership is not None
    assert ownership.timeout == 4.0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("postgresql://me:sesame@localhost/x", "sqlite:x.db", "store.standby"),
        ("3s", "500ms", "store.owner_timeout"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    path = tmp_path / "headgate.toml"
    path.write_text(STORE.format(standby="true", timeout="3s", rest="").replace(old, new))
    with pytest.raises(ConfigError, match=told):
        load_config(path, {})


def test_the_first_owner_makes_the_identity_that_all_have(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    found = identify(config, None, True)
    assert found == Identity.load(config.directory / "identity", time.time()).fingerprint
    assert identify(config, found, False) == found


def test_another_identity_than_clients_know_is_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    own = made(config)
    with pytest.raises(ConfigError, match="Copy the folder from the other router"):
        identify(config, own[::-1], False)


def test_who_has_no_identity_makes_none_if_clients_know_one(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with pytest.raises(ConfigError, match=r"identity is missing") as caught:
        identify(config, bytes(32), True)
    assert "sesame" not in str(caught.value)
    assert not (config.directory / "identity").exists()


def test_without_smp_the_address_is_left_as_it_is(tmp_path: Path) -> None:
    assert identify(config_in(tmp_path, rest=""), b"known", True) == b"known"


def test_how_far_a_database_was_is_kept_for_that_database(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    assert known_mark(config) == 0
    keep_mark(config, 41)
    keep_mark(config, 42)
    assert known_mark(config) == 42
    assert "sesame" not in (config.directory / FILE).read_text()
    assert (config.directory / FILE).stat().st_mode & 0o077 == 0
    path = tmp_path / "headgate.toml"
    path.write_text(path.read_text().replace("localhost/x", "localhost/y"))
    assert known_mark(load_config(path, {})) == 0
    (config.directory / FILE).write_text("{")
    assert known_mark(config) == 0
