"""Shares: the part of a router's limits for each of its workers."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.model.limits import Limits
from headgate.server.config import Config


def divided(limits: Limits, workers: int) -> Limits:
    """Limits for one worker: sessions and the bytes of all mailboxes are divided; other limits
    concern a session, a command, or worker 0."""
    return replace(
        limits,
        sessions=max(1, limits.sessions // workers),
        budget_bytes=max(1, limits.budget_bytes // workers),
    )


def share_of(config: Config, workers: int) -> Config:
    """The configuration of one of so many workers."""
    listen, resp = config.listen, config.listen.resp
    if resp is not None and resp.publish_buffer_limit is not None:
        budget = max(1, resp.publish_buffer_limit // workers)
        listen = replace(listen, resp=replace(resp, publish_buffer_limit=budget))
    smp = config.smp
    if smp.max_sessions:
        smp = replace(smp, max_sessions=max(1, smp.max_sessions // workers))
    return replace(config, listen=listen, smp=smp, limits=divided(config.limits, workers))
