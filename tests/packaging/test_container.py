"""The container file and the compose file, as far as they can be judged by reading them."""

from __future__ import annotations

import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from headgate.server.config import load_config
from headgate.server.wires.all_wires import WIRES
from tests.support.packages import PACKAGING

PLACE = PACKAGING / "container"
COMPOSE: dict[str, Any] = yaml.safe_load((PACKAGING / "compose" / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, as words and what follows them."""
    text = re.sub(r"^#.*\n", "", (PLACE / "Dockerfile").read_text(), flags=re.M)
    lines = text.replace("\\\n", " ").splitlines()
    found: list[list[tuple[str, str]]] = []
    for line in filter(None, (line.strip() for line in lines)):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest.strip()))
    return found


def test_two_stages_and_only_the_first_installs() -> None:
    build, final = stages()
    assert any("pip install --no-index" in rest for _, rest in build)
    assert any("pip uninstall" in rest for _, rest in build)
    assert not any("pip" in rest for word, rest in final if word == "RUN")


def test_the_last_stage_is_not_root_and_says_how_it_ends_and_is_looked_at() -> None:
    words = dict(stages()[-1])
    assert words["USER"] == "10001:10001"
    assert words["STOPSIGNAL"] == "SIGTERM"
    assert words["VOLUME"] == "/var/lib/headgate"
    assert "healthcheck.py" in words["HEALTHCHECK"]
    assert words["ENTRYPOINT"] == '["headgate"]'
    assert not any(word == "ADD" for word, _ in stages()[-1])


def test_what_apt_leaves_behind_is_removed() -> None:
    for _, rest in stages()[-1]:
        if "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists/*" in rest


def test_it_names_every_port(tmp_path: Path) -> None:
    path = tmp_path / "headgate.toml"
    path.write_text("".join(f"[listen.{wire.name}]\n" for wire in WIRES))
    config = load_config(path, {})
    ports = {each.port for each in config.listen.each().values()} | {config.admin.port}
    assert {int(port) for port in dict(stages()[-1])["EXPOSE"].split()} == ports


def test_its_configuration_is_right_and_reached_from_outside() -> None:
    config = load_config(PLACE / "headgate.toml", {})
    assert config.warnings == ()
    assert {each.host for each in config.listen.each().values()} == {"0.0.0.0"}


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_the_admin_port(status: int, code: int) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.handle_request).start()
        assert run_health_check(server.server_port).returncode == code


def test_the_health_check_says_that_nobody_answers() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_port
    done = run_health_check(port)
    assert done.returncode == 1
    assert "does not answer" in done.stderr


def run_health_check(port: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PLACE / "healthcheck.py"],
        env={"HEADGATE_ADMIN__PORT": str(port)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_everything_of_compose_is_on_loopback_and_can_do_little() -> None:
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])


def test_secrets_of_compose_are_files() -> None:
    assert {name: each["file"] for name, each in COMPOSE["secrets"].items()} == {
        name: f"./secrets/{name}" for name in ("admin-token", "resp-password", "grafana-password")
    }
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("TOKEN|PASSWORD", name):
                assert "/run/secrets/" in value


def test_every_file_that_compose_mounts_is_there() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service["volumes"]]
    files = [mount.partition(":")[0] for mount in mounts if mount.startswith(".")]
    assert len(files) == 5
    assert [name for name in files if not (PACKAGING / "compose" / name).is_file()] == []
    assert {m.partition(":")[0] for m in mounts if not m.startswith(".")} == set(COMPOSE["volumes"])


def test_the_router_of_compose_starts_with_its_variables(tmp_path: Path) -> None:
    environment: dict[str, str] = SERVICES["headgate"]["environment"]
    for name in COMPOSE["secrets"]:
        (tmp_path / name).write_text("a secret of some length\n")
    environ = {k: v.replace("/run/secrets", str(tmp_path)) for k, v in environment.items()}
    config = load_config(PLACE / "headgate.toml", environ)
    published = {int(port.split(":")[1]) for port in SERVICES["headgate"]["ports"]}
    assert published == {each.port for each in config.listen.each().values()} | {config.admin.port}
    scraped = yaml.safe_load((PACKAGING / "compose" / "prometheus.yml").read_text())
    [target] = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target == f"{config.admin.names[0]}:{config.admin.port}"
