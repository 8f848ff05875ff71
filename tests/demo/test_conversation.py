"""The act of `headgate demo` in which the router is restarted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from headgate.demo.conversation import conversation


async def test_two_agents_go_on_talking_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come up by themselves, and nothing is lost."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines: list[str] = []
    await conversation(lines.append)
    text = "\n".join(lines)
    changes = re.findall(r"(anna|ben) +received +(UP|DOWN)", text)
    assert changes == [(name, kind) for kind in ("UP", "DOWN", "UP") for name in ("anna", "ben")]
    sent = re.findall(r"(?:anna|ben) +sent +('.*');", text)
    assert sorted(re.findall(r"received +('.*')", text)) == sorted(sent)
    assert len(sent) == 4
    stopped, started = (text.index(f"the router       was {word}") for word in ("stop", "start"))
    assert stopped < text.index("sent        'two baskets'") < started
    assert started < text.index("received    'two baskets'")
    assert lines[-1] == "  nothing was lost, and nothing came twice"
    assert os.listdir(tmp_path) == [], "nothing is left behind"
