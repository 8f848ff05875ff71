"""Properties on the command line, as `headgate explain` takes them."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.properties import parse_properties
from headgate.core.model.message import PropertyValue

BOOL, CHAR, SHORT, INT32, INT64, STRING, BINARY = range(1, 8)


@pytest.mark.parametrize(
    ("text", "name", "value", "type_"),
    [
        ("x=42", "x", 42, INT64),
        ("x=-1", "x", -1, INT64),
        ("x=007", "x", 7, INT64),
        ("x=9223372036854775807", "x", 2**63 - 1, INT64),
        ("x=-9223372036854775808", "x", -(2**63), INT64),
        ("x=true", "x", True, BOOL),
        ("x=false", "x", False, BOOL),
        ("x=True", "x", "True", STRING),
        ("x=express", "x", "express", STRING),
        ("x=two words", "x", "two words", STRING),
        ("x=1.5", "x", "1.5", STRING),
        ("x=+1", "x", "+1", STRING),
        ("x=١", "x", "١", STRING),
        ("x=", "x", "", STRING),
        ("x=a=b:c", "x", "a=b:c", STRING),
        ('x="42"', "x", "42", STRING),
        ('x="true"', "x", "true", STRING),
        ('x=""', "x", "", STRING),
        (r'x="say \"a\\b\""', "x", r'say "a\b"', STRING),
        ("x=a\nb", "x", "a\nb", STRING),
        ("a.b_c=é", "a.b_c", "é", STRING),
        ("x:bool=true", "x", True, BOOL),
        ("x:char=-128", "x", -128, CHAR),
        ("x:char=127", "x", 127, CHAR),
        ("x:short=-32768", "x", -(2**15), SHORT),
        ("x:int32=2147483647", "x", 2**31 - 1, INT32),
        ("x:int64=1", "x", 1, INT64),
        ("x:string=42", "x", "42", STRING),
        ('x:string="a', "x", '"a', STRING),
        ("x:binary=00Ff", "x", b"\0\xff", BINARY),
        ("x:binary=", "x", b"", BINARY),
    ],
)
def test_a_property_has_a_value_and_a_type(
    text: str, name: str, value: PropertyValue, type_: int
) -> None:
    """BMQ-14."""
    properties = parse_properties([text])
    assert properties == {name: value}
    assert type(properties[name]) is type(value)
    assert properties.types == bytes([type_])


def test_properties_keep_their_order() -> None:
    properties = parse_properties(["b=1", "a:short=2", "c=x"])
    assert list(properties) == ["b", "a", "c"]
    assert properties.types == bytes([INT64, SHORT, STRING])
    assert parse_properties([]) == {}


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["x"], "write NAME=VALUE or NAME:TYPE=VALUE; for example"),
        ([""], "write NAME=VALUE"),
        (["=1"], "write NAME=VALUE"),
        ([":int32=1"], "write NAME=VALUE"),
        (["x:int32"], "write NAME=VALUE"),
        (["x:=1"], "the type is one of bool, char, short, int32, int64, string, binary"),
        (["x:int=1"], "the type is one of bool, char,"),
        (["x:INT32=1"], "the type is one of bool, char,"),
        (["x=9223372036854775808"], "at most 64 bits; x:string=9223372036854775808 is a text"),
        (["x=" + "1" * 5000], "at most 64 bits"),
        (["x:int64=" + "1" * 5000], "int64 is an integer"),
        (["x:char=128"], "char is from -128 to 127"),
        (["x:short=32768"], "short is from -32768 to 32767"),
        (["x:int32=-2147483649"], "int32 is from -2147483648 to"),
        (["x:int64=9223372036854775808"], "int64 is from -9223372036854775808 to"),
        (["x:int32=a"], "int32 is an integer, written in decimal digits"),
        (["x:int32="], "int32 is an integer"),
        (["x:bool=yes"], "a bool is true or false"),
        (["x:binary=0"], "written in hex, two digits per byte"),
        (["x:binary=zz"], "written in hex"),
        (['x="a'], 'a text that begins with " ends with one'),
        (['x="'], 'a text that begins with " ends with one'),
        (['x="a"b'], "x:string=VALUE takes it as it is"),
        ([r'x="a\n"'], "stand for"),
        (["x=1", "x=2"], "x is given twice"),
        (["x=\udcff"], "names and texts are UTF-8; write other bytes in hex, as x:binary=ff"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_wrong_property_says_what_to_do(texts: list[str], error: str) -> None:
    with pytest.raises(click.BadParameter) as raised:
        parse_properties(texts)
    assert error in raised.value.message
    assert raised.value.param_hint == "--property"
    assert raised.value.message.isascii()


@given(st.text(max_size=30))
def test_any_text_can_be_written_in_quotes(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_properties([f'x="{escaped}"']) == {"x": value}


@given(st.text(max_size=30))
def test_any_argument_is_a_property_or_an_error(text: str) -> None:
    try:
        properties = parse_properties([text])
    except click.BadParameter:
        return
    assert len(properties) == len(properties.types) == 1
