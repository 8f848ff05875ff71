"""The core decides what a command changes, which session gets a message, and what is stored and
recorded.

It does no I/O and uses no clock and no random numbers, so the same code runs in the router, in
tests and in the simulator. From top to bottom:

- `broker` has the channels and the shard; `shard` carries out a turn.
- The ways to subscribe, independent of each other: `exclusive` (queues and services: SMP),
  `shared` (apps, priorities, predicates: BlazingMQ), `channels` (ephemeral fan-out: Redis); and
  `redis`, which Redis clients need beside channels: keys, users, a cluster's slots.
- `turn`: how a batch of commands becomes one transaction of the store.
- `commands`, `effects`, `facts`: the requests to the core, its answers, and what has happened.
- `delivery`, shared by all ways: addresses, windows, mailboxes, sessions.
- `login`: tokens, clients that are not known yet, waits after failures.
- `model`: plain values: ids, messages, domains, limits.
"""
