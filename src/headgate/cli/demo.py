"""``headgate demo``."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from headgate.cli.config_file import config_option
from headgate.cli.explain import lines
from headgate.core.model.message import Properties
from headgate.demo import scene
from headgate.demo.conversation import conversation
from headgate.demo.meeting import meeting
from headgate.errors import ConfigError
from headgate.server.config import Config, load_config
from headgate.server.config.sections import Listen, ListenBmq, ListenSection, RouterAdmin
from headgate.server.net.listener import bind
from headgate.server.router import Router
from headgate.server.serve import serve
from headgate.server.wires.all_wires import WIRES
from headgate.store.backends import masked


@click.command()
@config_option
@click.option("--once", is_flag=True, help="End after the scene instead of going on to serve.")
@click.option("--tables/--no-tables", default=True, help="Show the tables of the scene, on Spark.")
@click.option(
    "--install", metavar="COMMAND", help="What installs Spark, if it is not there.", hidden=True
)
def demo(config: Path | None, once: bool, tables: bool, install: str | None) -> None:
    """Start the router, play a short scene, and go on serving.

    The scene sends messages through a queue, a fan-out, routed orders and, sealed, over the
    network, and prints what each subscriber received and why. Clients of Redis and BlazingMQ meet
    at one queue. Two agents go on talking after their router was restarted. Then the data pipeline
    shows what it made of that. Everything is on this machine: the store is in ./var unless the
    configuration says otherwise. Ctrl-C stops the router.
    """
    settings = load_config(config, os.environ)
    quiet = replace(settings, log=replace(settings.log, level="warning"))
    quiet = replace(quiet, listen=listeners(quiet), admin=admin_port(quiet))
    folder, program = os.path.relpath(settings.directory), os.path.relpath(sys.argv[0])

    async def play(router: Router, addresses: Mapping[str, str]) -> bool:
        # Its terminal was closed; the scene is in no configuration that could be read again.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, signal.raise_signal, signal.SIGTERM)
        click.echo(f"The page of the router, for one browser, once: {addresses['login']}")
        click.echo(
            f"The router is running; its store is {masked(settings.store.url)} in {folder}.\n"
        )
        await scene.play(router, click.echo)
        await scene.orders(addresses["bmq"], click.echo, partial(explained, router))
        await meeting(click.echo)
        secret = settings.smp.create_password
        password = None if secret is None else secret.reveal()
        await scene.sealed(addresses["smp"], click.echo, password)
        await conversation(click.echo)
        if once:
            return False
        if tables and router.journal is not None:
            await show_tables(router, config, install)
        click.echo("\nIt goes on serving. In another terminal, try:")
        host, _, port = addresses["resp"].rpartition(":")
        bmq = addresses["bmq"].removeprefix("tcp://")
        at = "" if bmq == DEFAULT_BMQ else f" --url {bmq}"
        admin = addresses["admin"]
        watched = "" if admin == DEFAULT_ADMIN else f" --url {admin}"
        click.echo(f"  redis-cli -h {host} -p {port} subscribe news")
        click.echo(f"  redis-cli -h {host} -p {port} publish news 'rain tomorrow'")
        click.echo(f"  {program} top{watched}  # what needs attention now")
        click.echo(f"  {program} sub '{scene.ORDERS_QUEUE}?id=shipping' --where 'amount >= 50'{at}")
        click.echo(f"  {program} pub {scene.ORDERS_QUEUE} 'a lamp' --property amount=60{at}")
        click.echo(f"  {program} agent init --router '{addresses['smp']}'")
        click.echo(f"  {program} agent queue new meters")
        click.echo(f"  {program} ntf serve  # wakes sleeping devices; see docs/ntf.md")
        click.echo(f"  {program} expr check 'amount >= 1000 && kind == \"express\"'")
        click.echo(f"  {program} pipeline dryrun 'amount >= 50' --domain {scene.ORDERS}")
        click.echo(f"  {program} pipeline sql 'select * from deliveries'")
        click.echo(f"Its page is at {admin}; {entering(addresses)}")
        click.echo("Ctrl-C stops it.")
        return True

    serve(quiet, None, domains=scene.DOMAINS, play=play)


def listeners(config: Config) -> Listen:
    """Every wire: as the configuration has it, or else at its usual port if that is free."""
    usable = replace(config, listen=replace(config.listen, bmq=for_everybody(config.listen.bmq)))
    found: dict[str, Any] = {
        wire.name: wire.listen(usable) or at_free_port(wire.section()) for wire in WIRES
    }
    return Listen(**found)


def admin_port(config: Config) -> RouterAdmin:
    """As the configuration has it, but not in the way of a program at its usual port."""
    here = config.admin
    return at_free_port(here) if here.port == RouterAdmin().port else here


def for_everybody(bmq: ListenBmq | None) -> ListenBmq | None:
    """The listener, if the clients of the scene can come in without a token or a certificate."""
    return bmq if bmq is not None and not bmq.clients and bmq.tls is None else None


def entering(addresses: Mapping[str, str]) -> str:
    """The way in for a browser when the address that works once was used."""
    file = addresses.get("token_file")
    where = "admin.token of the configuration" if file is None else f"in {os.path.relpath(file)}"
    return f"a browser that is new to it is asked for the token, {where}"


DEFAULT_BMQ = "{0.host}:{0.port}".format(ListenBmq())
"""Where `headgate pub` and `headgate sub` look if nobody says where."""

DEFAULT_ADMIN = "http://{0.host}:{0.port}".format(RouterAdmin())
"""Where commands ask a router if nobody says where."""

QUERIES = (
    "select address, app, outcome, count(*) messages from deliveries group by all order by all",
    "select family, address, app, expression, priority from subscriptions order by since, priority",
    "select channel, sum(published) published, sum(deliveries) deliveries from channels group by 1",
)
"""Questions to the tables: how deliveries ended, the expressions, how busy channels were."""

SEALED_SECONDS_MAX = 10.0
"""The scene is in the journal within a second or two."""


async def show_tables(router: Router, config: Path | None, install: str | None) -> None:
    """Have the pipeline catch up with the scene, in a process of its own, and show some of it."""
    if find_spec("pyspark") is None:
        if install is None:
            click.echo("\nFor tables of what happened: pip install 'headgate[spark]'")
            return
        click.echo("\nInstalling Spark beside the router; it takes a minute, once ...")
        process = await asyncio.create_subprocess_exec(*shlex.split(install))
        if await process.wait():
            click.echo("Spark could not be installed; the router does not need it.")
            return
    assert router.journal is not None, "there is a journal to make tables of"
    with suppress(TimeoutError):
        async with asyncio.timeout(SEALED_SECONDS_MAX):
            while router.journal.lag:  # noqa: ASYNC110 - the sealer tells when it likes
                await asyncio.sleep(0.1)
    click.echo("\nThe same on Spark, from the journal:")
    arguments = ["pipeline", "run", "--once"]
    for query in QUERIES:
        arguments += ["--show", query]
    if config is not None:
        arguments += ["--config", str(config)]
    process = await asyncio.create_subprocess_exec(sys.argv[0], *arguments)
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


Section = TypeVar("Section", ListenSection, RouterAdmin)


def at_free_port(listen: Section) -> Section:
    """The listener with its own port, or 0 for any other if somebody has it."""
    try:
        bind("listen", listen.host, listen.port).close()
    except ConfigError:
        return replace(listen, port=0)
    return listen


def explained(router: Router, queue: str, properties: Properties) -> Iterator[str]:
    """The text of `headgate explain`, without the way over the admin port."""
    return lines({"queue": queue, "properties": properties, **router.explain(queue, properties)})
