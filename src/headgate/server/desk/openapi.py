"""The description of the API, written from its structs and the table of its paths."""

from __future__ import annotations

import inspect
import re
from collections.abc import Generator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from headgate.core.shared.explain import Explanation
from headgate.server.config.default import attribute_docs
from headgate.server.desk import answers, asking
from headgate.server.desk.answers import Answer, Problem
from headgate.server.desk.routes.path import PREFIX, Path

REF = "#/components/schemas/{name}"
ERRORS = (400, 401, 403, 404, 409, 415, 421, 429, 503)


def document(paths: list[Path], version: str) -> dict[str, object]:
    """OpenAPI 3.1."""
    kinds = [*_structs(answers, Answer), *_structs(asking, asking.Question), Explanation]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REF)
    for kind in kinds:
        _describe(kind, schemas[kind.__name__])
    described: dict[str, dict[str, object]] = {}
    for path in paths:
        name = PREFIX + path.path.replace(":path}", "}")
        described.setdefault(name, {})[path.method.lower()] = _operation(path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headgate",
            "version": version,
            "description": "What the admin port of a router answers. Times are seconds since 1970,"
            " durations seconds, sizes bytes. Unknown parameters are refused.",
        },
        "paths": described,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _structs(module: object, base: type[Any]) -> list[type[Any]]:
    found = [each for _, each in inspect.getmembers(module, inspect.isclass)]
    return [each for each in found if issubclass(each, base) and each is not base]


def _describe(kind: type[Any], schema: dict[str, Any]) -> None:
    """Take the texts under the fields, which Python does not keep."""
    is_struct = issubclass(kind, msgspec.Struct)
    written = {f.name: f.encode_name for f in msgspec.structs.fields(kind)} if is_struct else {}
    for attribute, text in attribute_docs(kind).items():
        name = written.get(attribute, attribute)
        if name in schema.get("properties", {}):
            found = schema["properties"][name]
            schema["properties"][name] = {**found, "description": text}


def _operation(path: Path) -> dict[str, object]:
    doc = " ".join((inspect.getdoc(path.handler) or "").split())
    names = re.findall(r"\{(\w+)", path.path)
    where = [(name, "path") for name in names] + [(name, "query") for name in path.parameters]
    operation: dict[str, object] = {
        "summary": doc.partition(". ")[0].rstrip("."),
        "description": doc,
        "operationId": path.handler.__name__,
        "parameters": [
            {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
            for name, place in where
        ],
        "responses": {
            "200": {"description": "Done.", "content": _content(path)},
            **{str(code): _problem() for code in ERRORS},
        },
    }
    if path.body is not None:
        content = {"application/json": {"schema": _ref(path.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _content(path: Path) -> dict[str, object]:
    if path.events:
        return {"text/event-stream": {"schema": {"type": "string"}}}
    kind = answer_of(path)
    if get_origin(kind) is dict:
        columns = {"type": "array", "items": {"type": "number"}}
        return {"application/json": {"schema": {"type": "object", "additionalProperties": columns}}}
    return {"application/json": {"schema": _ref(kind)}}


def answer_of(path: Path) -> Any:  # noqa: ANN401
    """The answer of a path."""
    module = vars(inspect.getmodule(path.handler))
    found = get_type_hints(path.handler, module, _names())["return"]
    # Of what is put together some at a time, what comes of it.
    return get_args(found)[2] if get_origin(found) is Generator else found


def _names() -> dict[str, object]:
    from headgate.server.desk.desk import Desk

    return {"Desk": Desk}


def _ref(kind: type[Any]) -> dict[str, str]:
    return {"$ref": REF.format(name=kind.__name__)}


def _problem() -> dict[str, object]:
    return {"description": "Refused.", "content": {"application/json": {"schema": _ref(Problem)}}}
