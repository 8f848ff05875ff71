"""Files and folders for their owner alone: the router's files have messages in them, or their
senders."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077


def make_folder(path: Path) -> None:
    """Make a folder with its parents. The rights of an existing one are narrowed."""
    for missing in reversed([path, *path.parents]):
        if not missing.exists():
            missing.mkdir(mode=FOLDER, exist_ok=True)
    narrow(path)


def make_file(path: Path) -> int:
    """The descriptor of an empty file, for others to write to."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE)


def narrow(*paths: Path) -> None:
    """Remove the rights of other users on these files and folders, if they are ours."""
    for path in paths:
        with suppress(FileNotFoundError, PermissionError):
            mode = path.stat().st_mode & 0o777
            if mode & OTHERS:
                path.chmod(mode & ~OTHERS)


def is_open_to_others(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & OTHERS)
