"""Puts the pages of the docs into the wheel, for ``headgate docs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = ("*.md", "design/*.md", "reference/*.md")
"""Of the folder docs. What only developers read, and pictures, stay out."""


class DocsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling at each build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # the pages are read where they are
            return
        docs = Path(self.root) / "docs"
        for pattern in PAGES:
            for page in sorted(docs.glob(pattern)):
                name = f"headgate/docs/{page.relative_to(docs).as_posix()}"
                build_data["force_include"][str(page)] = name
