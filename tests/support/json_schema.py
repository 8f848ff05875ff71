"""JSON against the schemas that this project writes: stricter than the standard asks for, since a
field that is not described is a mistake too."""

from __future__ import annotations

from typing import Any

KNOWN = {
    *("type", "properties", "required", "items", "anyOf", "$ref", "enum", "additionalProperties"),
    *("title", "description", "default"),
}
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def faults(value: object, schema: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """What of a value is not as its schema says."""
    return list(_faults(value, schema, document, "$"))


def _faults(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str) -> list[str]:  # noqa: ANN401
    unknown = set(schema) - KNOWN
    assert not unknown, f"{at}: a schema says {unknown}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return _faults(value, document["components"]["schemas"][name], document, at)
    if "anyOf" in schema:
        found = [_faults(value, each, document, at) for each in schema["anyOf"]]
        return [] if [] in found else min(found, key=len)
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    kind = schema.get("type")
    if kind is not None:
        is_wrong_bool = isinstance(value, bool) and kind != "boolean"
        if is_wrong_bool or not isinstance(value, TYPES[kind]):
            return [f"{at}: {value!r} is no {kind}"]
    if kind == "array":
        items = schema.get("items", {})
        return [
            f for n, each in enumerate(value) for f in _faults(each, items, document, f"{at}[{n}]")
        ]
    return _object(value, schema, document, at) if kind == "object" else []


def _object(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str) -> list[str]:  # noqa: ANN401
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    found = [f"{at}: lacks {name}" for name in schema.get("required", ()) if name not in value]
    for name, each in value.items():
        if name in properties:
            found += _faults(each, properties[name], document, f"{at}.{name}")
        elif isinstance(more, dict):
            found += _faults(each, more, document, f"{at}.{name}")
        elif properties:
            found.append(f"{at}: has {name}, which is not described")
    return found
