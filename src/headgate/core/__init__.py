"""The core decides: what a command changes, who gets a message, what is stored and told.

It does no I/O, has no clock and draws no lots, so the same code runs in the router, in tests and in
the simulator. From above to below:

- `broker` has the channels and the shard; `shard` carries out a turn.
- The ways to subscribe, which do not know each other: `exclusive` (queues and services: SMP),
  `shared` (apps, priorities, predicates: BlazingMQ), `channels` (ephemeral fan-out: Redis); and
  `redis`, what Redis clients expect beside it: keys, users, a cluster's slots.
- `turn`: how a batch of commands becomes one transaction of the store.
- `commands`, `effects`, `facts`: what the core is asked, what it answers, what has happened.
- `delivery`: what all ways share: addresses, windows, mailboxes, sessions.
- `login`: who gets in: tokens, clients that are not known yet, failures that make one wait.
- `model`: values without behaviour of their own: ids, messages, domains, limits.
"""
