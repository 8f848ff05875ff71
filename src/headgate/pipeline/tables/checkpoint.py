"""Spark's checkpoint of the stream that keeps the tables, held against what the tables say.

Spark writes ``offsets/N`` before batch N and ``commits/N`` after it. Between the two the manifest
of the batch is put; so the manifests are where the checkpoint is, or one batch ahead of it.
"""

from __future__ import annotations

import json

from headgate.errors import PipelineError
from headgate.pipeline.tables.manifests import State
from headgate.pipeline.tables.storage import Storage

FOLDER = "_checkpoint"


class Checkpoint:
    """Spark's checkpoint of the stream, as far as it is read without Spark."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def query(self) -> str | None:
        """The id of its query, if that can be read."""
        try:
            found = json.loads(self._storage.read(f"{FOLDER}/metadata") or b"")["id"]
        except (ValueError, KeyError, TypeError):
            return None
        return str(found)

    def offset(self, batch: int) -> int | None:
        """The last fact of a batch, if that can be read."""
        data = self._storage.read(f"{FOLDER}/offsets/{batch}") or b""
        try:
            return int(json.loads(data.splitlines()[-1])["number"])
        except (ValueError, KeyError, TypeError, IndexError):
            return None

    def check(self, state: State) -> None:
        """Raise unless going on from here gives every fact once. No checkpoint at all will do:
        the state says where a new one begins."""
        offsets, commits = self._batches("offsets"), self._batches("commits")
        if not offsets and not commits and self._storage.read(f"{FOLDER}/metadata") is None:
            return
        last = state.batch
        if last is None:
            if commits:
                raise PipelineError(
                    f"{self._storage.root} has a checkpoint and no log of what is in its tables:"
                    " put the folder _log back, or begin with an empty folder (the facts are read"
                    " again from the journal), as after an upgrade from before there was a log"
                )
            problem = self._damage(offsets, commits)
        elif self.query != last.query and not commits:
            problem = self._damage(offsets, commits)  # it is a new one, before its first batch
        else:
            problem = self._damage(offsets, commits) or self._difference(state, offsets, commits)
        if problem is not None:
            raise PipelineError(
                f"the checkpoint {self._storage.uri(FOLDER)} {problem}: remove that folder and run"
                f" again; the tables hold the facts up to {state.upto}, and go on after them"
            )

    def _damage(self, offsets: list[int], commits: list[int]) -> str | None:
        if self.query is None:
            return "is damaged (its metadata cannot be read)"
        if offsets and self.offset(offsets[-1]) is None:
            return f"is damaged (offset {offsets[-1]} cannot be read)"
        newest, done = (max(each, default=-1) for each in (offsets, commits))
        if newest - done not in (0, 1):
            return f"is not whole (it begins batch {newest} and has done {done})"
        return None

    def _difference(self, state: State, offsets: list[int], commits: list[int]) -> str | None:
        last = state.batch
        assert last is not None, "there is something to compare with"
        done = max(commits, default=-1)
        if self.query != last.query:
            return "is of another query than the tables"
        if done > last.number:
            return f"is ahead of the tables (batch {done}, they have {last.number})"
        if done < last.number - 1 or self.offset(last.number) != last.upto:
            return f"is behind the tables (batch {done}, they have {last.number})"
        return None

    def _batches(self, kind: str) -> list[int]:
        names = self._storage.names(f"{FOLDER}/{kind}")
        return sorted(int(name) for name in names if name.isdecimal())
