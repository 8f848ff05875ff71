"""The router as a process: it opens the store and the sockets, drives turns, and tells how it does.

- `router` and `driver`: commands in, turns, effects out. They know no wire.
- `wires`: a listener for each wire; `net`: sockets, TLS, connections with mailboxes.
- `admin`: the port for operators and for the pipeline; `log`.
- `serve`: starts all of it in order, and ends it; `check`: looks beforehand whether it would start.
"""
