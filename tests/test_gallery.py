"""The programs of ``examples/gallery``, as ``docs/gallery.md`` shows them, with one router."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from redis import Redis

from tests.support.repository import DOCS, ROOT
from tests.support.resp_servers import start_redis

GALLERY = ROOT / "examples" / "gallery"
PAGE = (DOCS / "gallery.md").read_text()
SHOWN = dict(re.findall(r"```console\n\$ python examples/gallery/(\S+) .*\n((?:.*\n)*?)```", PAGE))


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where a router with the gallery's configuration is, on ports that are free."""
    folder = tmp_path_factory.mktemp("gallery")
    ports = {f"HEADGATE_{name}__PORT": "0" for name in ("LISTEN__RESP", "LISTEN__BMQ", "ADMIN")}
    command: list[str | Path] = [
        Path(sys.executable).with_name("headgate"),
        "serve",
        "--ready-file",
        "ready",
    ]
    command += ["--config", GALLERY / "headgate.toml"]
    environ = os.environ | ports | {"HEADGATE_DIRECTORY": str(folder / "var")}
    with subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(600):
                if (folder / "ready").exists():
                    break
                time.sleep(0.1)
            listens = json.loads((folder / "ready").read_text())
            yield {
                "redis://127.0.0.1:6379": f"redis://{address(listens['resp'])}",
                "tcp://127.0.0.1:30114": f"tcp://{address(listens['bmq'])}",
                "var/journal": str(folder / "var" / "journal"),
            }
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def address(listener: dict[str, object]) -> str:
    return f"{listener['host']}:{listener['port']}"


def run(folder: Path, name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, GALLERY / name, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_program_is_on_the_page_and_the_other_way_round() -> None:
    programs = {path.name for path in GALLERY.glob("*.py")}
    assert set(SHOWN) == programs
    assert all(len((GALLERY / name).read_text().splitlines()) <= 60 for name in programs)


@pytest.mark.parametrize("name", sorted(set(SHOWN) - {"bridge.py", "change_feed.py"}))
def test_a_program_prints_what_the_page_says(
    router: dict[str, str], name: str, tmp_path: Path
) -> None:
    [where] = re.findall(rf"{name} (\S+)\n", PAGE)
    printed = run(tmp_path, name, router[where])
    if name == "chat.py":  # whose two listeners print in any order
        assert sorted(printed.splitlines()) == sorted(SHOWN[name].splitlines())
    else:
        assert printed == SHOWN[name]


def test_a_bridge_passes_on_what_is_published_at_a_redis_server(
    router: dict[str, str], tmp_path: Path
) -> None:
    new = router["redis://127.0.0.1:6379"]
    with (
        start_redis(tmp_path) as old,
        Redis(port=old.port) as there,
        Redis.from_url(new) as here,
        here.pubsub(ignore_subscribe_messages=True) as ears,
        subprocess.Popen(
            [sys.executable, GALLERY / "bridge.py", f"redis://127.0.0.1:{old.port}", new, "news.*"],
            stdout=subprocess.PIPE,
            text=True,
        ) as bridge,
    ):
        try:
            assert bridge.stdout is not None
            lines = [bridge.stdout.readline()]
            ears.subscribe("news.sport", "weather")
            ears.get_message(timeout=20)
            ears.get_message(timeout=20)
            there.publish("weather", "is not passed on")
            there.publish("news.sport", "three to two")
            lines.append(bridge.stdout.readline())
            heard = ears.get_message(timeout=20)
        finally:
            bridge.send_signal(signal.SIGINT)
        assert bridge.wait(60) == 0
    assert "".join(lines) == SHOWN["bridge.py"]
    assert heard is not None
    assert (heard["channel"], heard["data"]) == (b"news.sport", b"three to two")


def test_the_journal_becomes_a_file_of_orders(router: dict[str, str], tmp_path: Path) -> None:
    run(tmp_path, "fan_out.py", router["tcp://127.0.0.1:30114"])
    orders, printed = orders_of(router["var/journal"], tmp_path)
    assert printed == f"{orders.num_rows} orders in orders.parquet\n"
    assert len(set(orders["number"].to_pylist())) == orders.num_rows


def orders_of(journal: str, folder: Path) -> tuple[pa.Table, str]:
    """What the program makes of a journal, once both orders are there."""
    command: list[str | Path] = [
        sys.executable,
        GALLERY / "change_feed.py",
        journal,
        "orders.parquet",
    ]
    for _ in range(300):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode == 0:
            orders = pq.read_table(folder / "orders.parquet")
            amounts = {dict(row)["amount"]["i"] for row in orders["properties"].to_pylist()}
            if {2, 9000} <= amounts:
                return orders, done.stdout
        time.sleep(0.2)
    raise AssertionError(f"the orders did not come: {done.stderr}")
