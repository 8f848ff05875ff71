"""``headgate simulate``."""

from __future__ import annotations

import sys

import click

from headgate.testing.trace import LINES_SHOWN, Violation
from headgate.testing.world import World


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="The world to make.")
@click.option("--steps", type=click.IntRange(min=1), default=600, show_default=True)
@click.option("--count", type=click.IntRange(min=1), help="Run so many seeds, from this one on.")
@click.option("--trace", is_flag=True, help="Print what happens, one line per step.")
def simulate(seed: int, steps: int, count: int | None, trace: bool) -> None:
    """Run the router's core in a simulated world and watch that its promises hold.

    Clients, a slow and lossy network, a store that fails and a router that crashes, all
    decided by the seed: the same seed always gives the same world. Exit code 1 means that a
    promise was broken; the last lines say how it came to that.
    """
    for each in range(seed, seed + (count or 1)):
        world = World(each)
        try:
            world.run(steps)
            world.finish()
        except Violation as violation:
            _print(world, None if trace else LINES_SHOWN)
            click.echo(f"seed {each}: {violation.checker}: {violation.what}", err=True)
            again = f"headgate simulate --seed {each} --steps {steps} --trace"
            click.echo(f"To see all of it: {again}", err=True)
            sys.exit(1)
        if trace:
            _print(world, None)
        if count is None:
            click.echo(f"seed {each}: {world.summary()}")
    if count is not None:
        click.echo(f"{count} seeds from {seed} on: no violation")


def _print(world: World, last: int | None) -> None:
    for line in world.trace.lines(last):
        click.echo(line)
