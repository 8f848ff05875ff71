from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ntf_process import CONFIG, ServedNtf, ServeNtf


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[ServeNtf]:
    """Starts servers of this folder; all of them are gone after the test."""
    running: list[ServedNtf] = []

    def serve(config: str = CONFIG, ready: str = "ready.json", **environ: str) -> ServedNtf:
        (tmp_path / "ntf.toml").write_text(config)
        served = ServedNtf(tmp_path, ready, **environ)
        running.append(served)
        return served

    yield serve
    for served in running:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()
