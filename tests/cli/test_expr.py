"""``headgate expr``"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.expr import expr
from headgate.cli.expr.trying import BATCH_LINE_BYTES
from tests.expr import draw


def run(*arguments: str, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(expr, arguments, input=stdin, catch_exceptions=False)


def batch(*lines: object) -> tuple[int, list[dict[str, object]]]:
    """Lines that are not bytes are written as JSON."""
    written = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    result = run("test", "--batch", stdin=b"".join(line + b"\n" for line in written))
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def request(text: str, **properties: tuple[str, object]) -> dict[str, object]:
    named = {name: {"type": kind, "value": value} for name, (kind, value) in properties.items()}
    return {"expr": text, "properties": named}


def test_check_shows_the_tree_the_keys_and_warnings() -> None:
    result = run("check", "x == 1 || a < b < c")
    assert result.exit_code == 0
    assert "├─ ==" in result.stdout
    assert "a message matches only if:\n  x is 1\n" in result.stdout
    assert "warning: a < b < c compares" in result.stdout


@pytest.mark.parametrize(
    ("text", "line"),
    [("x < 1 || y < 1", "  or y is at most 0"), ("!exists(x)", "  (nothing"), ("-x", "  (never)")],
)
def test_check_says_what_is_known_before_evaluation(text: str, line: str) -> None:
    assert f"\n{line}" in run("check", "--", text).stdout


def test_check_points_at_an_error_and_fails() -> None:
    result = run("check", "x = 1")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[:2] == ["x = 1", "  ^"]
    assert "hint: use ==" in result.stderr


def test_check_prints_json() -> None:
    found = json.loads(run("check", "--json", "!b && x == 1").stdout)
    assert found == {
        "ok": True,
        "text": "!b && x == 1",
        "tree": ["&&", ["!", "b"], ["==", "x", "1"]],
        "keys": ["b is false"],
        "warnings": [],
    }


def test_check_prints_an_error_as_json() -> None:
    result = run("check", "--json", "x = 1")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "ok": False,
        "code": "SYNTAX",
        "message": "syntax error, unexpected invalid character",
        "offset": 2,
        "hint": "use == to compare",
    }


def test_check_prints_bytes_that_are_not_text() -> None:
    assert "udcff" in run("check", 's == "\udcff"').stdout
    assert json.loads(run("check", "--json", "!exists(x)").stdout)["keys"] is None


@pytest.mark.parametrize(
    ("properties", "code", "output"),
    [
        (["x:int32=42", "s:string=a=b:c"], 0, "match\n"),
        (["x:int32=41", "s:string=a=b:c"], 3, "no match: the expression is false\n"),
        (["x:int64=42"], 3, "no match: NAME (the message lacks s)\n"),
        (["x:bool=true"], 3, "no match: TYPE (a value is of a type that does not fit)\n"),
        (["x:char=42", "s:binary=00ff"], 3, "no match: TYPE"),
    ],
)
def test_test_says_whether_a_message_matches_and_why_not(
    properties: list[str], code: int, output: str
) -> None:
    options = [part for text in properties for part in ("--property", text)]
    result = run("test", 'x == 42 && s == "a=b:c"', *options)
    assert (result.exit_code, result.stdout[: len(output)]) == (code, output)


def test_test_of_a_wrong_expression_points_at_it() -> None:
    result = run("test", "x = 1")
    assert result.exit_code == 2
    assert "^" in result.stderr


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x", "write NAME=VALUE or NAME:TYPE=VALUE"),
        ("x:int32", "amount:int32=42"),
        (":int32=1", "write NAME=VALUE or NAME:TYPE=VALUE"),
        ("x:float=1", "the type is one of bool, char, short, int32, int64, string, binary"),
        ("x:bool=1", "a bool is true or false"),
        ("x:bool=True", "a bool is true or false"),
        ("x:char=128", "char is from -128 to 127"),
        ("x:char=-129", "char is from -128 to 127"),
        ("x:short=32768", "short is from -32768 to 32767"),
        ("x:int32=2147483648", "int32 is from"),
        ("x:int64=9223372036854775808", "int64 is from"),
        ("x:int64=ten", "int64 is an integer"),
        ("x:int64=٣", "int64 is an integer"),
        ("x:int64=" + "9" * 5000, "int64 is an integer"),
        ("x:binary=0", "in hex"),
        ("x:binary=zz", "in hex"),
        ("x:string=\ud800", "UTF-8"),
    ],
)
def test_a_wrong_property_is_a_usage_error_that_shows_the_right_form(text: str, part: str) -> None:
    result = run("test", "x == 1", "--property", text)
    assert result.exit_code == 2
    assert part in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("kind", "bits"), [("char", 8), ("short", 16), ("int32", 32), ("int64", 64)]
)
def test_the_ends_of_every_integer_type_are_accepted(kind: str, bits: int) -> None:
    """BMQ-14"""
    for value in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
        assert run("test", f"x == {value}", "--property", f"x:{kind}={value}").exit_code == 0
        _, answers = batch(request(f"x == {value}", x=(kind, value)))
        assert answers == [{"compile": "ok", "result": True, "matches": True}]
    code, answers = batch(request("x == 1", x=(kind, 2 ** (bits - 1))))
    assert code == 1
    assert f"property 'x': {kind} is from" in str(answers[0]["error"])


def test_test_needs_an_expression_or_batch_and_not_both() -> None:
    assert run("test").exit_code == 2
    assert run("test", "x", "--batch").exit_code == 2
    assert run("test", "--property", "x:int32=1", "--batch").exit_code == 2


def test_a_batch_answers_each_line() -> None:
    code, answers = batch(
        request("x == 1", x=("int32", 1)),
        request("x == 1", x=("int32", 2)),
        request("x == 1"),
        request("x == 1", x=("string", "1")),
        request("x / 0 == 1", x=("int64", 1)),
        request("exists(x)", x=("binary", "00ff")),
        request("b", b=("bool", True)),
        request("x ="),
        request("1 == 1"),
        request("!" * 65 + "x"),
        request(" " * 129),
        {"expr": "!exists(x)", "comment": "properties may be left out"},
    )
    assert code == 0
    assert [tuple(answer.values()) for answer in answers] == [
        ("ok", True, True),
        ("ok", False, False),
        ("ok", "NAME", False),
        ("ok", "TYPE", False),
        ("ok", "ARITHMETIC", False),
        ("ok", False, False),
        ("ok", True, True),
        ("SYNTAX", None, None),
        ("NO_PROPERTIES", None, None),
        ("TOO_COMPLEX", None, None),
        ("TOO_LONG", None, None),
        ("ok", True, True),
    ]
    assert all(list(answer) == ["compile", "result", "matches"] for answer in answers)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\x00",
        b"\xff",
        b'{"properties": {}}',
        b'{"expr": 1}',
        b'{"expr": "x", "properties": []}',
        b'{"expr": "x", "properties": {"x": 1}}',
        b'{"expr": "x", "properties": {"x": {"type": "bool"}}}',
        b'{"expr": "x", "properties": {"x": {"type": [], "value": 1}}}',
        b'{"expr": "x", "properties": {"x": {"type": "int32", "value": 1.0}}}',
        b'{"expr": "x", "properties": {"x": {"type": "int32", "value": true}}}',
        b'{"expr": "x", "properties": {"x": {"type": "int32", "value": NaN}}}',
        b'{"expr": "x", "properties": {"x": {"type": "bool", "value": 1}}}',
        b'{"expr": "x", "properties": {"x": {"type": "string", "value": 1}}}',
        b'{"expr": "x", "properties": {"x": {"type": "string", "value": "\\ud800"}}}',
        b'{"expr": "x", "properties": {"\\ud800": {"type": "string", "value": 1}}}',
        b'{"expr": "x", "properties": {"x": {"type": "binary", "value": "0"}}}',
        b'{"expr": "x", "properties": {"x": {"type": "int64", "value": ' + b"9" * 10_000 + b"}}}",
        b"[" * 100_000,
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_and_the_batch_goes_on(line: bytes) -> None:
    code, answers = batch(line, request("x", x=("bool", True)))
    assert code == 1
    assert list(answers[0]) == ["error"]
    assert answers[1:] == [{"compile": "ok", "result": True, "matches": True}]


@pytest.mark.parametrize("text", ["\ud800", 'x == "\ud800"', "x\x00", "9" * 100])
def test_an_expression_that_is_no_text_does_not_compile(text: str) -> None:
    assert batch(request(text)) == (0, [{"compile": "SYNTAX", "result": None, "matches": None}])


def test_a_line_may_have_a_mebibyte_and_no_more() -> None:
    line = json.dumps(request("x", x=("bool", True))).encode()
    fits = line + b" " * (BATCH_LINE_BYTES - len(line))
    code, answers = batch(fits, fits + b" ", fits * 3 + b" ", line)
    assert code == 1
    assert ["error" in answer for answer in answers] == [False, True, True, False]


def test_the_last_line_needs_no_line_feed() -> None:
    result = run("test", "--batch", stdin=json.dumps(request("x")).encode())
    assert json.loads(result.stdout)["result"] == "NAME"


@draw.relaxed
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_a_batch_of_anything_answers_every_line(lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b" ") for line in lines]
    _, answers = batch(*lines)
    assert len(answers) == len(lines)
