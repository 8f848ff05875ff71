"""The act of `headgate demo` in which two wires meet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.demo.meeting import meeting


async def test_an_order_of_each_wire_reaches_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks 9, 58: by the expressions of who reads."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines: list[str] = []
    await meeting(lines.append)
    text = "\n".join(lines)
    assert "warehouse        received 'a piano': amount >= 1000 is true" in text
    assert "received 'one kidney' with XREADGROUP" in text
    assert os.listdir(tmp_path) == [], "nothing is left behind"
