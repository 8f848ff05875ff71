"""A router process of the tests' own, and what its admin port says."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.strangers.bmq_model import FANOUT, Domain

START = 60.0
"""Seconds that the router may take to start."""


def configuration(domains: Iterable[Domain], limits: dict[str, int]) -> str:
    lines = [
        'directory = "state"',
        "[store]",
        'url = "memory:"',
        "[listen.bmq]",
        "port = 0",
        "heartbeat = 0",
        "[admin]",
        "port = 0",
        "[log]",
        'level = "warning"',
        'format = "text"',
        "[limits]",
        *(f"{name} = {value}" for name, value in limits.items()),
    ]
    for domain in domains:
        lines += [
            f"[domains.{json.dumps(domain.name)}]",
            f'mode = "{domain.mode}"',
            f"max_messages = {domain.max_messages}",
            f"max_bytes = {domain.max_bytes}",
            f"domain_max_messages = {domain.total}",
            f"max_delivery_attempts = {domain.attempts}",
            f"max_consumers = {domain.consumers}",
            "max_queues = 0",
            "suspicious_delay_low = 0",
            "suspicious_delay_high = 0",
        ]
        if domain.mode == FANOUT:
            lines.append(f"apps = {json.dumps(domain.apps)}")
        filters = ", ".join(
            f"{json.dumps(app)} = {json.dumps(texts)}" for app, texts in domain.filters.items()
        )
        lines.append(f"subscriptions = {{ {filters} }}")
    return "\n".join(lines) + "\n"


class Router:
    """``headgate serve`` with a store that forgets, on ports of its choice."""

    def __init__(self, domains: Iterable[Domain], limits: dict[str, int] | None = None) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="headgate-strangers-")
        root = Path(self._directory.name)
        (root / "router.toml").write_text(configuration(domains, limits or {}))
        self._log = (root / "log").open("wb")
        self._process = subprocess.Popen(
            [
                Path(sys.executable).with_name("headgate"),
                "serve",
                *("--config", root / "router.toml"),
                *("--ready-file", root / "ready"),
            ],
            stderr=self._log,
            stdout=subprocess.DEVNULL,
        )
        try:
            ready = self._ready(root / "ready")
        except BaseException:
            self.stop()
            raise
        self.port = int(ready["bmq"]["port"])
        self._admin = http.client.HTTPConnection("127.0.0.1", ready["admin"]["port"], timeout=60)
        token = ready["admin"].get("token_file")
        self._headers = (
            {"Authorization": f"Bearer {Path(token).read_text().strip()}"} if token else {}
        )

    def _ready(self, path: Path) -> dict[str, Any]:
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            if path.exists() and (text := path.read_text()):
                found: dict[str, Any] = json.loads(text)
                return found
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"the router did not start: {self.log()}")

    def status(self) -> dict[str, Any]:
        """/status.json as it is now."""
        self._admin.close()  # the router may have closed it, being idle
        self._admin.request("GET", "/status.json", headers=self._headers)
        answer = self._admin.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"/status.json answers {answer.status}")
        said: dict[str, Any] = json.loads(body)
        return said

    def log(self) -> str:
        """What the router wrote to standard error."""
        return (Path(self._directory.name) / "log").read_text(errors="replace")

    def stop(self) -> None:
        if hasattr(self, "_admin"):
            self._admin.close()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
