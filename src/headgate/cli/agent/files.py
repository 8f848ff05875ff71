"""``headgate agent init``, ``status``, ``check`` and ``service``: the agent as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from headgate.agent.records import Database, Records, routers, users
from headgate.agent.records.check import check as find_faults
from headgate.agent.records.summary import RouterSummary, summary
from headgate.cli.agent.place import RouterText, check_exists, file_option, look, progress
from headgate.cli.agent.reaching import reach
from headgate.cli.output import emit, json_option
from headgate.errors import ConfigError, HeadgateError
from headgate.wire.smp.codec.router_address import RouterAddress

FOUND_SOMETHING = 3
"""An exit code."""


@click.command()
@file_option
@json_option
@click.option(
    "--router",
    "addresses",
    type=RouterText(),
    multiple=True,
    required=True,
    metavar="smp://...",
    help="A router, as `headgate init` prints it. New queues are made at the first one.",
)
@click.option("--service", is_flag=True, help="Subscribe all queues of a router with one request.")
def init(path: Path, as_json: bool, addresses: tuple[RouterAddress, ...], service: bool) -> None:
    """Make the file of an agent. One that is there is left as it is.

    \b
    Example:
      headgate agent init --router smp://FINGERPRINT@relay.example.org
    """
    if path.exists():
        raise ConfigError(f"{path} is there already; name another file with --file")
    asyncio.run(_make(path, addresses, service))
    row = {"file": str(path), "routers": [address.text for address in addresses]}
    emit([row], lambda shown: str(shown["file"]), as_json)


async def _make(path: Path, addresses: tuple[RouterAddress, ...], service: bool) -> None:
    def fill(tables: Database) -> None:
        users.add(tables, services=service)
        for address in addresses:
            routers.keep(tables, address)

    async with await Records.open(path) as records:
        await records.write(fill)


@click.command()
@file_option
@json_option
@click.option("--offline", is_flag=True, help="Do not ask routers whether they answer.")
def status(path: Path, as_json: bool, offline: bool) -> None:
    """Print what there is at each router, and whether it answers.

    Queues that are read, how many of them the service has, messages that wait to be sent, and
    messages that were received and not acknowledged. It can be used while an agent runs.
    """
    with look(path) as (tables, facts):
        found = summary(tables, facts.user)
        services = facts.services
    rows = asyncio.run(_status_rows(found, services, offline))
    emit(rows, _status_line, as_json)


async def _status_rows(
    found: list[RouterSummary], services: bool, offline: bool
) -> list[dict[str, object]]:
    reached: list[HeadgateError | None] = []
    if not offline:
        async with progress("asking routers ..."):
            reached = await asyncio.gather(*(reach(each.router) for each in found))
    return list(_joined(found, services, reached))


def _joined(
    found: list[RouterSummary], services: bool, reached: list[HeadgateError | None]
) -> Iterator[dict[str, object]]:
    for n, each in enumerate(found):
        row: dict[str, object] = {
            "router": each.router.text,
            "queues": each.queues,
            "service": services,
            "in_service": each.in_service,
            "to_send": each.to_send,
            "to_read": each.to_read,
        }
        if reached:
            failure = reached[n]
            row["answers"] = failure is None
            if failure is not None:
                row["why"] = str(failure)
        yield row


def _status_line(row: Mapping[str, object]) -> str:
    parts = [f"{row['queues']} {'queue' if row['queues'] == 1 else 'queues'}"]
    if row["service"]:
        parts[0] += f" ({row['in_service']} in the service)"
    parts += [f"{row['to_send']} to send", f"{row['to_read']} to read"]
    if "answers" in row:
        parts.append("it answers" if row["answers"] else f"it does not answer: {row['why']}")
    return f"{row['router']}: {', '.join(parts)}"


@click.command()
@file_option
@json_option
@click.pass_context
def check(ctx: click.Context, path: Path, as_json: bool) -> None:
    """Recount the tallies of services, and look for what belongs to nothing.

    Prints a line for each fault and exits with 3 if there is one. It can be used while an agent
    runs.
    """
    with look(path) as (tables, _):
        faults = find_faults(tables)
    emit(({"fault": fault} for fault in faults), lambda row: str(row["fault"]), as_json)
    if faults:
        ctx.exit(FOUND_SOMETHING)
    if not as_json:
        click.echo("ok")


@click.command()
@file_option
@json_option
@click.argument("state", type=click.Choice(["on", "off"]))
def service(path: Path, as_json: bool, state: str) -> None:
    """Be a service, or not.

    A service subscribes all queues of a router with one request, others one by one. No message is
    lost either way. It pays from some hundred queues on.
    """
    check_exists(path)
    asyncio.run(_switch(path, state == "on"))
    emit([{"service": state}], lambda row: f"service {row['service']}", as_json)


async def _switch(path: Path, on: bool) -> None:
    def switch(tables: Database) -> None:
        for user in users.everyone(tables):
            users.switch_services(tables, user.id, on=on)

    async with await Records.open(path) as records:
        await records.write(switch)
