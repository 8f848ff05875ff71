"""Where things are in the repository, for tests that read its pages and sources."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "headgate"
TESTS = ROOT / "tests"
CORPORA = ROOT / "fuzz" / "corpus"
