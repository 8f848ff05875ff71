"""Channels on loads that look like real use, against redis-server: `make bench-mix`.

    python -m bench.mix --quick                 two short rounds of each
    python -m bench.mix --cells mixed           some; an unknown name prints the list
    python -m bench.mix --control               redis-server on both sides: the noise alone
    python -m bench.mix --against PROGRAM       another checkout's `headgate` in Redis's place

Each cell is drawn from a seed: channels by Zipf, bodies log-normal, short pipelines of drawn
length, subscribers with drawn channels and patterns, some of them with RESP3, PINGs and SETs in
between. The rest is as in `bench.redis`: fresh servers, rounds in turns, the median of the ratios,
contents and order compared.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from bench.mix_load import Mix, MixShape, draw
from bench.redis import Cell, main
from bench.redis_load import Scene
from bench.servers import Server

SHAPES = {
    "mixed": MixShape(publishes=20_000),
    # Rooms with some tens of people; one line at a time.
    "chat": MixShape(
        publishes=8_000, publishers=40, depths=(1, 1), channels=200, skew=0.8, body_median=80,
        body_spread=0.7, subscribers=400, subscriptions=(3, 12), pattern_share=0, other_share=0.02,
    ),
    # Everybody hears of everybody: few channels, many who hear, small bodies.
    "presence": MixShape(
        publishes=3_000, publishers=20, depths=(1, 4), channels=20, skew=0, bodies=(20, 80),
        body_median=40, body_spread=0.3, subscribers=600, subscriptions=(10, 20), pattern_share=0,
    ),
    # Caches that listen to groups of keys by pattern; keys are many.
    "invalidation": MixShape(
        publishes=12_000, publishers=10, depths=(1, 32), channels=20_000, skew=0.6, bodies=(8, 40),
        body_median=16, body_spread=0.2, subscribers=60, subscriptions=(20, 60), pattern_share=0.9,
        newer_share=0.5,
    ),
    # Workers that ask and answer: one command at a time, one who hears.
    "workers": MixShape(
        publishes=12_000, publishers=50, depths=(1, 1), channels=100, skew=0, body_median=300,
        subscribers=100, subscriptions=(1, 2), pattern_share=0, other_share=0.3,
    ),
}  # fmt: skip


def cell(name: str, shape: MixShape) -> Cell:
    def make(server: Server, share: float) -> Scene:
        load = draw(replace(shape, publishes=max(500, int(shape.publishes * share))))
        return Mix(server.address, load)

    return Cell(name, "delivery", make)


CELLS = tuple(cell(name, shape) for name, shape in SHAPES.items())

if __name__ == "__main__":
    main(sys.argv[1:], CELLS, "bench.mix", __doc__)
