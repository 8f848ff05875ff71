"""The engine, which decides what queues an agent subscribes, when and in which session.

Nothing in here does I/O, reads a clock or uses randomness. Events come in as calls of
`engine.Engine`, with the time; work goes out as `effects`, in order.

- `engine`: the inputs; `settings`: one value for the role and its numbers.
- `slots`, `worker`, `backoff`: sessions, and pauses before the next.
- `queue_states`, `readings`: pending and active queues, and those still to be read.
- `services`: a service at a router; `announcements`: announced connections.
- `answers`: answers of routers, and the meaning of their errors.
"""
