from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.server.admin import tokens
from headgate.server.config import Config, load_config


def load(folder: Path, **environ: str) -> Config:
    return load_config(None, {"HEADGATE_DIRECTORY": str(folder / "state"), **environ})


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    config = load(tmp_path)
    before = os.umask(0)
    try:
        with tokens.kept(config, lasts=True) as one:
            pass
    finally:
        os.umask(before)
    assert one.file == tmp_path / "state" / "admin.token"
    assert one.file.stat().st_mode & 0o777 == 0o600
    assert one.file.parent.stat().st_mode & 0o777 == 0o700
    with tokens.kept(config, lasts=True) as two:
        assert two == one
    assert os.listdir(one.file.parent) == ["admin.token"]


def test_a_router_makes_its_own_where_a_machine_died_writing_it(tmp_path: Path) -> None:
    config = load(tmp_path)
    config.directory.mkdir()
    (config.directory / "admin.token").touch()
    with tokens.kept(config, lasts=True) as made:
        assert len(made.text) >= 32


def test_of_two_routers_one_removes_what_it_made(tmp_path: Path) -> None:
    config = load(tmp_path)
    with tokens.kept(config, lasts=False) as first:
        with tokens.kept(config, lasts=False) as second:
            assert second == first
        assert tokens.found(config, "http://127.0.0.1:8222") == first.text
    assert not config.directory.exists()


def test_a_token_that_cannot_be_kept_is_said_in_one_line(tmp_path: Path) -> None:
    config = load(tmp_path)
    config.directory.write_text("a file")
    with pytest.raises(ConfigError, match=r"or set admin\.token"), tokens.kept(config, lasts=True):
        pass


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("http://127.0.0.1:8222", True),
        ("http://localhost:1", True),
        ("http://[::1]:8222", True),
        ("http://10.0.0.1:8222", False),
        ("http://evil.example:8222", False),
        ("http://[", False),
    ],
)
def test_the_token_of_the_state_directory_is_not_for_strangers(
    tmp_path: Path, url: str, is_told: bool
) -> None:
    config = load(tmp_path)
    assert tokens.found(config, url) is None
    with tokens.kept(config, lasts=True) as token:
        assert tokens.found(config, url) == (token.text if is_told else None)


def test_a_named_file_is_first_and_the_configuration_second(tmp_path: Path) -> None:
    config = load(tmp_path, HEADGATE_ADMIN__TOKEN="configured")
    file = tmp_path / "file"
    with pytest.raises(ConfigError, match="cannot be read from"):
        tokens.found(config, "http://h:1", file)
    file.write_text("named\n")
    assert tokens.found(config, "http://h:1", file) == "named"
    assert tokens.found(config, "http://h:1") == "configured"
