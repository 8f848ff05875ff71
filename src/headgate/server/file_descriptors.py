"""File descriptors: how many this process may have, and how many sessions they allow."""

from __future__ import annotations

import logging
import resource

from headgate.server.config import Config, Listen

DESCRIPTORS_RESERVED = 192
"""File descriptors for other things than sessions: the store, the admin port, the log."""

logger = logging.getLogger("headgate")


def raise_limit(needed: int) -> int:
    """Allow this process so many, or as many as it may have; return how many that are."""
    now, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else hard
    if now != resource.RLIM_INFINITY and now < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, needed), hard))
    return most


def file_descriptors(config: Config) -> tuple[int, int]:
    """How many this process may have at most, and how many the sessions could need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    listens = config.listen != Listen()
    needed = DESCRIPTORS_RESERVED + (config.limits.sessions if listens else 0)
    return (needed if most == resource.RLIM_INFINITY else most), needed


def sessions_possible(config: Config) -> int:
    """As many sessions as the limit and the file descriptors allow: one more gets an error that
    says so, instead of no answer."""
    most, needed = file_descriptors(config)
    fewer = max(1, most - DESCRIPTORS_RESERVED)
    return fewer if most < needed else config.limits.sessions


def raise_descriptors(config: Config) -> None:
    """Allow as many file descriptors as the sessions could need, or say that there are fewer."""
    most, needed = file_descriptors(config)
    raise_limit(needed)
    if most < needed:
        fields = {"sessions": sessions_possible(config), "file_descriptors": most}
        logger.info("fewer sessions than limits.sessions", extra={"fields": fields})
