"""``headgate pipeline``: what happened, what would happen, does it add up, send it again."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "run": ("headgate.cli.pipeline.tables", "Keep the tables up to date, until it is stopped."),
        "status": (
            "headgate.cli.pipeline.tables",
            "Say how far the tables are behind the journal.",
        ),
        "sql": (
            "headgate.cli.pipeline.tables",
            'Ask the tables by name: "select address, accepted from minutes".',
        ),
        "tidy": (
            "headgate.cli.pipeline.tables",
            "Merge small files of the tables, and remove what is too old.",
        ),
        "files": ("headgate.cli.pipeline.tables", "Print the files of a table that count now."),
        "rebuild": (
            "headgate.cli.pipeline.tables",
            "Make rows of the tables again, of all facts or of a range.",
        ),
        "iceberg": (
            "headgate.cli.pipeline.tables",
            "Have the tables shown as Iceberg tables, from now on.",
        ),
        "check": (
            "headgate.cli.pipeline.tables",
            "See whether the tables add up: facts, each other, no gaps.",
        ),
        "stop": (
            "headgate.cli.pipeline.tables",
            "Have whoever keeps the tables end after the batch at hand.",
        ),
        "dryrun": (
            "headgate.cli.pipeline.questions",
            "Say what an expression would have matched, and who would lose.",
        ),
        "audit": ("headgate.cli.pipeline.questions", "Count the queues of each service again."),
        "replay": (
            "headgate.cli.pipeline.sending",
            "Send messages of the journal again, each once.",
        ),
        "route": (
            "headgate.cli.pipeline.sending",
            "Route any data set: which app and subscriptions get a message.",
        ),
    },
)
def pipeline() -> None:
    """Tables of what happened, and questions to them, on Spark.

    Begin with "run --once", which makes the tables of the journal, and "sql" to ask them. Without a
    word about where, Spark runs inside the command, on this machine, which takes some seconds to
    start. The journal and the tables are those of the configuration: the tables are in "pipeline"
    in the state directory. Progress goes to standard error.
    """
