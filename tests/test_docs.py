"""The pages can be found, their links lead somewhere, and a word has one meaning."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.repository import DOCS, ROOT

LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
AT_THE_ROOT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in AT_THE_ROOT), *DOCS.rglob("*.md")]


def linked(page: Path) -> Iterator[Path]:
    return ((page.parent / target).resolve() for target in LINK.findall(page.read_text()))


def test_every_link_leads_somewhere() -> None:
    missing = [(page.name, str(to)) for page in PAGES for to in linked(page) if not to.exists()]
    assert missing == []


def test_every_page_is_in_the_index() -> None:
    index = {DOCS / "README.md", *linked(DOCS / "README.md")}
    index |= set(linked(DOCS / "requirements" / "README.md"))
    assert sorted(set(DOCS.rglob("*.md")) - index) == []


def test_the_glossary_has_every_word_once_and_in_order() -> None:
    text = (DOCS / "glossary.md").read_text()
    words = re.findall(r"^\| (?!word |-)([^|]+?) \|", text, re.M)
    assert words == sorted(set(words))
    assert len(words) > 50
    assert DOCS / "glossary.md" in linked(ROOT / "README.md")


def test_every_target_that_is_recommended_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)`", page.read_text())}
    assert named - targets == set()


def test_every_source_that_a_page_names_is_there() -> None:
    """With its ending, or as a package or module of ours without one."""
    package = ROOT / "src" / "headgate"
    ours = "|".join(sorted(path.name for path in package.iterdir() if path.is_dir()))
    modules = re.compile(rf"`((?:{ours})/[a-z0-9_/]+)`|`((?:[a-z0-9_]+/)+[a-z0-9_]+\.py)`")
    roots = (ROOT, package, ROOT / "src", ROOT / "tests")
    missing = [
        (page.name, name)
        for page in PAGES
        for name in ("".join(found) for found in modules.findall(page.read_text()))
        if not any((root / name).exists() or (root / f"{name}.py").exists() for root in roots)
    ]
    assert missing == []


def test_the_pages_become_a_site_without_a_warning(tmp_path: Path) -> None:
    """Every page is in the sidebar, every link and heading that a page names is there."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", DOCS, tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert (tmp_path / "README.html").exists()
