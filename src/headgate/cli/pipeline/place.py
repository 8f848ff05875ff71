"""Options that commands of the pipeline share: where things are, where Spark runs, since when."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.config_file import config_option
from headgate.cli.which_router import token_file_option
from headgate.client.admin import AdminPort, tls_of
from headgate.errors import ExpressionError, PipelineError
from headgate.expr.explain import caret
from headgate.expr.predicate import Predicate, compile_expression
from headgate.server.admin import tokens
from headgate.server.config import Config, load_config
from headgate.server.state_directory import database, journal_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

C = TypeVar("C", bound=Callable[..., Any])

PATIENCE_SECONDS = 4.0
"""How long a router is asked before Spark starts; it may be starting again."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


@dataclass(frozen=True, slots=True)
class Place:
    """The places of the journal, the tables and the router."""

    config: Config
    source: Mapping[str, str]
    """Options of the source."""
    tables: str
    router: str
    reach: Mapping[str, str]
    """Options of source and sink that say how the router is reached: token and TLS."""

    @property
    def sink(self) -> dict[str, str]:
        """Options of the sink, but for the queue."""
        return {"router": self.router, **self.reach}

    @property
    def store(self) -> Path | None:
        """The file of the store that the journal is of, if both are of this configuration."""
        settings, file = journal_settings(self.config), database(self.config)
        if settings is None or file is None or not file.is_file():
            return None
        is_own = self.source == {"path": str(settings.directory.absolute())}
        return file if is_own else None

    # What can be wrong, looked at before Spark starts.

    def check_journal(self) -> None:
        """Raise if the journal is not there, or its router does not answer."""
        from headgate.pipeline.source.feed import feed_of

        feed_of(self.source).look()

    def check_tables(self) -> None:
        """Raise if there are no tables: an empty answer would say that nothing happened."""
        from headgate.pipeline.tables.archive import Archive

        archive = Archive(self.tables)
        # Before its first batch a run has the folder, and nothing in its log.
        if archive.state().number < 0 and not archive.storage.names(""):
            raise PipelineError(
                f"there are no tables in {self.tables}: `headgate pipeline run` makes them; if they"
                " are elsewhere, name them with --tables"
            )

    def check_router(self) -> None:
        """Raise if the router does not answer, or takes no rows from us."""
        tls = tls_of(self.reach)
        AdminPort(self.router, self.reach.get("token"), tls=tls).ask(
            "GET", "/sinks", patience=PATIENCE_SECONDS
        )


NO_SPARK = "Spark is not installed: pip install 'headgate[spark]'"


