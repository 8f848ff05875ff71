"""The domains, apps and sessions of a router, for whoever named one that is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from headgate.cli.admin import Admin
from headgate.cli.queue_name import SCHEME
from headgate.cli.which_router import Asked
from headgate.errors import HeadgateError, NoRouter, NotAllowed, RouterError

if TYPE_CHECKING:
    from headgate.server.config import Config

Known = Mapping[str, Sequence[str]]
"""Domains with shared queues, and the apps of each; none where there are no apps."""

DOMAINS_MAX = 100
LATER = (429, 503)
"""Answers that are about the router, and not about what was named."""
NAMED_MAX = 10
"""Names that are told of those that there are."""


def known_domains(admin: Admin) -> Known:
    """The domains of a router."""
    rows = admin.get("/domains", limit=DOMAINS_MAX)["rows"]
    return {row["domain"]: row["apps"] for row in rows if row["mode"] != "exclusive"}


def domains_wherever(asked: Asked, settings: Config) -> Known:
    """The domains of the router, or if it cannot be asked, of the configuration."""
    try:
        return known_domains(asked.admin())
    except HeadgateError:
        return {
            domain.name: [app for app in domain.apps if app] for domain in settings.domains.values()
        }


def domain_problem(domain: str, known: Known) -> str | None:
    """The error of the name of a domain."""
    if domain in known:
        return None
    near = next(iter(get_close_matches(domain, known, n=1)), None)
    meant = f" (did you mean {near}?)" if near else ""
    return f"there is no domain {domain} with shared queues{meant}; known are {_listed(known)}"


def app_problem(domain: str, app: str, known: Known) -> str | None:
    """The error of the name of an app, in a domain that exists."""
    apps = known.get(domain, ())
    if app in apps or (not app and not apps):
        return None
    if not apps:
        return f"the domain {domain} has no apps; leave {app} out"
    named = f"has no app {app}" if app else "is read by its apps"
    return f"the domain {domain} {named}; known are {_listed(apps)}"


def _listed(names: Mapping[str, object] | Sequence[str]) -> str:
    shown = ", ".join(list(names)[:NAMED_MAX])
    more = len(names) - NAMED_MAX
    return (shown or "none") + (f" and {more} more" if more > 0 else "")


@contextmanager
def naming(admin: Admin, queue_or_domain: str, app: str | None = None) -> Iterator[None]:
    """If the router does not know a domain or an app, say which it knows."""
    try:
        yield
    except (NoRouter, NotAllowed):
        raise
    except RouterError as error:
        if error.status is None or error.status in LATER:
            raise
        domain = domain_of(queue_or_domain)
        known = known_domains(admin)
        problem = domain_problem(domain, known)
        if problem is None and app is not None:
            problem = app_problem(domain, app, known)
        raise RouterError(problem or str(error), error.status) from None


def domain_of(name: str) -> str:
    """The domain of a queue, or of itself."""
    return name.removeprefix(SCHEME).partition("/")[0].partition(".~")[0]


def session_number(admin: Admin, text: str, *, acts: bool = False) -> int:
    """The session that is meant, by its number or its name. An action needs the number: names are
    chosen by peers, and several may have one."""
    if text.isdecimal():
        return int(text)
    rows = admin.get("/sessions", q=text, limit=DOMAINS_MAX)["rows"]
    found = [row for row in rows if row["name"] == text] or rows
    if not found:
        raise RouterError(f"no session is called {text}; headgate session ls lists those there are")
    if len(found) == 1 and not acts:
        return int(found[0]["session"])
    numbers = ", ".join(f"{row['session']} {row['name']}" for row in found[:NAMED_MAX])
    raise RouterError(f"say the number of the session; called {text}: {numbers}")
