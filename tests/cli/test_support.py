"""``headgate support``: everything that helps, and nothing that is secret."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.cli.live.support import PAGES, without_messages
from tests.support.cli_router import OPERATOR, PASSWORD, TOKEN, CliRouter, cli_router


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


def test_the_tar_has_no_secrets_and_no_messages(router: CliRouter, tmp_path: Path) -> None:
    path = tmp_path / "support.tar.gz"
    done = router.run("support", "--out", str(path), "--json")
    assert done.exit_code == 0, done.output
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as tar:
        texts = {}
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            texts[member.name.removeprefix("headgate-support/")] = file.read().decode()
    assert set(texts) == {*PAGES, "version.json", "metrics.txt"}
    for name, text in texts.items():
        for secret in (TOKEN, OPERATOR, PASSWORD, "a body", '"express"'):
            assert secret not in text, (name, secret)
    assert "error" not in json.loads(texts["settings.json"])
    assert "listener" in texts["sessions.json"]
    assert "headgate_sessions" in texts["metrics.txt"]
    again = router.run("support", "--out", str(path))
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)


def test_what_may_be_of_messages_is_left_out_at_every_depth() -> None:
    assert without_messages([{"a": {"body": "x", "b": [{"properties": {}, "c": 1}]}}]) == [
        {"a": {"b": [{"c": 1}]}}
    ]
