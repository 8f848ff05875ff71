"""The folder that the tables are in: of this machine, or wherever Arrow can write."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headgate.errors import PipelineError
from headgate.journal.segments import PART
from headgate.store.private import make_file, make_folder

SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")


class Found(NamedTuple):
    """A file, by its path below the root."""

    path: str
    bytes: int
    written: float


class Storage:
    """Files by their path below a root. A file that is put is there whole, or not at all."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        plain = self.root.removeprefix("file://")
        self.local: Path | None = None if SCHEME.match(plain) else Path(plain)
        """The root, if it is a folder of this machine."""

    def make(self) -> None:
        """Make the root, for its owner alone, if it is a folder of this machine."""
        if self.local is not None:
            make_folder(self.local)

    def uri(self, path: str) -> str:
        """A path in Spark's words."""
        return f"{self.root}/{path}"

    def put(self, path: str, data: bytes) -> bool:
        """Write a file, unless there is one of this name; whether there was none."""
        if self.local is None:
            return self._put_far(path, data)
        whole = self.local / path
        make_folder(whole.parent)
        part = whole.with_name(f".{whole.name}.{uuid.uuid4().hex}{PART}")
        try:
            with open(make_file(part), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(part, whole)  # unlike a rename it fails if somebody was faster
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        return True

    def read(self, path: str) -> bytes | None:
        """The contents of a file, if there is one."""
        try:
            with self._reached() as (files, base), files.open_input_stream(f"{base}/{path}") as it:
                data: bytes = it.read()
                return data
        except FileNotFoundError:
            return None

    def columns(self, path: str, names: list[str]) -> pa.Table:
        """Some columns of a Parquet file."""
        with self._reached() as (files, base), files.open_input_file(f"{base}/{path}") as file:
            return pq.ParquetFile(file).read(names)

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in order; none if it is not there."""
        with self._reached() as (files, base):
            selector = fs.FileSelector(f"{base}/{folder}", allow_not_found=True)
            return sorted(info.base_name for info in files.get_file_info(selector))

    def walk(self, folder: str) -> list[Found]:
        """Every file below a folder, in the order of paths."""
        with self._reached() as (files, base):
            selector = fs.FileSelector(f"{base}/{folder}", allow_not_found=True, recursive=True)
            return sorted(
                Found(info.path.removeprefix(f"{base}/"), info.size, (info.mtime_ns or 0) / 1e9)
                for info in files.get_file_info(selector)
                if info.type == fs.FileType.File
            )

    def delete(self, path: str) -> None:
        """Remove a file, if it is there, and what folders of this machine are empty then."""
        try:
            with self._reached() as (files, base):
                files.delete_file(f"{base}/{path}")
        except FileNotFoundError:
            return
        if self.local is not None:
            _prune((self.local / path).parent, self.local)

    def _put_far(self, path: str, data: bytes) -> bool:
        """Arrow cannot write on a condition; see docs/design/tables.md."""
        with self._reached() as (files, base):
            (info,) = files.get_file_info([f"{base}/{path}"])
            if info.type != fs.FileType.NotFound:
                return False
            files.create_dir(f"{base}/{path}".rpartition("/")[0], recursive=True)
            with files.open_output_stream(f"{base}/{path}") as out:
                out.write(data)
            return True

    @contextmanager
    def _reached(self) -> Iterator[tuple[fs.FileSystem, str]]:
        """The file system, and the root in its own words. Made anew each time: it cannot travel to
        where Spark runs a batch. A place that cannot be reached is an error of one line."""
        try:
            if self.local is not None:
                yield fs.LocalFileSystem(), str(self.local)
                return
            # Hadoop's name for it, which Spark needs, is another than Arrow's.
            uri = re.sub("^s3a:", "s3:", self.root)
            if uri.startswith("s3:"):  # a small file is one request, and not an upload of parts
                uri += "?allow_delayed_open=true"
            yield fs.FileSystem.from_uri(uri)
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowInvalid) as error:
            raise PipelineError(f"cannot get at tables in {self.root}: {error}") from error


def _prune(folder: Path, root: Path) -> None:
    """Remove a folder and those above it, up to the root, as far as nothing is in them. The sums
    that Hadoop puts beside a file are nothing."""
    while folder != root:
        try:
            left = list(folder.iterdir())
            if any(not each.name.startswith(".") and each.name != "_SUCCESS" for each in left):
                return
            for each in left:
                each.unlink()
            folder.rmdir()
        except OSError:
            return  # somebody writes there, or was faster
        folder = folder.parent
