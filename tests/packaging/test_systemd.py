"""The unit and its sockets: systemd accepts them, and rates the unit as well protected."""

from __future__ import annotations

import re
import shutil
from configparser import RawConfigParser
from pathlib import Path

import pytest

from headgate.server.config import load_config
from headgate.server.wires.all_wires import WIRES
from tests.support.packages import PACKAGING, program, run
from tools.packages.unit_trial import command, settings

FOLDER = PACKAGING / "systemd"
SOCKETS = sorted(FOLDER.glob("*.socket"))
MOST_EXPOSED = 1.5
"""Of 10, as systemd-analyze counts."""


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units with a program that is there."""
    folder = tmp_path / "units"
    shutil.copytree(FOLDER, folder)
    service = folder / "headgate.service"
    text = service.read_text().replace("/opt/headgate/bin/headgate", "/bin/true")
    version = int(run(program("systemd-analyze", "systemd"), "--version").split()[1])
    if version >= 253:
        shutil.rmtree(folder / "headgate.service.d")
    else:  # what the drop-in takes the place of is not known to it
        text = text.replace("Type=notify-reload\n", "")
    service.write_text(text)
    return folder


def test_systemd_accepts_the_units(units: Path) -> None:
    analyze = program("systemd-analyze", "systemd")
    files = [units / "headgate.service", *(units / each.name for each in SOCKETS)]
    printed = run("env", f"SYSTEMD_UNIT_PATH={units}:", analyze, "verify", "--man=no", *files)
    assert str(units) not in printed


def test_the_unit_is_well_protected(units: Path) -> None:
    analyze = program("systemd-analyze", "systemd")
    unit = units / "headgate.service"
    printed = run(analyze, "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for headgate.service: ([\d.]+)", printed)
    assert found is not None, printed
    assert float(found[1]) <= MOST_EXPOSED


def test_there_is_a_socket_for_everything_that_listens(tmp_path: Path) -> None:
    """By the name that a listener takes it under, where the configuration listens by default."""
    path = tmp_path / "headgate.toml"
    path.write_text("".join(f"[listen.{wire.name}]\n" for wire in WIRES))
    config = load_config(path, {})
    expected = {"admin": (config.admin.host, config.admin.port)}
    expected |= {name: (each.host, each.port) for name, each in config.listen.each().items()}
    found = {}
    for path in SOCKETS:
        unit = RawConfigParser()
        unit.read_string(path.read_text())
        host, _, port = unit["Socket"]["ListenStream"].rpartition(":")
        found[unit["Socket"]["FileDescriptorName"]] = (host, int(port))
        assert path.stem == f"headgate-{unit['Socket']['FileDescriptorName']}"
        assert unit["Socket"]["Service"] == "headgate.service"
    assert found == expected


def test_the_drop_in_takes_the_place_of_what_older_systemd_does_not_know() -> None:
    assert "\nType=notify-reload\n" in (FOLDER / "headgate.service").read_text()
    drop_in = (FOLDER / "headgate.service.d" / "before-253.conf").read_text()
    assert "\nType=notify\n" in drop_in
    assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in drop_in


def test_the_trial_starts_the_very_command_of_the_unit() -> None:
    """`make unit` reads the unit, so what it shows is about what is shipped."""
    unit = settings((FOLDER / "headgate.service").read_text())
    words = command(unit)
    assert " ".join(words[-4:]) == unit["ExecStart"][0]
    assert "HEADGATE_DIRECTORY=/var/lib/headgate" in words
    assert "HEADGATE_ADMIN__TOKEN=file:/run/credentials/headgate.service/admin-token" in words
    assert "WATCHDOG_USEC=20000000" in words
    assert words.index("setpriv") < words.index("env")
