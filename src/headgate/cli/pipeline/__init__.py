"""``headgate pipeline``: what happened, what would happen, does it add up, send it again."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "run": "headgate.cli.pipeline.tables",
        "status": "headgate.cli.pipeline.tables",
        "sql": "headgate.cli.pipeline.tables",
        "tidy": "headgate.cli.pipeline.tables",
        "files": "headgate.cli.pipeline.tables",
        "rebuild": "headgate.cli.pipeline.tables",
        "iceberg": "headgate.cli.pipeline.tables",
        "check": "headgate.cli.pipeline.tables",
        "stop": "headgate.cli.pipeline.tables",
        "dryrun": "headgate.cli.pipeline.questions",
        "audit": "headgate.cli.pipeline.questions",
        "replay": "headgate.cli.pipeline.sending",
        "route": "headgate.cli.pipeline.sending",
    },
)
def pipeline() -> None:
    """Tables of what happened, and questions to them, on Spark.

    Without a word about where, Spark runs inside the command, on this machine. The journal and
    the tables are those of the configuration: the tables are in "pipeline" in the state
    directory. Progress goes to standard error.
    """
