"""Frames of the Redis protocol as they stand on the wire, and when two streams of them agree.

A parser of its own, which keeps the type of every frame, so that a set is no array and a push no
reply. It is lenient in one thing: an array that lacks elements at the end of the bytes is a
``CUT`` one, as Redis leaves it when ``CLIENT REPLY OFF`` is part of a transaction.
"""

from __future__ import annotations

from itertools import groupby
from typing import TypeAlias

Value: TypeAlias = "bytes | int | list[Frame] | None"
Frame: TypeAlias = tuple[str, Value]

CUT = "cut "
FAR = 5_000
"""Numbers from here on are times in these sequences: counts and values stay below."""
KEPT_OF_A_CLIENT = (
    b"name", b"db", b"sub", b"psub", b"ssub", b"multi", b"cmd", b"user", b"resp", b"flags",
)  # fmt: skip
"""What CLIENT LIST and INFO tell of a client that is not an address, an age or a size."""
GREETING_OF_ITS_OWN = {b"server", b"version", b"id"}
REFUSED_LATE = b"NOPERM ACLs rules changed between"
"""What Redis says to a command that may no longer run when its transaction does."""
TOLD = (
    b"message", b"pmessage", b"smessage", b"subscribe", b"psubscribe", b"ssubscribe",
    b"unsubscribe", b"punsubscribe", b"sunsubscribe",
)  # fmt: skip
LEAVING = (b"unsubscribe", b"punsubscribe", b"sunsubscribe")


class Short(Exception):
    """The bytes end inside a frame that is no array."""


def parse(data: bytes) -> list[Frame]:
    """All frames of ``data``, which ends at the end of a frame or of an element."""
    frames: list[Frame] = []
    at = 0
    while at < len(data):
        frame, at = _frame(data, at)
        frames.append(frame)
    return frames


def complete(data: bytes) -> list[Frame]:
    """The frames of ``data`` that are whole; what follows them is still on its way."""
    frames: list[Frame] = []
    at = 0
    while (found := first(data, at)) is not None:
        frame, at = found
        frames.append(frame)
    return frames


def first(data: bytes, at: int = 0) -> tuple[Frame, int] | None:
    """The frame that begins at ``at`` and where it ends, or nothing if it is not whole yet."""
    try:
        frame, end = _frame(data, at)
    except Short:
        return None
    return None if _is_cut(frame) else (frame, end)


def _is_cut(frame: Frame) -> bool:
    kind, value = frame
    return kind.startswith(CUT) or (isinstance(value, list) and any(map(_is_cut, value)))


