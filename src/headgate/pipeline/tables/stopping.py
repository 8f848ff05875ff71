"""A request to pipelines to end, wherever they work: a file beside the tables says since when.

A signal reaches a command of this machine. It does not reach a query that a killed client of Spark
Connect left behind, nor one of another machine; those look for the file before each batch.
"""

from __future__ import annotations

import json
import time

from headgate.errors import PipelineError
from headgate.pipeline.tables.storage import Storage

FILE = "_stop"


class Stopped(PipelineError):
    """The error that ends a pipeline that was asked to stop."""


def ask(storage: Storage) -> None:
    """Have every pipeline that is at work on the tables end. Pipelines that start later go on."""
    storage.delete(FILE)
    storage.put(FILE, json.dumps({"at": time.time()}).encode())


def is_asked(storage: Storage, since: float) -> bool:
    """Whether a pipeline that started then is to end."""
    data = storage.read(FILE)
    if data is None:
        return False
    try:
        return float(json.loads(data)["at"]) >= since
    except (ValueError, KeyError, TypeError):
        return False  # it is being written


def check(storage: Storage, since: float) -> None:
    if is_asked(storage, since):
        raise Stopped("the pipeline was asked to stop, by `headgate pipeline stop`")
