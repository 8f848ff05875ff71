"""Handing out the effects of a turn to the sessions, in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.core.effects import Deliver, Effect
from headgate.core.model.ids import SessionId

PART_SEALED = 64
PART_EFFECTS = 512
"""Most effects in a part: sealing a message takes a third of a millisecond, encoding any other
effect about twenty microseconds."""


def handouts(effects: Iterable[Effect]) -> Iterator[tuple[SessionId, list[Effect]]]:
    """The parts in which effects are handed out, those of each session in order."""
    by_session: dict[SessionId, list[Effect]] = {}
    for effect in effects:
        mine = by_session.get(effect.session)
        if mine is None:
            by_session[effect.session] = [effect]
        else:
            mine.append(effect)
    for session, mine in by_session.items():
        if len(mine) <= PART_SEALED:
            yield session, mine
            continue
        for part in _parts(mine):
            yield session, part


def _parts(effects: list[Effect]) -> Iterator[list[Effect]]:
    """The effects of one session, cut where a part would be too large. A session that seals its
    messages puts answers before them, and so do the parts: a batch of subscriptions is answered,
    then the messages follow."""
    if not any(map(_is_sealed, effects)):
        for start in range(0, len(effects), PART_EFFECTS):
            yield effects[start : start + PART_EFFECTS]
        return
    part: list[Effect] = []
    room = PART_EFFECTS
    # SMP-12: all answers of a block, then the messages.
    for effect in sorted(effects, key=_is_push):
        if room <= 0:
            yield part
            part, room = [], PART_EFFECTS
        part.append(effect)
        room -= PART_EFFECTS // PART_SEALED if _is_sealed(effect) else 1
    yield part


def _is_sealed(effect: Effect) -> bool:
    return type(effect) is Deliver and effect.parties is not None


def _is_push(effect: Effect) -> bool:
    """Whether an effect is a message that no command asked for."""
    return type(effect) is Deliver and effect.ref is None
