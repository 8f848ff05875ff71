"""The table of types is whole: every layer finds what it needs of each."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from struct import calcsize

import pytest

from headgate.core.model.property_type import BY_LABEL, FORMS, WIDEST, PropertyType, type_of
from headgate.errors import BadMessage
from headgate.expr.types import KIND_OF_CLASS
from headgate.journal.columns import PROPERTY


def test_every_type_has_its_row() -> None:
    assert set(FORMS) == set(PropertyType)
    assert list(BY_LABEL) == ["bool", "char", "short", "int32", "int64", "string", "binary"]


@pytest.mark.parametrize("type", PropertyType)
def test_a_row_agrees_with_itself(type: PropertyType) -> None:
    form = FORMS[type]
    assert form.kind is KIND_OF_CLASS.get(form.python)
    assert (form.bits is not None) == (form.python is int)
    if form.bits is not None:
        assert form.struct is not None
        assert 8 * calcsize(form.struct) == form.bits
    assert form.column is None or PROPERTY.get_field_index(form.column) >= 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, PropertyType.BOOL),
        (1, PropertyType.INT64),
        ("text", PropertyType.STRING),
        (b"bytes", PropertyType.BINARY),
        (IntEnum("Number", "ONE").ONE, PropertyType.INT64),  # type: ignore[attr-defined]
        (StrEnum("Word", "ONE").ONE, PropertyType.STRING),  # type: ignore[attr-defined]
    ],
)
def test_a_value_without_a_declared_width_has_the_widest(
    value: bool | int | str | bytes, expected: PropertyType
) -> None:
    assert type_of(value) is expected
    assert set(WIDEST) == {bool, int, str, bytes}


@pytest.mark.parametrize("value", [1.5, None, [1]])
def test_what_is_no_value_of_a_property_is_refused(value: object) -> None:
    with pytest.raises(BadMessage, match="a boolean, an integer, text or bytes"):
        type_of(value)  # type: ignore[arg-type]
