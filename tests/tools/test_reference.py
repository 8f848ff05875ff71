from __future__ import annotations

import re

import pytest

from headgate.core.facts import KINDS
from headgate.core.ntf_facts import NTF_KINDS
from headgate.ntf_server import metrics as ntf
from headgate.server.admin.metrics import BUILD, Metrics, full_name
from tools.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    written = (FOLDER / name).read_text()
    assert written == PAGES[name](), "python -m tools.reference writes it anew"


def test_every_metric_is_documented() -> None:
    documented = set(
        re.findall(r"^### `(headgate_\w+)`", (FOLDER / "metrics.md").read_text(), re.M)
    )
    exposed = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in Metrics().collect()
    }
    assert documented == exposed


def test_every_metric_of_a_notification_server_is_documented() -> None:
    documented = re.findall(r"^### `(headgate_\w+)`", (FOLDER / "ntf-metrics.md").read_text(), re.M)
    described = (BUILD, *ntf.GAUGES, *ntf.TOTALS, ntf.LIMITS, ntf.HANDSHAKES, ntf.PUSH_SECONDS)
    assert [name.removesuffix("_total") for name in documented] == [
        full_name(each) for each in described
    ]


def test_every_fact_is_documented() -> None:
    documented = re.findall(r"^### `(\w+)`", (FOLDER / "facts.md").read_text(), re.M)
    assert documented == [kind.__name__ for kind in (*KINDS, *NTF_KINDS)]
