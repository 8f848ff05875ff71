"""How the pages become a site: `make site`. The pages are plain Markdown and are read as they are.

The sections of README.md are the parts of the site, and the links in each are its pages.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent

project = "Headgate"
author = "the developers of Headgate"
copyright = "the developers of Headgate, Apache-2.0"
extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Headgate"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]
"""Output of commands and headers of protocols are not in any language."""

SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n)*)", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+)(?:#[^)]*)?\)")
PAGE = re.compile(r"\]\(([\w/-]+)\.md(?:#[^)]*)?\)")


def with_contents(app: Sphinx, name: str, text: list[str]) -> None:
    """Give the first page the tree of all others, which Sphinx makes its sidebar of."""
    text[0] = LINK.sub(lambda link: _kept(name, link), text[0])
    if name == "README":
        seen: set[str] = set()
        for title, links in SECTION.findall(text[0]):
            pages = [page for page in PAGE.findall(links) if not (page in seen or seen.add(page))]
            if pages:
                tree = "\n".join([f":caption: {title}", ":hidden:", "", *pages])
                text[0] += f"\n```{{toctree}}\n{tree}\n```\n"
    if name == "requirements/README":
        pages = [path.stem for path in sorted((HERE / "requirements").glob("*.md"))]
        tree = "\n".join([":hidden:", "", *(page for page in pages if page != "README")])
        text[0] += f"\n```{{toctree}}\n{tree}\n```\n"


def _kept(name: str, link: re.Match[str]) -> str:
    """A link as it is, or only its words where it leads to a page or folder of the repository."""
    target = ((HERE / name).parent / link[2]).resolve()
    is_page = target.suffix == ".md" and not target.is_relative_to(HERE)
    return link[1] if is_page or target.is_dir() else link[0]


def setup(app: Sphinx) -> None:
    app.connect("source-read", with_contents)
