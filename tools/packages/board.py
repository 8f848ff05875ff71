"""Grafana's board, from a table of panels: `python -m tools.packages.board` writes it.

A panel is a title, a unit and its queries, each with its legend. `$instance` is which routers are
shown, `$__rate_interval` is Grafana's own: four scrapes at least.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[2] / "packaging" / "grafana" / "headgate.json"

COLUMNS = 24
"""Of Grafana's grid."""
HEIGHT = 8


class Query(NamedTuple):
    """What is asked of Prometheus, and what its lines are called."""

    expression: str
    legend: str = "{{instance}}"


class Panel(NamedTuple):
    """One chart."""

    title: str
    unit: str
    queries: tuple[Query, ...]


class Row(NamedTuple):
    """Charts side by side, under a heading."""

    title: str
    panels: tuple[Panel, ...]


def value(metric: str, legend: str = "{{instance}}") -> Query:
    """A number as it is."""
    return Query(f"{metric}{{{CHOSEN}}}", legend)


def rate(metric: str, legend: str = "{{instance}}", *, by: str = "") -> Query:
    """How much of a counter comes in a second."""
    rates = f"rate({metric}{{{CHOSEN}}}[$__rate_interval])"
    return Query(f"sum by (instance, {by}) ({rates})" if by else rates, legend)


def quantile(share: float, metric: str, legend: str) -> Query:
    """So large a share of a histogram is below it."""
    buckets = f"rate({metric}_bucket{{{CHOSEN}}}[$__rate_interval])"
    return Query(f"histogram_quantile({share}, sum by (instance, le) ({buckets}))", legend)


CHOSEN = 'job="headgate", instance=~"$instance"'
BY_DOMAIN = "{{instance}} {{domain}}"

