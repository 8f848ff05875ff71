from __future__ import annotations

import json

from headgate.server.desk.actions import ACTIONS
from headgate.server.desk.openapi import document
from headgate.server.desk.routes.all_paths import PATHS
from tests.support.desk_api import DOCUMENT


def test_every_reference_leads_somewhere_and_every_path_has_a_text() -> None:
    described = json.loads(json.dumps(document([*PATHS, *ACTIONS], "1")))
    assert described == DOCUMENT
    names = described["components"]["schemas"]

    def references(value: object) -> list[str]:
        if isinstance(value, list):
            return [name for each in value for name in references(each)]
        if not isinstance(value, dict):
            return []
        own = [value["$ref"].rpartition("/")[2]] if "$ref" in value else []
        return own + [name for each in value.values() for name in references(each)]

    assert set(references(described)) <= set(names)
    for path in described["paths"].values():
        for operation in path.values():
            assert operation["summary"]
            assert operation["responses"]["200"]["content"]


def test_operations_have_names_of_their_own() -> None:
    names = [op["operationId"] for path in DOCUMENT["paths"].values() for op in path.values()]
    assert len(names) == len(set(names))


def test_fields_have_the_texts_that_stand_under_them() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Point"]["properties"]["loop_lag"]["description"].startswith("How late")
    assert "queues_said" in schemas["ServiceRow"]["properties"]
