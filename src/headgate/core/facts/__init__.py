"""Facts: the vocabulary of journal, metrics and log. Their docstrings are the reference.

Facts carry no secrets, and a body only where its domain allows it. `at` is the time of the turn, in
seconds. Each class declares whether it is rare, its log level, and the metrics that count it; the
outbox, the log, the metrics and the statistics of queues use that. A module has the facts of one
noun and their union at its end; all other code imports them from here.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

from headgate.core.facts.channels import *
from headgate.core.facts.messages import *
from headgate.core.facts.queues import *
from headgate.core.facts.router import *
from headgate.core.facts.services import *
from headgate.core.facts.sessions import *
from headgate.core.facts.subscriptions import *

Fact: TypeAlias = (
    RouterFact
    | SessionFact
    | QueueFact
    | SubscriptionFact
    | MessageFact
    | ServiceFact
    | ChannelFact
)

KINDS: tuple[type[Fact], ...] = get_args(Fact)