def _frame(data: bytes, at: int) -> tuple[Frame, int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        raise Short
    kind = chr(data[at])
    rest = data[at + 1 : end]
    at = end + 2
    if kind in "+-,(#_":
        return (kind, rest), at
    if kind == ":":
        return (kind, int(rest)), at
    if kind in "$=":
        size = int(rest)
        if size < 0:
            return (kind, None), at
        if len(data) < at + size + 2:
            raise Short
        return (kind, data[at : at + size]), at + size + 2
    if kind in "*~>%":
        size = int(rest)
        if size < 0:
            return (kind, None), at
        items: list[Frame] = []
        for _ in range(size * 2 if kind == "%" else size):
            if at == len(data):
                return (CUT + kind, items), at
            item, at = _frame(data, at)
            items.append(item)
        return (kind, items), at
    raise ValueError(f"no frame starts with {kind!r}")


def agree(one: bytes, other: bytes, *, unordered: bool, in_streams: bool) -> bool:
    """Whether two streams say the same.

    ``unordered``: some array is told in the order of a hash table. ``in_streams``: pushes may
    stand before or after the replies that they came about with.
    """
    if one == other:
        return True
    try:
        pair = [_canonical(parse(data), unordered=unordered) for data in (one, other)]
    except (Short, ValueError):
        return False
    if not in_streams:
        return _same_all(*pair)
    apart = [
        [[frame for frame in frames if (frame[0] == ">") is pushed] for frames in pair]
        for pushed in (False, True)
    ]
    return all(_same_all(*stream) for stream in apart)


def _canonical(frames: list[Frame], *, unordered: bool) -> list[Frame]:
    found: list[Frame] = []
    for key, group in groupby(frames, key=_run):
        run = [_settled(frame, unordered=unordered) for frame in group]
        if key is None:
            found += run
        elif key[0] == b"pmessage":
            found += sorted(run, key=repr)
        elif unordered:
            found += _names_sorted(run)
        else:
            found += run
    return found


def _run(frame: Frame) -> tuple[object, ...] | None:
    """What frames have in common whose order among themselves is that of a hash table."""
    kind, value = frame
    if kind not in "*>" or not isinstance(value, list) or len(value) < 3:
        return None
    word = value[0][1]
    if word == b"pmessage":
        return word, *(item[1] for item in value[2:] if not isinstance(item[1], list))
    return (word,) if word in LEAVING else None


def _names_sorted(run: list[Frame]) -> list[Frame]:
    """Confirmations of leaving: the names in order, the counts where they are."""
    names = sorted((frame[1][1] for frame in run if isinstance(frame[1], list)), key=repr)
    found: list[Frame] = []
    for (kind, value), name in zip(run, names, strict=True):
        assert isinstance(value, list)
        found.append((kind, [value[0], name, value[2]]))
    return found


def _settled(frame: Frame, *, unordered: bool) -> Frame:
    kind, value = frame
    if kind == "$" and isinstance(value, bytes) and value.startswith(b"user "):
        return kind, _user(value)
    if kind in "$=" and isinstance(value, bytes) and value.removeprefix(b"txt:")[:3] == b"id=":
        return kind, b"\n".join(_client(line) for line in value.splitlines())
    if not isinstance(value, list):
        return frame
    items = [_settled(item, unordered=unordered) for item in value]
    if items[:1] == [("$", b"server")]:
        items = _greeting(items)
    elif items[:1] == [("$", b"flags")]:
        of, flags = items[1]
        assert isinstance(flags, list)
        items[1] = (of, [flag for flag in flags if flag[1] != b"sanitize-payload"])
        items[5] = ("$", b"rules")
    elif unordered and not _is_told(items):
        items.sort(key=_place)
    return kind, items


def _is_told(items: list[Frame]) -> bool:
    """Whether this is a message or a confirmation, in a transaction or not."""
    return bool(items) and items[0][1] in TOLD


def _client(line: bytes) -> bytes:
    pairs = dict(pair.split(b"=", 1) for pair in line.removeprefix(b"txt:").split(b" "))
    pairs[b"flags"] = b"P" if b"P" in pairs[b"flags"] else b"N"
    pairs[b"multi"] = b"none" if pairs[b"multi"] == b"-1" else b"some"
    return b" ".join(b"=".join((key, pairs[key])) for key in KEPT_OF_A_CLIENT)


def _user(line: bytes) -> bytes:
    """A user of ACL LIST without its rules for commands: 7.0 rewrites them, 7.2 keeps them."""
    words = [word for word in line.split(b" ") if word != b"sanitize-payload"]
    return b" ".join(word for word in words if word[:1] not in b"+-")


def _place(frame: Frame) -> str:
    """Where a frame stands among others, whatever Python quotes it with."""
    return repr(frame).replace('"', "'")


def _greeting(items: list[Frame]) -> list[Frame]:
    found = list(items)
    for at in range(0, len(items) - 1, 2):
        if items[at][1] in GREETING_OF_ITS_OWN:
            found[at + 1] = (items[at + 1][0], b"of its own")
    return found


def _same_all(ones: list[Frame], others: list[Frame]) -> bool:
    return len(ones) == len(others) and all(map(_same, ones, others))


def _same(one: Frame, other: Frame) -> bool:
    if one == other:
        return True
    (kind, value), (other_kind, other_value) = one, other
    if kind != other_kind:
        return False
    if isinstance(value, int) and isinstance(other_value, int):
        return min(value, other_value) >= FAR and abs(value - other_value) <= value * 0.01
    if kind == "-" and isinstance(value, bytes) and isinstance(other_value, bytes):
        return value.startswith(REFUSED_LATE) and other_value.startswith(b"NOPERM ")
    if isinstance(value, list) and isinstance(other_value, list):
        return _same_all(value, other_value)
    return False


def shown(data: bytes) -> str:
    """A stream for people."""
    try:
        return " ".join(map(_text, parse(data))) or "nothing"
    except (Short, ValueError):
        return repr(data)


def _text(frame: Frame) -> str:
    kind, value = frame
    if isinstance(value, list):
        return f"{kind}[{' '.join(map(_text, value))}]"
    if isinstance(value, bytes):
        return kind + (repr(value)[1:] if kind in "$=" else value.decode(errors="replace"))
    return f"{kind}{'nil' if value is None else value}"
