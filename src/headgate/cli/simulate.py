"""``headgate simulate``."""

from __future__ import annotations

import sys

import click

from headgate.ntf_server.testing.world import NtfWorld
from headgate.testing.agents.router_world import STEPS as AGENT_STEPS
from headgate.testing.agents.router_world import RouterWorld, shortest
from headgate.testing.agents.world import AgentWorld
from headgate.testing.trace import LINES_SHOWN, Violation
from headgate.testing.world import World

STEPS = 600


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="The world to make.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help=f"How much happens: {STEPS} steps, or {AGENT_STEPS} with --agents or --ntf.",
)
@click.option("--count", type=click.IntRange(min=1), help="Run so many seeds, from this one on.")
@click.option("--agents", is_flag=True, help="Make worlds of agents, not of the router's clients.")
@click.option("--ntf", is_flag=True, help="Make worlds of a notification server.")
@click.option("--trace", is_flag=True, help="Print what happens, one line per step.")
def simulate(
    seed: int, steps: int | None, count: int | None, agents: bool, ntf: bool, trace: bool
) -> None:
    """Play worlds, and watch that promises hold.

    The router's core, agents or a notification server run in a simulated world. Clients, a slow and
    lossy network, a store that fails and a router that crashes, all decided by the seed: the same
    seed always gives the same world. In a world of agents, or of a notification server, these are
    real, and their routers are simulated. Exit code 1 means that a promise was broken; the last
    lines say how it came to that.
    """
    if steps is None:
        steps = AGENT_STEPS if agents or ntf else STEPS
    if agents and ntf:
        raise click.UsageError("--agents and --ntf are two kinds of worlds")
    kind, make_small = ("--ntf ", NtfWorld) if ntf else ("--agents ", AgentWorld)
    has_clients = not (agents or ntf)
    for each in range(seed, seed + (count or 1)):
        world = World(each) if has_clients else make_small(each)
        try:
            _play(world, steps)
        except Violation as violation:
            _print(world, None if trace else LINES_SHOWN)
            click.echo(f"seed {each}: {violation.checker}: {violation.what}", err=True)
            fewest = steps if has_clients else shortest(make_small, each, steps)
            kind = "" if has_clients else kind
            again = f"headgate simulate {kind}--seed {each} --steps {fewest} --trace"
            click.echo(f"To see all of it: {again}", err=True)
            sys.exit(1)
        if trace:
            _print(world, None)
        if count is None:
            click.echo(f"seed {each}: {world.summary()}")
    if count is not None:
        click.echo(f"{count} seeds from {seed} on: no violation")


def _play(world: World | RouterWorld, steps: int) -> None:
    if isinstance(world, RouterWorld):
        world.play(steps)
    else:
        world.run(steps)
        world.finish()


def _print(world: World | RouterWorld, last: int | None) -> None:
    for line in world.trace.lines(last):
        click.echo(line)
