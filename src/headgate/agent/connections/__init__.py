"""Connections: two agents that write to each other through a queue each way.

- `connections`: what belongs together; `calls`, `connection`: what an application holds.
- `handshake`, `envelope_opening`, `message_sealing`, `status`: what decides, without I/O.
- `inviting`, `joining`, `accepting`, `leaving`: what does it, on top of the `parts` they share;
  `queue_making`, `link_planning`: queues and their short links.
- `command_tasks`: what goes on after a crash; `announcing`: what is shown until it was read.
- `ratchet_openers`, `ratchet_sealer`: for receiving and sending.
"""
