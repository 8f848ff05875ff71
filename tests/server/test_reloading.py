from __future__ import annotations

from pathlib import Path

import pytest

from headgate.server.config import load_config
from headgate.server.reloading import waits_for_restart


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ('[listen.bmq.clients]\nshop = "{}"\n', "listen.bmq.clients"),
        ('[listen.resp.users]\nbob = "on >{} +@all"\n', "listen.resp.users"),
        ('[listen.resp]\npassword = "{}"\n', "listen.resp.password"),
        ('[smp]\ncreate_password = "{}"\n', "smp.create_password"),
        ('[admin]\ntoken = "{}"\n', "admin.token"),
    ],
)
def test_every_secret_that_was_changed_waits_for_a_restart(
    tmp_path: Path, section: str, key: str
) -> None:
    """Entries do not show secrets, and so do not differ."""
    configs = []
    for secret in ("sesame", "sesame", "open"):
        path = tmp_path / "headgate.toml"
        path.write_text(section.format(secret))
        configs.append(load_config(path, {}))
    assert waits_for_restart(configs[0], configs[1]) == []
    assert waits_for_restart(configs[1], configs[2]) == [key]


def test_the_mode_of_a_domain_waits_for_a_restart_and_what_else_it_has_does_not(
    tmp_path: Path,
) -> None:
    """That of a new domain does not wait either."""
    configs = []
    for text in (
        '[domains.work]\nmode = "priority"\n',
        '[domains.work]\nmode = "broadcast"\nmax_messages = 5\n[domains.more]\nmode = "fanout"\n'
        'apps = ["a"]\n',
    ):
        path = tmp_path / "headgate.toml"
        path.write_text(text)
        configs.append(load_config(path, {}))
    assert waits_for_restart(*configs) == ["domains.work.mode"]
