"""The engine, which decides what queues an agent subscribes, when and in which session.

Nothing in here does I/O, reads a clock or draws a number. What happened comes in as calls of
`engine.Engine`, with the time; what has to be done goes out as `effects`, in order.

- `engine`: the inputs; `settings`: one value for the role and its numbers.
- `slots`, `worker`, `backoff`: sessions, and when the next is tried.
- `queue_states`, `readings`: what is pending and active, and what is still to be read.
- `services`: a service at a router; `announcements`: who was announced.
- `answers`: what a router answered, and what its errors mean.
"""
