"""The known keys of a router's configuration: a tree that follows from its sections.

The keys of a domain are listed one by one, since the core does not know how they are written.
"""

from __future__ import annotations

from dataclasses import MISSING, fields

from headgate.core.model.binding import SPOKEN_AS
from headgate.core.model.body_paths import ENVELOPES
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.limits import Limits
from headgate.server.config.binding_kinds import Feeds, Paths
from headgate.server.config.kinds import (
    Choice,
    Duration,
    Flag,
    Kind,
    Size,
    Subscriptions,
    Text,
    Texts,
    Types,
    Unlimited,
    Whole,
)
from headgate.server.config.sections import (
    Desk,
    Journal,
    Listen,
    Log,
    RouterAdmin,
    Smp,
    Store,
    Workers,
)
from headgate.server.config.tree import Group, Key, Tree, group


def _limit(name: str) -> Kind:
    return Size(1) if name.endswith("bytes") or "_bytes_" in name else Whole(1)


DOMAIN_KINDS: dict[str, Kind] = {
    "mode": Choice(*(mode.value for mode in Mode if mode is not Mode.EXCLUSIVE)),
    "apps": Texts(),
    "subscriptions": Subscriptions(),
    "max_messages": Unlimited(Whole()),
    "max_bytes": Unlimited(Size()),
    "domain_max_messages": Unlimited(Whole()),
    "domain_max_bytes": Unlimited(Size()),
    "message_ttl": Unlimited(Duration()),
    "max_delivery_attempts": Whole(),
    "suspicious_delay_low": Duration(),
    "suspicious_delay_high": Duration(),
    "max_consumers": Whole(),
    "max_producers": Whole(),
    "max_queues": Whole(),
    "queue_ttl": Duration(),
    "max_idle_time": Duration(),
    "deduplication_time": Duration(),
    "journal_bodies": Flag(),
    "readers": Unlimited(Texts(), "all"),
    "writers": Unlimited(Texts(), "all"),
    "creators": Unlimited(Texts(), "all"),
    "streams": Texts(),
    "groups": Choice("fixed", "open"),
    "group": Text("the name of a group", r"[^\x00-\x20\x7f\ud800-\udfff]{1,255}"),
    "consumer_grace": Unlimited(Duration(), "never"),
    "body_field": Text("the name of a field, or nothing", r"[^\x00-\x1f\x7f\ud800-\udfff]{0,255}"),
    "fields": Types(),
    "properties": Paths(),
    "envelope": Choice(*ENVELOPES),
    "feeds": Feeds(),
    "speaks": Text("the name of a channel, or nothing", r"[^\x00-\x1f\x7f\ud800-\udfff]{0,255}"),
    "speaks_as": Choice(*SPOKEN_AS),
    "max_groups": Whole(1),
    "group_idle": Duration(),
    "keep_messages": Whole(),
    "keep_time": Duration(),
    "dead_letter": Text(
        "a domain, DOMAIN/QUEUE, or nothing", r"([-a-zA-Z0-9._]{1,255}(/[-a-zA-Z0-9_~.]{1,64})?)?"
    ),
}
DOMAIN_DEFAULTS = {f.name: f.default for f in fields(Domain) if f.default is not MISSING} | {
    "mode": Mode.PRIORITY.value,
    "apps": (),
    "subscriptions": {},
    "fields": {},
    "properties": {},
}
DOMAIN = Group(
    dict,
    {name: Key(kind, DOMAIN_DEFAULTS[name]) for name, kind in DOMAIN_KINDS.items()},
    source=Domain,
)
DOMAIN_DOCS = {
    "mode": "Who gets a message: one of the best consumers, one consumer of every app, or all.",
    "apps": "The apps of a fanout domain.",
    "subscriptions": "By app, the expressions of which one must be true, or the app does not get"
    ' the message. The app of a domain without apps is "".',
}

KNOWN: dict[str, Key | Group] = {
    "directory": Key(Text("the path of a folder"), "var"),
    "store": group(Store),
    "workers": group(Workers),
    "listen": group(Listen),
    "smp": group(Smp),
    "admin": group(RouterAdmin),
    "desk": group(Desk),
    "journal": group(Journal),
    "log": group(Log),
    "limits": Group(
        Limits,
        {f.name: Key(_limit(f.name), f.default) for f in fields(Limits)},
        source=Limits,
    ),
}
DOMAINS = "domains"

ROUTER = Tree(
    KNOWN,
    removed={
        "listen.resp.workers": "is no key any more: set workers.count instead",
    },
)
