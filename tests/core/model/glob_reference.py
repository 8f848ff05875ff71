"""What a Redis pattern means, written to be read, and the index against it at length.

``python -m tests.core.model.glob_reference --count 1000000 --seed 7``

Nothing is shared with `headgate.core.model.glob`: the pattern is read byte by byte here, and a
table of what matches what takes the place of any cleverness.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import accumulate
from operator import or_
from random import Random, SystemRandom

from headgate.core.channels.pattern_index import PatternIndex
from headgate.core.model.glob import Glob

STAR = None
PATTERNS_PER_INDEX = 40
CHANNELS_PER_INDEX = 25


def matches(pattern: bytes, subject: bytes) -> bool:
    """Whether all of the subject matches all of the pattern."""
    if not subject:
        return not pattern  # not even a star matches the empty subject
    # reach[j]: the tokens so far match the first j bytes of the subject.
    reach = [True] + [False] * len(subject)
    for token in tokens(pattern):
        if token is STAR:
            reach = list(accumulate(reach, or_))  # from there on, everywhere
        else:
            reach = [False] + [r and b in token for r, b in zip(reach, subject, strict=False)]
    return reach[-1]


def tokens(pattern: bytes) -> list[set[int] | None]:
    """Each token is a star or the set of bytes that it admits."""
    found: list[set[int] | None] = []
    i = 0
    while i < len(pattern):
        byte = pattern[i : i + 1]
        i += 1
        if byte == b"*":
            found.append(STAR)
        elif byte == b"?":
            found.append(set(range(256)))
        elif byte == b"[":
            members, i = character_class(pattern, i)
            found.append(members)
        elif byte == b"\\" and i < len(pattern):
            found.append({pattern[i]})
            i += 1
        else:
            found.append(set(byte))
    return found


def character_class(pattern: bytes, i: int) -> tuple[set[int], int]:
    """The bytes that a class admits, and where it ends; `i` is behind its bracket."""
    members: set[int] = set()
    negated = pattern[i : i + 1] == b"^"
    if negated:
        i += 1
    while i < len(pattern):
        left = len(pattern) - i
        if pattern[i] == ord("\\") and left >= 2:
            members.add(pattern[i + 1])
            i += 2
        elif pattern[i] == ord("]"):
            i += 1
            break
        elif left >= 3 and pattern[i + 1] == ord("-"):
            ends = (pattern[i], pattern[i + 2])
            members.update(range(min(ends), max(ends) + 1))
            i += 3
        else:
            members.add(pattern[i])
            i += 1
    return (set(range(256)) - members if negated else members), i


# Drawing: few letters, so that things match; much punctuation, so that little is well-formed.

LETTERS = [b"a", b"b", b"c", b"z"]
ODD_BYTES = [b"\0", b"\n", b"\x7f", b"\x80", b"\xff", b"-", b"^", b"]", b"[", b"\\", b"*", b"?"]
FORMS = [
    b"*", b"*", b"**", b"?", b"[", b"]", b"-", b"^", b"\\", b"\\*", b"\\?", b"\\[", b"\\]", b"[ab]",
    b"[^ab]", b"[a-c]", b"[c-a]", b"[^c-a]", b"[a-", b"[a-]", b"[-a]", b"[^", b"[^]", b"[]",
    b"[\\]]", b"[\\", b"[a\\-z]", b"[+-]]", b"[+-\\]]", b"[+--]", b"[[]", b"[*]", b"[b]", b"[!a]",
    b"[\x80-\xff]", b"[a^]", b"abcabc", b"aaa",
]  # fmt: skip


def draw_pattern(random: Random) -> bytes:
    kinds = random.choice(((LETTERS, FORMS), (LETTERS, FORMS, ODD_BYTES), (LETTERS, [b"*", b"?"])))
    return b"".join(random.choice(random.choice(kinds)) for _ in range(random.randint(0, 9)))


def draw_subject(random: Random, pattern: bytes) -> bytes:
    """What the pattern matches, or nearly, or something else altogether."""
    if random.random() < 0.3:
        return b"".join(
            random.choice(LETTERS if random.random() < 0.8 else ODD_BYTES)
            for _ in range(random.randint(0, 12))
        )
    subject = bytearray()
    for token in tokens(pattern):
        if token is STAR:
            subject += b"".join(random.choices(LETTERS, k=random.randint(0, 4)))
        elif token:
            likely = sorted(token & set(b"".join(LETTERS + ODD_BYTES))) or sorted(token)
            subject.append(random.choice(likely))
    if subject and random.random() < 0.3:
        change = random.randrange(len(subject))
        subject[change : change + 1] = random.choice([b"", b"a", b"]", b"ab"])
    return bytes(subject)


def compare(count: int, seed: int) -> Counter[bool]:
    """Draw so many pairs of a pattern and a channel; how many match.

    Each pair is put to this reference and to a glob. The patterns of a group are put into an
    index, some are taken out and put back, and its answer is the list of those that match.
    """
    random = Random(seed)
    outcomes: Counter[bool] = Counter()
    while outcomes.total() < count:
        drawn = dict.fromkeys(draw_pattern(random) for _ in range(PATTERNS_PER_INDEX))
        index = PatternIndex(scan_max=random.choice((0, PATTERNS_PER_INDEX)))
        for pattern in drawn:
            index.add(pattern)
        for pattern in random.sample(list(drawn), len(drawn) // 4):
            index.remove(pattern)
            del drawn[pattern]
            if random.random() < 0.5:
                index.add(pattern)
                drawn[pattern] = None
        globs = [Glob(pattern) for pattern in drawn]
        for _ in range(CHANNELS_PER_INDEX):
            channel = draw_subject(random, random.choice(globs).pattern)
            wanted = []
            for glob in globs:
                match = matches(glob.pattern, channel)
                assert glob.matches(channel) is match, f"seed {seed}: {glob.pattern!r} {channel!r}"
                outcomes[match] += 1
                if match:
                    wanted.append(glob.pattern)
            assert index.matching(channel) == tuple(wanted), f"seed {seed}: {channel!r}"
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    options = parser.parse_args()
    started = time.monotonic()
    outcomes = compare(options.count, options.seed)
    seconds = time.monotonic() - started
    print(
        f"seed {options.seed}: {outcomes.total()} pairs agree, "
        f"{outcomes[True]} of them match, {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
