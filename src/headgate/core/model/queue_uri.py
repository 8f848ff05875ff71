"""The addresses of shared queues: ``bmq://DOMAIN[.~TIER]/QUEUE[?id=APP]``."""

from __future__ import annotations

import re
from typing import Final

from headgate.core.model.value import value
from headgate.errors import Refused

SCHEME: Final = "bmq://"
TIER: Final = ".~"
APP: Final = "id="

DOMAIN_CHARS_MAX: Final = 255
QUEUE_CHARS_MAX: Final = 64

NAMES: Final = {
    "domain": re.compile(r"[-a-zA-Z0-9._]+"),
    "tier": re.compile(r"[-a-zA-Z0-9]+"),
    "queue": re.compile(r"[-a-zA-Z0-9_~.]+"),
    "app": re.compile(r"[-a-zA-Z0-9_.]+"),
}


@value
class QueueUri:
    """The parts of a queue's address."""

    domain: str
    tier: str
    """Empty if there is none; so is the app."""
    queue: str
    app: str

    @property
    def canonical(self) -> str:
        """The address of the queue without the app."""
        tier = TIER + self.tier if self.tier else ""
        return f"{SCHEME}{self.domain}{tier}/{self.queue}"


def parse_uri(text: str) -> QueueUri:
    """Parse an address; raise with the reason if it names no queue."""
    if not text.startswith(SCHEME):
        raise Refused(f"the address of a queue begins with {SCHEME}")
    authority, slash, path = text[len(SCHEME) :].partition("/")
    if not slash:
        raise Refused("the address names no queue")
    domain, tilde, tier = authority.partition(TIER)
    queue, question, query = path.partition("?")
    if question and not query.startswith(APP):
        raise Refused(f"nothing but ?{APP} may follow the name of the queue")
    _check("domain", domain, DOMAIN_CHARS_MAX)
    if tilde:
        _check("tier", tier, DOMAIN_CHARS_MAX)
    _check("queue", queue, QUEUE_CHARS_MAX)
    app = query[len(APP) :]
    if question:
        _check("app", app, DOMAIN_CHARS_MAX)
    return QueueUri(domain, tier, queue, app)


def _check(part: str, name: str, chars_max: int) -> None:
    if not name:
        raise Refused(f"the {part} of the address is empty")
    if len(name) > chars_max:
        raise Refused(f"the {part} of the address has more than {chars_max} characters")
    if NAMES[part].fullmatch(name) is None:
        raise Refused(f"the {part} of the address has a character that it may not have")
