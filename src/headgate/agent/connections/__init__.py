"""Connections: two agents that write to each other through a queue each way.

- `connections`: all parts together; `calls`, `connection`: the application's side.
- `handshake`, `envelope_opening`, `message_sealing`, `status`: decisions, without I/O.
- `inviting`, `joining`, `accepting`, `leaving`: actions, on top of the `parts` they share;
  `queue_making`, `link_planning`: queues and their short links.
- `command_tasks`: work that goes on after a crash; `announcing`: events shown until they are read.
- `ratchet_openers`, `ratchet_sealer`: for receiving and sending.
"""
