"""Which way runs: compiled where it was built of these sources, and never against the wish."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headgate import compiled

ROOT = Path(__file__).parents[1]
CODE = "import headgate.wire.resp.hub, headgate.compiled as c; print(c.described())"


def described(**environ: str) -> str:
    line = [sys.executable, "-c", CODE]
    done = subprocess.run(
        line, env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_variable_forces_pure_python() -> None:
    assert described(HEADGATE_PURE="1") == "pure (HEADGATE_PURE is set)"


@pytest.fixture
def hook(tmp_path: Path) -> ModuleType:
    """The build hook, of a copy of the sources."""
    for source in (ROOT / "src").rglob("_*.[ch]"):
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    spec = importlib.util.spec_from_file_location("hook_of_a_copy", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_without_a_compiler_nothing_is_built_and_a_line_says_so(
    hook: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert hook.build(tmp_path) == []
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("warning: Headgate runs as pure Python")
    assert not list(tmp_path.rglob("*.so"))


def test_what_fails_to_compile_leaves_nothing_half_built(
    hook: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler")
    [*_, last] = hook.sources(tmp_path)
    last.write_text("#error no headers\n")
    assert hook.build(tmp_path) == []
    assert "no headers" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.so*"))


def test_every_source_is_a_part_that_is_asked_for(hook: ModuleType) -> None:
    names = [
        ".".join(source.relative_to(ROOT / "src").with_suffix("").parts)
        for source in hook.sources(ROOT)
    ]
    assert names == list(compiled.PARTS)


def test_what_was_built_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = ModuleType("stale")
    stale.SOURCE = "0" * 16  # type: ignore[attr-defined]
    monkeypatch.setattr(compiled, "import_module", lambda name: stale)
    monkeypatch.setattr(compiled, "_why_not", {})
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    assert compiled._loaded.__wrapped__(compiled.PARTS[0]) is None
    assert "make setup" in compiled._why_not[compiled.PARTS[0]]
