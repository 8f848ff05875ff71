"""Rules for Prometheus: it accepts them, they say what they should, and each has its page."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.support.packages import PACKAGING, documented_metrics, program, run
from tests.support.repository import DOCS
from tools.packages.board import metrics

FOLDER = PACKAGING / "prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
PAGE = (DOCS / "alerts.md").read_text()


def test_prometheus_accepts_them() -> None:
    printed = run(program("promtool", "prometheus"), "check", "rules", FOLDER / "rules.yaml")
    assert f"{len(RULES)} rules found" in printed


def test_they_say_what_they_should_of_numbers_that_are_made_up() -> None:
    run(program("promtool", "prometheus"), "test", "rules", FOLDER / "rules_test.yaml")


def test_every_alert_is_tried() -> None:
    tried = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]
    fired = {
        case["alertname"]
        for test in tried
        for case in test.get("alert_rule_test", ())
        if case["exp_alerts"]
    }
    assert fired == set(ALERTS)


def test_every_alert_has_a_heading_that_it_names() -> None:
    assert re.findall(r"^## (Headgate\w+)$", PAGE, re.M) == list(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_every_metric_is_one_of_the_router() -> None:
    named = {name for rule in RULES for name in metrics(rule["expr"])}
    assert len(named) > 10
    assert named - documented_metrics() == set()


def test_every_command_of_a_page_is_there() -> None:
    commands = (DOCS / "reference" / "cli.md").read_text()
    for name in re.findall(r"`headgate ([a-z]+(?: [a-z]+)?)", PAGE):
        found = (f"## `headgate {name}`", f"## `headgate {name.split()[0]}`")
        assert any(heading in commands for heading in found), name
