"""Subscriptions to route by, and the files they come in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.errors import PipelineError
from headgate.pipeline.routing.subscriptions import Filter, Group, Subscription, Subscriptions

CONSUMER = {"id": "a", "app": "audit", "expression": "x == 1", "priority": 3}
FILTER = {"app": "audit", "filter": "x > 0"}


def written(tmp_path: Path, text: str, name: str = "subscriptions.jsonl") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


LINES = f"{json.dumps(CONSUMER)}\n\n{json.dumps(FILTER)}\n"
ARRAY = json.dumps([CONSUMER, FILTER], indent=2)
TOML = """
[[subscriptions]]
id = "a"
app = "audit"
expression = "x == 1"
priority = 3

[[filters]]
app = "audit"
filter = "x > 0"
"""


@pytest.mark.parametrize(
    ("text", "name"), [(LINES, "s.jsonl"), (ARRAY, "s.json"), (TOML, "s.toml")]
)
def test_json_lines_a_json_array_and_toml_say_the_same(
    tmp_path: Path, text: str, name: str
) -> None:
    read = Subscriptions.read(written(tmp_path, text, name))
    assert read.consumers == (Subscription("a", "audit", "x == 1", 3),)
    assert read.filters == (Filter("audit", "x > 0"),)
    assert list(read.trees) == ["x == 1", "x > 0"]


def test_a_subscription_needs_only_an_id(tmp_path: Path) -> None:
    read = Subscriptions.read(written(tmp_path, '{"id": "a"}\n{"id": "b", "expression": null}'))
    assert read.consumers == (Subscription("a", "", None, 0), Subscription("b", "", None, 0))


def test_a_wrong_expression_is_drawn_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": "a", "expression": "x = 1"}\n', "s.jsonl")
    with pytest.raises(PipelineError) as raised:
        Subscriptions.read(path)
    first, text, place, *_, hint = str(raised.value).split("\n")
    assert first == f"{path}, line 1: the expression is wrong"
    assert (text, place, hint) == ("x = 1", "  ^", "hint: use == to compare")


def test_a_wrong_expression_of_a_filter_in_an_array_is_named_by_its_entry(tmp_path: Path) -> None:
    path = written(tmp_path, '[{"id": "a"}, {"app": "", "filter": "x >"}]', "s.json")
    with pytest.raises(PipelineError, match=r"s\.json, entry 2: the expression is wrong\nx >\n"):
        Subscriptions.read(path)


def test_without_a_file_a_wrong_expression_is_named_by_its_subscription() -> None:
    with pytest.raises(PipelineError, match="subscription a: the expression is wrong"):
        Subscriptions([Subscription("a", expression="1 == 1")])
    with pytest.raises(PipelineError, match="a filter of app 'audit': the expression is wrong"):
        Subscriptions(filters=[Filter("audit", "!")])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1: this is no JSON"),
        ("3", "line 1: this is no object"),
        ('{"app": "a"}', "'id' is missing, or no text"),
        ('{"id": 3}', "'id' is missing, or no text"),
        ('{"id": "a", "expression": 3}', "'expression' is missing, or no text"),
        ('{"filter": "x"}', "'app' is missing, or no text"),
        ('{"id": "a", "expr": "x"}', "unknown field 'expr'"),
        ('{"app": "a", "filter": "x", "priority": 1}', "unknown field 'priority'"),
        ('{"id": "a", "priority": true}', "the priority is no integer"),
        ('{"id": "a", "priority": 2147483648}', "a priority is at most 2147483647"),
        ('{"id": "\\ud800"}', "a name is not valid Unicode"),
        ('{"id": "a"}\n{"id": "a"}', "line 2: the app has an id 'a' already"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(PipelineError) as raised:
        Subscriptions.read(written(tmp_path, line))
    assert problem in str(raised.value)


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read"):
        Subscriptions.read(tmp_path / "none.jsonl")
    with pytest.raises(PipelineError, match="is no TOML"):
        Subscriptions.read(written(tmp_path, "[[", "a.toml"))
    with pytest.raises(PipelineError, match=r"write \[\[subscription\]\]"):
        Subscriptions.read(written(tmp_path, '[subscription]\nid = "a"', "b.toml"))


def test_two_apps_may_have_the_same_id() -> None:
    both = Subscriptions([Subscription("a", "one"), Subscription("a", "two")])
    assert both.apps == ("one", "two")


def test_apps_are_those_of_consumers_and_filters() -> None:
    some = Subscriptions([Subscription("a", "one")], [Filter("", "x"), Filter("two", "x")])
    assert some.apps == ("", "one", "two")


def test_of_a_group_only_those_with_its_highest_priority_are_active() -> None:
    some = Subscriptions(
        [
            Subscription("a", "", "x == 1", 1),
            Subscription("b", "", None, 0),
            Subscription("c", "", "x == 1", 2),
            Subscription("d", "", "x == 1", 2),
            Subscription("e", "", "x==1", 1),
            Subscription("f", "other", "x == 1", 0),
        ]
    )
    assert some.groups() == [
        Group("", "x == 1", 2, ("c", "d")),
        Group("", None, 0, ("b",)),
        Group("", "x==1", 1, ("e",)),
        Group("other", "x == 1", 0, ("f",)),
    ]