BOARD = (
    Row(
        "Is it well",
        (
            Panel("Answers", "bool_on_off", (value("up"),)),
            Panel("Sessions", "short", (value("headgate_sessions"),)),
            Panel(
                "Slow sessions, and who waits for them",
                "short",
                (
                    value("headgate_sessions_slow", "{{instance}} slow"),
                    value("headgate_publishers_waiting", "{{instance}} publishers waiting"),
                ),
            ),
            Panel("Turns busy", "percentunit", (rate("headgate_turn_seconds_total"),)),
        ),
    ),
    Row(
        "What goes through",
        (
            Panel(
                "Messages in",
                "ops",
                (
                    rate("headgate_messages_received_total", "{{instance}} queues"),
                    rate("headgate_channel_messages_total", "{{instance}} channels"),
                ),
            ),
            Panel(
                "Deliveries",
                "ops",
                (
                    rate("headgate_deliveries_total", "{{instance}} queues"),
                    rate("headgate_channel_deliveries_total", "{{instance}} channels"),
                    rate("headgate_redeliveries_total", "{{instance}} again"),
                ),
            ),
            Panel(
                "From delivery to confirm",
                "s",
                (
                    quantile(0.5, "headgate_confirm_seconds", "{{instance}} half"),
                    quantile(0.99, "headgate_confirm_seconds", "{{instance}} 99 %"),
                ),
            ),
            Panel("Bytes in", "Bps", (rate("headgate_messages_received_bytes_total"),)),
        ),
    ),
    Row(
        "What waits",
        (
            Panel("Backlog", "short", (value("headgate_backlog_messages"),)),
            Panel(
                "Oldest unconfirmed delivery", "s", (value("headgate_oldest_unconfirmed_seconds"),)
            ),
            Panel(
                "Put aside, poisoned, expired",
                "ops",
                (
                    rate("headgate_messages_put_aside_total", "{{instance}} put aside"),
                    rate("headgate_messages_poisoned_total", "{{instance}} poisoned"),
                    rate("headgate_messages_expired_total", "{{instance}} expired"),
                ),
            ),
            Panel(
                "Memory of waiting messages",
                "bytes",
                (
                    value("headgate_mailbox_bytes", "{{instance}} mailboxes"),
                    value("headgate_backlog_bytes", "{{instance}} backlog"),
                ),
            ),
        ),
    ),
    Row(
        "By domain",
        (
            Panel("Backlog", "short", (value("headgate_domain_backlog_messages", BY_DOMAIN),)),
            Panel(
                "Backlog in bytes", "bytes", (value("headgate_domain_backlog_bytes", BY_DOMAIN),)
            ),
            Panel(
                "Unconfirmed deliveries",
                "short",
                (value("headgate_domain_deliveries_unconfirmed", BY_DOMAIN),),
            ),
            Panel("Quota used", "percentunit", (value("headgate_domain_quota_ratio", BY_DOMAIN),)),
        ),
    ),
    Row(
        "What goes wrong",
        (
            Panel(
                "Refused requests",
                "ops",
                (rate("headgate_requests_refused_total", "{{instance}} {{reason}}", by="reason"),),
            ),
            Panel(
                "Sessions that end",
                "ops",
                (rate("headgate_sessions_closed_total", "{{instance}} {{reason}}", by="reason"),),
            ),
            Panel(
                "Who does not get in",
                "ops",
                (
                    rate(
                        "headgate_handshakes_failed_total", "{{instance}} TLS, {{wire}}", by="wire"
                    ),
                    rate(
                        "headgate_authentications_failed_total",
                        "{{instance}} login, {{wire}}",
                        by="wire",
                    ),
                    rate("headgate_limits_reached_total", "{{instance}} limit {{name}}", by="name"),
                ),
            ),
            Panel(
                "Store and journal",
                "short",
                (
                    rate("headgate_turn_failures_total", "{{instance}} failed turns a second"),
                    value("headgate_journal_lag", "{{instance}} facts not in the journal"),
                ),
            ),
        ),
    ),
    Row(
        "The process",
        (
            Panel("CPU", "percentunit", (rate("process_cpu_seconds_total"),)),
            Panel("Memory", "bytes", (value("process_resident_memory_bytes"),)),
            Panel("Event loop late", "s", (value("headgate_loop_lag_seconds"),)),
            Panel(
                "Open files",
                "short",
                (
                    value("process_open_fds", "{{instance}} open"),
                    value("process_max_fds", "{{instance}} allowed"),
                ),
            ),
        ),
    ),
)


def queries() -> Iterator[str]:
    """All that the board asks."""
    for row in BOARD:
        for panel in row.panels:
            yield from (query.expression for query in panel.queries)


def metrics(expression: str) -> set[str]:
    """The router's metrics in an expression, by the names that its reference gives them."""
    found = set(re.findall(r"(?<![:\w])(?:headgate|process)_\w+", expression))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def board() -> dict[str, object]:
    """As Grafana imports it."""
    return {
        "uid": "headgate",
        "title": "Headgate",
        "tags": ["headgate"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _instance()]},
        "panels": list(_panels()),
    }


def _datasource() -> dict[str, object]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _instance() -> dict[str, object]:
    question = 'label_values(headgate_build_info{job="headgate"}, instance)'
    return {
        "name": "instance",
        "label": "Router",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": question, "refId": "instances"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panels() -> Iterator[dict[str, object]]:
    number, top = 0, 0
    for row in BOARD:
        number += 1
        at = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": at, "collapsed": False}
        width = COLUMNS // len(row.panels)
        for place, panel in enumerate(row.panels):
            number += 1
            at = {"x": place * width, "y": top + 1, "w": width, "h": HEIGHT}
            yield {"id": number, "gridPos": at, **_chart(panel)}
        top += 1 + HEIGHT


def _chart(panel: Panel) -> dict[str, object]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + n),
                "datasource": _SOURCE,
                "expr": q.expression,
                "legendFormat": q.legend,
            }
            for n, q in enumerate(panel.queries)
        ],
    }


def text() -> str:
    """The file."""
    return json.dumps(board(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
    print(f"{FILE} written")
