"""Files and folders for their owner alone: what the router writes has messages in it, or says who
sent them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077


def make_folder(path: Path) -> None:
    """Make a folder, and what is missing above it. One that is there is narrowed."""
    for missing in reversed([path, *path.parents]):
        if not missing.exists():
            missing.mkdir(mode=FOLDER, exist_ok=True)
    narrow(path)


def make_file(path: Path) -> int:
    """The descriptor of a file that is empty, for others to write to."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE)


def narrow(*paths: Path) -> None:
    """Take from others what they may do with these files and folders, if they are ours."""
    for path in paths:
        with suppress(FileNotFoundError, PermissionError):
            mode = path.stat().st_mode & 0o777
            if mode & OTHERS:
                path.chmod(mode & ~OTHERS)


def is_open_to_others(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & OTHERS)
