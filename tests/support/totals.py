"""Totals that the core keeps as it goes, held against what they are totals of."""

from __future__ import annotations

from collections import Counter

from headgate.core.shard import Shard


def assert_totals(shard: Shard) -> None:
    """What is unconfirmed and undelivered was counted right."""
    states = [state for _, state in shard.session_states.items()]
    counted = shard.session_states.unconfirmed
    assert counted.count == sum(len(state.gates) for state in states)
    times = [gate.at for state in states for gate in state.gates.values()]
    assert counted.oldest() == min(times, default=None)
    totals = shard.shared.totals
    apps = [(queue, app) for queue in shard.shared.queues.values() for app in queue.apps.values()]
    by_domain: Counter[str] = Counter()
    for queue, app in apps:
        by_domain[queue.domain.name] += len(app.outstanding)
    assert +totals.unconfirmed_by_domain == +by_domain
    assert totals.unconfirmed == sum(by_domain.values())
    behind = {(queue.id, app.id) for queue, app in apps if app.undelivered()}
    assert set(totals.behind) == behind
    assert all(
        totals.behind[queue.id, app.id][1] is app for queue, app in apps if app.undelivered()
    )