def place_options(command: C) -> C:
    """Add the options that say where things are, as the argument `place`."""

    @wraps(command)
    def wrapper(
        *args: Any,  # noqa: ANN401
        config: Path | None,
        journal: str | None,
        router: str | None,
        tables: str | None,
        token_file: Path | None,
        tls_ca: str | None,
        tls_certificate: str | None,
        tls_key: str | None,
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        tls = {"tlsCa": tls_ca, "tlsCertificate": tls_certificate, "tlsKey": tls_key}
        given = {name: path for name, path in tls.items() if path is not None}
        place = _place(config, journal, router, tables, token_file, given)
        try:
            return command(*args, place=place, **kwargs)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "pyspark":
                raise
            raise PipelineError(NO_SPARK) from None

    for option in (
        click.option(
            "--tables",
            metavar="DIR",
            help="The folder of the tables, or a URI such as s3a://bucket/path."
            "  [default: pipeline in the state directory]",
        ),
        click.option(
            "--url",
            "--router",
            "router",
            metavar="URL",
            envvar=["HEADGATE_URL", "HEADGATE_ROUTER"],
            help="The admin port of a router; the journal is downloaded from it.",
        ),
        token_file_option,
        click.option(
            "--tls-key",
            metavar="FILE",
            help="The key of that certificate, if it is in another file.",
        ),
        click.option(
            "--tls-certificate", metavar="FILE", help="What we show to an https router that asks."
        ),
        click.option(
            "--tls-ca", metavar="FILE", help="The authorities to check an https router by."
        ),
        click.option(
            "--journal",
            metavar="DIR",
            help="The folder of the journal.  [default: the configuration's]",
        ),
        config_option,
    ):
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


def _place(
    path: Path | None,
    journal: str | None,
    router: str | None,
    tables: str | None,
    token_file: Path | None,
    tls: Mapping[str, str],
) -> Place:
    config = load_config(path, os.environ)
    url = router or f"http://{config.admin.host}:{config.admin.port}"
    token = tokens.found(config, url, token_file)
    reach = {**({"token": token} if token else {}), **tls}
    if journal is not None:
        source = {"path": journal}
    elif router is not None:
        source = {"router": router, **reach}
    else:
        settings = journal_settings(config)
        if settings is None:
            raise PipelineError(
                "this configuration keeps no journal; name one with --journal or --url"
            )
        source = {"path": str(settings.directory.absolute())}
    return Place(
        config=config,
        source=source,
        tables=tables or str((config.directory / "pipeline").absolute()),
        router=url,
        reach=reach,
    )


def spark_options(command: C) -> C:
    """Add the options that say where Spark runs, as the argument `spark`: a function that gives
    a session, so that what can be wrong before is said before Spark starts."""

    @wraps(command)
    def wrapper(
        *args: Any,  # noqa: ANN401
        master: str | None,
        remote: str | None,
        settings: tuple[str, ...],
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        if find_spec("pyspark") is None:
            raise PipelineError(NO_SPARK)
        named = dict(_setting(each) for each in settings)
        return command(*args, spark=lambda: _session(master, remote, named), **kwargs)

    for option in (
        click.option(
            "--conf",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of Spark, such as spark.driver.memory=4g.",
        ),
        click.option("--remote", metavar="URL", help="A Spark Connect server: sc://HOST:PORT."),
        click.option(
            "--master",
            metavar="URL",
            help="A cluster, such as spark://HOST:PORT.  [default: local[*]]",
        ),
    ):
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


Spark = Callable[[], "SparkSession"]


def _setting(text: str) -> tuple[str, str]:
    name, equals, setting = text.partition("=")
    if not name.startswith("spark.") or not equals:
        raise PipelineError(f"--conf is spark.NAME=VALUE, not {text}")
    return name, setting


def _session(master: str | None, remote: str | None, settings: Mapping[str, str]) -> SparkSession:
    from headgate.pipeline.session import open_session
    from headgate.pipeline.source.format import register

    started = time.monotonic()
    click.echo(f"starting Spark on {remote or master or 'this machine'} ...", err=True)
    session = register(open_session(master=master, remote=remote, settings=settings))
    click.echo(f"Spark is there after {time.monotonic() - started:.1f} s", err=True)
    return session


@contextmanager
def one_line() -> Iterator[None]:
    """Spark's complaint, in one line."""
    from headgate.pipeline.session import one_line as one_line

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    with one_line("Spark failed"):
        yield


class Since(click.ParamType[float]):
    """A moment: so long ago (7d, 12h, 30m) or a date (2026-11-01, with a time if wanted)."""

    name = "moment"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        match = re.fullmatch(r"(\d{1,9})([smhdw])", text)
        if match:
            return time.time() - int(match[1]) * UNITS[match[2]]
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail("say 7d, 12h or 30m, or a date such as 2026-11-01", param, ctx)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def since_option(command: C) -> C:
    return click.option(
        "--since",
        type=Since(),
        default="7d",
        show_default=True,
        metavar="MOMENT",
        help="From when on: 7d, 12h, 30m ago, or a date in UTC.",
    )(command)


def compiled(expression: str) -> Predicate:
    try:
        return compile_expression(expression)
    except ExpressionError as error:
        raise PipelineError(f"the expression is wrong\n{caret(error)}") from error


def facts_of(session: SparkSession, place: Place) -> DataFrame:
    return session.read.format("headgate").options(**place.source).load()
