"""Facts: the vocabulary of journal, metrics and log. A docstring is the documentation.

Facts carry no secrets, and a body only where its domain says so. `at` is the time of the turn, in
seconds. Each class says whether it is rare, as what it is logged, and which metrics count it; the
outbox, the log, the metrics and the statistics of queues take it from there. A module has the facts
of one noun and their union at its end; everybody else takes them from here.
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
