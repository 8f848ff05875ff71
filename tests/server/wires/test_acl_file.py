"""Users that last: in a file, or in a section of the configuration."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from headgate.core.model.limits import Limits
from headgate.errors import ConfigError
from headgate.server.config import load_config
from headgate.server.config.kinds import Secret
from headgate.server.config.sections import ListenResp
from headgate.server.wires.acl_file import FILE_BYTES, access_of
from tests.server.wires.test_resp import Start
from tests.server.wires.test_resp import start as start
from tests.support.repository import DOCS

OK = b"+OK\r\n"


def users(config: ListenResp, directory: Path) -> list[bytes]:
    return [bytes(user) for user in access_of(config, directory, Limits()).users()]


async def test_users_survive_a_restart_once_they_are_saved(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("user default on nopass ~* &* +@all\n")
    scene = await start(acl_file="users.acl")
    peer = await scene.dial()
    assert await peer.ask("ACL", "SETUSER", "bob", "on", ">pw", "+ping") == OK
    assert await peer.ask("ACL", "SAVE") == OK
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["users.acl"]
    await scene.close()
    again = await (await start(acl_file="users.acl")).dial()
    assert await again.ask("AUTH", "bob", "pw") == OK
    assert await again.ask("PING") == b"+PONG\r\n"
    assert (await again.ask("GET", "k")).startswith(b"-NOPERM")


async def test_a_file_that_was_edited_is_loaded(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("")
    peer = await (await start(acl_file="users.acl")).dial()
    path.write_text("user bob on >pw +ping\n")
    assert await peer.ask("ACL", "LOAD") == OK
    assert await peer.ask("AUTH", "bob", "pw") == OK


async def test_users_of_the_configuration_are_there_after_every_start(start: Start) -> None:
    users = {"bob": Secret("on >pw +ping"), "default": Secret("off")}
    peer = await (await start(users=users)).dial()
    assert (await peer.ask("PING")).startswith(b"-NOAUTH")
    assert await peer.ask("AUTH", "bob", "pw") == OK


def test_the_page_shows_what_can_be_used(tmp_path: Path) -> None:
    text = (DOCS / "users.md").read_text()
    (tmp_path / "password.txt").write_text("sesame\n")
    (tmp_path / "audit.rules").write_text("on >sesame &* +subscribe\n")
    (tmp_path / "users.acl").write_text("")
    found = []
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)):
        path = tmp_path / f"{number}.toml"
        path.write_text(block)
        listen = load_config(path, {}).listen.resp
        assert listen is not None
        found.append([line.split()[1] for line in users(listen, tmp_path)])
    assert found == [[b"default"], [b"audit", b"default", b"shop"]]


def test_a_list_that_does_not_speak_of_the_default_user_leaves_it_its_password(
    tmp_path: Path,
) -> None:
    (tmp_path / "users.acl").write_text("user bob on nopass\n")
    config = ListenResp(password=Secret("sesame"), acl_file="users.acl")
    access = access_of(config, tmp_path, Limits())
    assert access.entrant() is None
    assert access.authenticate(b"default", b"sesame") is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory; an empty file is a list without users"),
        ("user bob on +nope >sesame", "users.acl:1: Error in applying operation '+nope'"),
        ("user bob on sesame", "users.acl:1: Syntax error."),
        ("x" * (FILE_BYTES + 1), f"it is larger than {FILE_BYTES} bytes"),
    ],
)
def test_a_list_that_cannot_be_used_is_said_without_its_secrets(
    tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "users.acl").write_text(text)
    with pytest.raises(ConfigError) as caught:
        access_of(ListenResp(acl_file="users.acl"), tmp_path, Limits())
    assert said in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_rules_of_the_configuration_that_are_wrong_are_not_echoed(tmp_path: Path) -> None:
    config = ListenResp(users={"bob": Secret("on sesame")})
    with pytest.raises(
        ConfigError, match=r"listen\.resp\.users\.bob: is no list of rules"
    ) as caught:
        access_of(config, tmp_path, Limits())
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("rules", "is_safe"), [("on nopass +@all", False), ("off", True), ("resetpass >pw", True)]
)
def test_beyond_loopback_the_default_user_is_not_for_everybody(
    tmp_path: Path, rules: str, is_safe: bool
) -> None:
    config = ListenResp(host="0.0.0.0", users={"default": Secret(rules)})
    if is_safe:
        assert users(config, tmp_path)
        return
    with pytest.raises(ConfigError, match="the user default needs a password, or has to be off"):
        access_of(config, tmp_path, Limits())


async def test_a_folder_that_cannot_be_written_is_said_and_the_old_list_stays(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "acl").write_text("user bob on nopass\n")
    peer = await (await start(acl_file="users/acl")).dial()
    (folder / "acl").unlink()
    folder.rmdir()
    assert b"No such file or directory" in await peer.ask("ACL", "SAVE")
    assert b"No such file or directory" in await peer.ask("ACL", "LOAD")
    assert b"bob" in await peer.ask("ACL", "LIST")
