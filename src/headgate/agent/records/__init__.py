"""Records of an agent, kept between runs; for the reasons see docs/design/agent-records.md.

`records.Records` is the file with its one writer; beside it is one module of operations for each
noun: `users`, `routers`, `services`, `connections`, `receive_queues`, `send_queues`, `ratchets`,
`received`, `outgoing`, `commands`, `requests`, `push_tokens`. `steps` has the transactions that
come before something is sent, and `check` recounts.
"""

from headgate.agent.records.database import Database
from headgate.agent.records.records import Records

__all__ = ["Database", "Records"]
