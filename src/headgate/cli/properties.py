"""Properties of a message on the command line: ``NAME=VALUE``, or ``NAME:TYPE=VALUE``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import click

from headgate.cli.property_values import DIGITS_MAX, INTEGER, TYPES, from_text, property_value
from headgate.core.model.message import Declared, PropertyValue
from headgate.core.model.property_type import BY_LABEL
from headgate.expr.types import INT64_MAX, INT64_MIN

F = TypeVar("F", bound=Callable[..., Any])

FORM = "write NAME=VALUE or NAME:TYPE=VALUE; for example amount=42 or amount:int32=42"
PROPERTY = re.compile(r"(?P<name>[^:=]+)(:(?P<type>[^=]*))?=(?P<value>.*)", re.DOTALL)
QUOTED = re.compile(r'"(?P<text>([^"\\]|\\["\\])*)"', re.DOTALL)
ESCAPE = re.compile(r'\\(["\\])')


def property_option(command: F) -> F:
    """Add ``--property`` to a command, as the argument `properties`."""
    return click.option(
        "--property",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda _ctx, _param, texts: parse_properties(texts),
        help="A property of the message, any number of times. A VALUE is an integer, true, false"
        ' or a text; "42" in quotes is a text. NAME:TYPE=VALUE says the type, and takes VALUE as'
        f" it is: {', '.join(TYPES)} (hex).",
    )(command)


def parse_properties(texts: Iterable[str]) -> Declared:
    """The properties, with their types."""
    found: dict[str, PropertyValue] = {}
    types = bytearray()
    for text in texts:
        name, type_name, item = _parsed(text)
        if name in found:
            _refuse(text, f"{name} is given twice; a message has one of each name")
        found[name] = item
        types.append(BY_LABEL[type_name])
    return Declared(found, bytes(types))


def _parsed(text: str) -> tuple[str, str, PropertyValue]:
    match = PROPERTY.fullmatch(text)
    if match is None:
        _refuse(text, FORM)
    name, type_name, written = match["name"], match["type"], match["value"]
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(text, f"names and texts are UTF-8; write other bytes in hex, as {name}:binary=ff")
    try:
        if type_name is None:
            return name, *_guessed(name, written)
        return name, type_name, property_value(type_name, from_text(type_name, written))
    except ValueError as error:
        _refuse(text, str(error))


def _guessed(name: str, written: str) -> tuple[str, PropertyValue]:
    """The type that a value looks like, and the value."""
    if written in ("true", "false"):
        return "bool", written == "true"
    if INTEGER.fullmatch(written):
        number = int(written[:DIGITS_MAX])
        if len(written) > DIGITS_MAX or not INT64_MIN <= number <= INT64_MAX:
            raise ValueError(
                f"an integer has at most 64 bits; {name}:string={written[:DIGITS_MAX]} is a text"
            )
        return "int64", number
    if not written.startswith('"'):
        return "string", written
    quoted = QUOTED.fullmatch(written)
    if quoted is None:
        raise ValueError(
            'a text that begins with " ends with one, and \\" and \\\\ stand for " and \\ in it;'
            f" {name}:string=VALUE takes it as it is"
        )
    return "string", ESCAPE.sub(r"\1", quoted["text"])


def _refuse(text: str, reason: str) -> NoReturn:
    raise click.BadParameter(f"{text!a}: {reason}", param_hint="--property")
