"""Values: what a dataclass is, made in C."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import asdict, field, fields, is_dataclass, replace
from pprint import pformat

import pytest

from headgate.core.model.value import EMPTY, value


@value
class Point:
    """Where something is."""

    x: int
    y: int = 0

    @property
    def sum(self) -> int:
        return self.x + self.y


@value
class Labelled:
    point: Point
    labels: list[str] = field(default_factory=list)
    more: Mapping[str, int] = EMPTY
    secret: str = field(default="", repr=False)
    memo: dict[str, int] = field(default_factory=dict, compare=False, repr=False)


def test_it_is_made_by_place_and_by_name_with_what_was_not_said_by_default() -> None:
    assert (Point(1).x, Point(1).y, Point(y=3, x=2).sum) == (1, 0, 5)
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point(1, z=2)  # type: ignore[call-arg]


def test_nobody_can_change_it() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        point.z = 2  # type: ignore[attr-defined]
    assert point == Point(1)


def test_it_is_equal_to_its_like_and_to_nothing_else() -> None:
    @value
    class Other:
        x: int
        y: int = 0

    assert Point(1, 2) == Point(1, 2)
    assert Point(1, 2) != Point(1, 3)
    other: object = Other(1, 2)
    pair: object = (1, 2)
    assert Point(1, 2) != other
    assert Point(1, 2) != pair
    assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2


def test_what_is_in_it_decides_whether_it_has_a_hash() -> None:
    with pytest.raises(TypeError):
        hash(Labelled(Point(1)))  # a list has none


def test_what_does_not_count_is_not_compared() -> None:
    one, other = Labelled(Point(1), memo={"a": 1}), Labelled(Point(1), memo={})
    assert one == other
    assert one != Labelled(Point(2))


def test_it_is_shown_without_its_secrets() -> None:
    assert repr(Point(1, 2)) == "Point(x=1, y=2)"
    shown = repr(Labelled(Point(1), ["a"], secret="hush", memo={"hush": 1}))
    assert shown == "Labelled(point=Point(x=1, y=0), labels=['a'], more={})"


def test_what_is_made_for_one_is_not_shared_by_others() -> None:
    one, other = Labelled(Point(1)), Labelled(Point(1))
    one.labels.append("mine")
    assert other.labels == []
    assert one.more is other.more is EMPTY


def test_it_is_a_dataclass_to_all_that_asks_for_one() -> None:
    assert all(map(is_dataclass, (Point, Labelled)))
    assert [each.name for each in fields(Labelled)] == list(Labelled.__slots__)  # type: ignore[attr-defined]
    assert replace(Point(1, 2), y=5) == Point(1, 5)
    assert asdict(Labelled(Point(1)))["point"] == {"x": 1, "y": 0}
    assert (Point.__doc__, Point.__name__) == ("Where something is.", "Point")
    assert pformat([Point(1, 2)]) == "[Point(x=1, y=2)]"
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_it_adds_no_fields_to_another_one() -> None:
    class Farther(Point):
        pass

    assert Farther(1, 2).x == 1
    with pytest.raises(AssertionError, match="cannot add fields"):
        value(Farther)


def test_it_can_be_copied_and_written_down() -> None:
    point = Point(1, 2)
    assert copy.copy(point) == copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
