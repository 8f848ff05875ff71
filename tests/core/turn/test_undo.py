"""What a turn notes, it can take back."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.turn.undo import FORGOTTEN, Undo

keys = st.sampled_from("abc")
steps = st.lists(
    st.tuples(st.sampled_from(["put", "pop", "add", "discard", "assign"]), keys, st.integers()),
    max_size=30,
)


@given(steps, st.dictionaries(keys, st.integers()), st.sets(keys))
def test_taking_back_restores_what_was_there(
    changes: list[tuple[str, str, int]], mapping: dict[str, int], members: set[str]
) -> None:
    owner = SimpleNamespace(field=0)
    before = (dict(mapping), set(members))
    undo = Undo()
    for kind, key, number in changes:
        match kind:
            case "put":
                undo.put(mapping, key, number)
                assert mapping[key] == number
            case "pop":
                expected = mapping.get(key)
                assert undo.pop(mapping, key) == expected
                assert key not in mapping
            case "add":
                undo.add(members, key)
                assert key in members
            case "discard":
                undo.discard(members, key)
                assert key not in members
            case _:
                undo.assign(owner, "field", number)
                assert owner.field == number
    undo.take_back()
    assert (mapping, members) == before
    assert owner.field == 0


def test_steps_are_taken_back_last_first_and_once() -> None:
    undo = Undo()
    called: list[int] = []
    undo.note(called.append, 1)
    undo.note(called.append, 2)
    undo.take_back()
    undo.take_back()
    assert called == [2, 1]


def test_a_dictionary_in_order_is_in_order_again() -> None:
    undo, found = Undo(), {1: "a", 2: "b", 3: "c"}
    for key in (2, 1):
        undo.sort_after(found)
        undo.pop(found, key)
    undo.take_back()
    assert list(found) == [1, 2, 3]


def test_what_has_happened_is_let_go_of_some_at_a_time() -> None:
    undo = Undo()
    found: dict[int, int] = {}
    for number in range(3 * FORGOTTEN):
        undo.put(found, number, number)
    assert sum(1 for _ in undo.forget()) == 2
    undo.take_back()
    assert len(found) == 3 * FORGOTTEN
