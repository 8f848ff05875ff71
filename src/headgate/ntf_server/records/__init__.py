"""Records of a notification server, kept between runs in SQLite or in PostgreSQL.

`records.Records` is the place with its one writer; beside it is one module of operations for each
noun: `tokens`, `subscriptions`, `routers`, `notices`. `audit` recounts.
"""

from headgate.ntf_server.records.places import open_place
from headgate.ntf_server.records.records import Records
from headgate.ntf_server.records.tables import Tables

__all__ = ["Records", "Tables", "open_place"]
