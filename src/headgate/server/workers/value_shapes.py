"""Values of the core as arrays and back, by the order of their fields.

The form of a class follows from the annotations of its fields, so a new command or effect needs
nothing here. Types that msgpack knows are left as they are. So are fields that only the worker
itself understands, as `ref`: the sender of the array replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, NewType, TypeAlias, Union, get_args, get_origin, get_type_hints

from headgate.core.model import parties
from headgate.core.model.message import Declared, Fields, Properties
from headgate.core.model.tally import Tally
from headgate.core.model.value import EMPTY
from headgate.errors import HeadgateError

Convert: TypeAlias = Callable[[Any], Any]

PLAIN = frozenset((int, str, bytes, bool, float, NoneType))
OWN = frozenset(("ref", "proof"))
"""Fields that the sender replaces."""
LEFT_OUT = frozenset(("compiled",))
"""Fields that the receiver makes anew."""


class Form(NamedTuple):
    """The functions that write and read a field; None if it is left as it is."""

    pack: Convert | None
    unpack: Convert | None


AS_IT_IS = Form(None, None)


class Shape:
    """The form of one class."""

    __slots__ = ("_get", "_is_whole", "_packs", "_unpacks", "kind", "places")

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        hints = get_type_hints(kind, localns=vars(parties))
        names = [each.name for each in fields(kind) if each.name not in LEFT_OUT]
        get = attrgetter(*names) if names else lambda _: ()
        self._get: Convert = get if len(names) != 1 else lambda value: (get(value),)
        self._is_whole = len(names) == len(fields(kind))
        """Whether no field is left out."""
        self.places = {name: place for place, name in enumerate(names)}
        """The position of each field in the array."""
        forms = [AS_IT_IS if name in OWN else form_of(hints[name]) for name in names]
        self._packs = [(n, f.pack) for n, f in enumerate(forms) if f.pack is not None]
        self._unpacks = [(n, f.unpack) for n, f in enumerate(forms) if f.unpack is not None]

    def pack(self, value: object) -> list[Any]:
        found = list(self._get(value))
        for place, convert in self._packs:
            found[place] = convert(found[place])
        return found

    def unpack(self, found: Sequence[Any]) -> Any:  # noqa: ANN401 the class is known when it runs
        values = list(found)
        for place, convert in self._unpacks:
            values[place] = convert(values[place])
        if self._is_whole:
            return self.kind(*values)
        return self.kind(**dict(zip(self.places, values, strict=True)))


class Shapes:
    """The shapes of the members of a union, each known by its position."""

    def __init__(self, members: Iterable[type[Any]]) -> None:
        self.all = [Shape(kind) for kind in members]
        self.numbers = {shape.kind: number for number, shape in enumerate(self.all)}

    def pack(self, value: object) -> list[Any]:
        number = self.numbers[type(value)]
        return [number, *self.all[number].pack(value)]

    def unpack(self, found: Sequence[Any]) -> Any:  # noqa: ANN401
        return self.all[found[0]].unpack(found[1:])


_shapes: dict[type[Any], Shape] = {}


def form_of(hint: Any) -> Form:  # noqa: ANN401 whatever stands behind the name of a field
    """The form of a field with this annotation."""
    if isinstance(hint, NewType):
        return form_of(hint.__supertype__)
    if hint == Properties:
        return Form(_pack_properties, _unpack_properties)
    if hint is Tally:  # its hash does not fit the integers of msgpack
        return Form(lambda tally: (tally.count, tally.hash), lambda found: Tally.parse(*found))
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _form_of_union([each for each in get_args(hint) if each is not NoneType])
    if origin is tuple:
        return _form_of_tuple(get_args(hint))
    if origin is dict:
        return _form_of_dict(get_args(hint))
    assert isinstance(hint, type), f"a value has no field of the type {hint}"
    if hint in PLAIN:
        return AS_IT_IS
    if issubclass(hint, HeadgateError):
        return Form(pack_error, unpack_error)
    if issubclass(hint, Enum):
        return Form(None, hint)
    if issubclass(hint, tuple):
        forms = _form_of_tuple(tuple(get_type_hints(hint).values()))
        unpack = forms.unpack
        assert unpack is not None, "a tuple is made of a list"
        return Form(forms.pack, lambda found: hint(*unpack(found)))
    assert is_dataclass(hint), f"a value has no field of the type {hint}"
    if hint not in _shapes:
        _shapes[hint] = Shape(hint)
    return Form(_shapes[hint].pack, _shapes[hint].unpack)


def _form_of_union(members: list[Any]) -> Form:
    forms = [form_of(each) for each in members]
    if all(form is AS_IT_IS for form in forms):
        return AS_IT_IS
    if len(members) == 1:
        return _optional(forms[0])
    shapes = Shapes(members)
    return _optional(Form(shapes.pack, shapes.unpack))


def _optional(form: Form) -> Form:
    pack, unpack = form
    return Form(
        None if pack is None else lambda value: None if value is None else pack(value),
        None if unpack is None else lambda found: None if found is None else unpack(found),
    )


def _form_of_tuple(members: tuple[Any, ...]) -> Form:
    if members[-1] is not Ellipsis:
        forms = [form_of(each) for each in members]
        packs = [form.pack or _same for form in forms]
        unpacks = [form.unpack or _same for form in forms]
        is_plain = all(form.pack is None for form in forms)
        return Form(
            None if is_plain else lambda value: _each(packs, value),
            lambda found: tuple(_each(unpacks, found)),
        )
    pack, unpack = form_of(members[0])
    return Form(
        None if pack is None else lambda value: list(map(pack, value)),
        tuple if unpack is None else lambda found: tuple(map(unpack, found)),
    )


def _form_of_dict(members: tuple[Any, ...]) -> Form:
    """The form of a dict, by its pairs: a key may be a tuple, which msgpack makes a list."""
    pack, unpack = _form_of_tuple(members)
    assert unpack is not None, "a tuple is made of a list"
    return Form(
        lambda value: [(pack or _same)(each) for each in value.items()],
        lambda found: dict(map(unpack, found)),
    )


def _each(converts: list[Convert], values: Sequence[Any]) -> list[Any]:
    return [convert(each) for convert, each in zip(converts, values, strict=True)]


def _same(value: Any) -> Any:  # noqa: ANN401
    return value


def _pack_properties(properties: Properties) -> Any:  # noqa: ANN401
    if isinstance(properties, Fields):  # the proof may be absent, and the body has a name
        return [dict(properties), properties.types, properties.body, properties.own]
    if not properties:
        return None
    if isinstance(properties, Declared):
        return [dict(properties), properties.types]
    return [dict(properties)]


def _unpack_properties(found: list[Any] | None) -> Properties:
    if found is None:
        return EMPTY
    if len(found) == 1:
        plain: Properties = found[0]
        return plain
    return Fields(*found) if len(found) == 4 else Declared(*found)


def pack_error(error: HeadgateError) -> list[Any]:
    """An error by name, without the arguments it was raised with."""
    inside = {
        name: ["error", pack_error(value)] if isinstance(value, HeadgateError) else ["", value]
        for name, value in vars(error).items()
    }
    return [type(error).__name__, str(error), inside]


def unpack_error(found: Sequence[Any]) -> HeadgateError:
    name, text, inside = found
    if name not in _errors:
        _errors.update({kind.__name__: kind for kind in _below(HeadgateError)})
    kind = _errors[name]
    error = kind.__new__(kind)
    error.args = (text,)
    for each, (is_error, value) in inside.items():
        setattr(error, each, unpack_error(value) if is_error else value)
    return error


_errors: dict[str, type[HeadgateError]] = {}


def _below(kind: type[HeadgateError]) -> Iterable[type[HeadgateError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)
