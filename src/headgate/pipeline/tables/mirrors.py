"""The mirror in Iceberg, if there is one: a small file beside the tables says so, and where.

A change of the tables brings the mirror along. Its own code is in `iceberg`, which needs pyiceberg;
without a mirror nothing does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from headgate.errors import PipelineError
from headgate.pipeline.session import reason
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.background import in_background

if TYPE_CHECKING:
    from headgate.pipeline.tables.iceberg import Mirror

SETTINGS = "_iceberg.json"
"""The file."""
NAMESPACE = "headgate"
PAUSE_SECONDS = 1.0
"""Between two looks at the log."""
LOOKS = 10
"""A look that is overtaken so often in a row is a failure: the others do commit, but it never."""


class Settings(msgspec.Struct, frozen=True):
    """Settings of a mirror: the catalog and namespace that the tables are mirrored to."""

    catalog: str = ""
    """By its name in the configuration of pyiceberg; empty for one of our own."""
    namespace: str = NAMESPACE

    def __str__(self) -> str:
        return f"{self.catalog or 'a catalog beside them'}, namespace {self.namespace}"


class Overtaken(PipelineError):
    """The error that another mirror has committed meanwhile; the next look shows what is left to
    do."""


def mirror_of(archive: Archive) -> Mirror | None:
    """The mirror of the tables, if they have one."""
    data = archive.storage.read(SETTINGS)
    return None if data is None else _made(archive, msgspec.json.decode(data, type=Settings))


def turn_on(archive: Archive, settings: Settings) -> Mirror:
    """Have the tables mirrored from now on. Raise if they are, to somewhere else."""
    mirror = _made(archive, settings)
    archive.storage.make()
    mirror.make_namespace()
    mirror.check()
    if not archive.storage.put(SETTINGS, msgspec.json.encode(settings)):
        known = mirror_of(archive)
        if known is not None and known.settings != settings:
            raise PipelineError(
                f"the tables are mirrored to {known.settings}: remove"
                f" {archive.storage.uri(SETTINGS)} first"
            )
    return mirror


def _made(archive: Archive, settings: Settings) -> Mirror:
    if find_spec("pyiceberg") is None:
        raise PipelineError(
            "the tables are to be mirrored, and pyiceberg is not installed: pip install"
            f" 'headgate[iceberg]', or remove {archive.storage.uri(SETTINGS)}"
        )
    from headgate.pipeline.tables.iceberg import Mirror

    return Mirror(archive, settings)


def bring_along(archive: Archive) -> bool:
    """Have the mirror, if there is one, show what counts and nothing that may be removed soon;
    whether it does."""
    mirror = mirror_of(archive)
    if mirror is not None:
        try:
            _caught_up(mirror)
            mirror.tidy()
        except Overtaken:
            return False
    return True


def _caught_up(mirror: Mirror) -> None:
    """Follow the log as far as it goes, again if another mirror was faster: what that one shows may
    be older, and there may be no later look."""
    for _ in range(LOOKS - 1):
        with suppress(Overtaken):
            mirror.follow()
            return
    mirror.follow()


@contextmanager
def beside(
    archive: Archive,
    pause: float = PAUSE_SECONDS,
    failed: Callable[[str], object] = lambda what: None,
) -> Iterator[None]:
    """Follow the log in a thread, if the tables have a mirror, and once more in the end. A failure
    is reported, and tried again: the batches do not depend on it."""
    mirror = mirror_of(archive)
    if mirror is None:
        yield
        return

    def looks(over: threading.Event) -> None:
        printed = ""
        is_last = False
        while not is_last:
            is_last = over.wait(pause)
            try:
                _caught_up(mirror)
                printed = ""
            except Exception as error:
                failed("iceberg")
                if reason(error) != printed:
                    printed = reason(error)
                    print(f"headgate: the Iceberg tables are behind: {printed}", file=sys.stderr)

    with in_background("iceberg", looks):
        yield
