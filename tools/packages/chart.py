"""A chart rendered without Helm: the few words of its language that the house's own chart uses.

`python -m tools.packages.chart` writes the manifests of `packaging/kubernetes/base` from the chart
and its values, so that those who use Kustomize and those who use Helm have the same. What the
chart must not use is refused, not guessed: Helm itself is not needed for a test to fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import yaml

FOLDER = Path(__file__).parents[2] / "packaging" / "kubernetes"
CHART, BASE = FOLDER / "chart", FOLDER / "base"
NOTE = "# Written by `python -m tools.packages.chart` from ../chart; a test compares.\n"

TOKEN = re.compile(r"(\s*)\{\{-\s*(.*?)\s*\}\}|\{\{\s+(.*?)\s*\}\}", re.DOTALL)
"""An action, with the white space before it that `{{-` takes away."""

Scope = Mapping[str, Any]
"""What names stand for: `.` with Values, Release and Files, and variables of a loop."""


class Node(NamedTuple):
    """A part of a template: text, an action, or a block with what is in it."""

    word: str
    argument: str
    parts: tuple[Node, ...] = ()


def render(chart: Path, release: str, values: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The manifests of a chart, by the names of their templates; those that come out empty are
    left out."""
    defaults = yaml.safe_load((chart / "values.yaml").read_text())
    scope = {
        "Values": {**defaults, **(values or {})},
        "Release": {"Name": release},
        "Files": chart,
    }
    found = {
        path.name: "".join(_rendered(_parsed(path.read_text()), scope))
        for path in sorted((chart / "templates").iterdir())
    }
    return {name: text for name, text in found.items() if text.strip()}


def _parsed(text: str) -> tuple[Node, ...]:
    stack: list[tuple[str, str, list[Node]]] = [("", "", [])]
    place = 0
    for match in TOKEN.finditer(text):
        stack[-1][2].append(Node("text", text[place : match.start()]))
        place = match.end()
        action = match[2] or match[3]
        word, _, argument = action.partition(" ")
        if word in ("if", "range"):
            stack.append((word, argument, []))
        elif word == "end":
            opened, condition, parts = stack.pop()
            stack[-1][2].append(Node(opened, condition, tuple(parts)))
        else:
            stack[-1][2].append(Node("value", action))
    assert len(stack) == 1, "every block has an end"
    stack[0][2].append(Node("text", text[place:]))
    return tuple(stack[0][2])


def _rendered(nodes: tuple[Node, ...], scope: Scope) -> Iterator[str]:
    for node in nodes:
        if node.word == "text":
            yield node.argument
        elif node.word == "value":
            yield str(_value(node.argument, scope))
        elif node.word == "if":
            if _value(node.argument, scope):
                yield from _rendered(node.parts, scope)
        else:
            yield from _repeated(node, scope)


def _repeated(node: Node, scope: Scope) -> Iterator[str]:
    """`range $name, $value := .a.map`, in the order of the names, as Go has it."""
    found = re.fullmatch(r"\$(\w+), \$(\w+) := (\S+)", node.argument)
    assert found is not None, f"not understood: range {node.argument}"
    for name, value in sorted(_value(found[3], scope).items()):
        yield from _rendered(node.parts, {**scope, f"${found[1]}": name, f"${found[2]}": value})


def _value(expression: str, scope: Scope) -> Any:  # noqa: ANN401
    first, *calls = (part.strip() for part in expression.split("|"))
    value = _first(first, scope)
    for call in calls:
        found = re.fullmatch(r"nindent (\d+)", call)
        assert found is not None, f"not understood: {call}"
        value = "\n" + indent(str(value), " " * int(found[1]))
    return value


def _first(term: str, scope: Scope) -> Any:  # noqa: ANN401
    if term.startswith("toYaml "):
        return yaml.safe_dump(_first(term.removeprefix("toYaml "), scope)).rstrip("\n")
    if found := re.fullmatch(r'\.Files\.Get "([\w./]+)"', term):
        return (scope["Files"] / found[1]).read_text()
    if term.startswith("$"):
        return scope[term]
    assert re.fullmatch(r"(\.\w+)+", term), f"not understood: {term}"
    value: Any = scope
    for name in term.split(".")[1:]:
        value = value[name]
    return value


def base() -> dict[str, str]:
    """The files of the base, by name."""
    manifests = render(CHART, "headgate")
    listed = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(manifests),
    }
    files = {name: NOTE + text for name, text in manifests.items()}
    return {**files, "kustomization.yaml": NOTE + yaml.safe_dump(listed, sort_keys=False)}


if __name__ == "__main__":
    BASE.mkdir(exist_ok=True)
    for old in BASE.iterdir():
        old.unlink()
    for name, text in base().items():
        (BASE / name).write_text(text)
    print(f"{BASE} written")
