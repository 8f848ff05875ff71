"""Settings of a listener that can change while it runs, and how their values read as texts.

The texts, and the reasons for refusing one, are those of Redis: tools that tune a Redis send
``64mb`` and ``pubsub 32mb 8mb 60``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, get_args

SlowPolicy: TypeAlias = Literal["wait", "close", "drop-oldest"]

UNLIMITED = 2**63 - 1
"""Bytes of a limit that reads 0, which is none."""

UNITS: dict[str, int] = {"": 1, "b": 1} | {
    unit + end: base**power
    for power, unit in enumerate("kmg", start=1)
    for end, base in (("", 1000), ("b", 1024))
}
MEMORY = re.compile(r"([0-9]{1,18})([a-z]{0,2})")
INTEGER = re.compile(r"-?[0-9]{1,18}")
SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?")

SECONDS_MAX = 2**31 - 1
EXPIRED = "xE"
"""The only events there are, as Redis writes them back."""

CLASSES = {"normal": "normal", "slave": "slave", "replica": "slave", "pubsub": "pubsub"}
"""Of clients, by the names that a setting may use, with the one that is written back."""


class OutputLimit(NamedTuple):
    """The limit for clients of some class: bytes that may wait, bytes for a while, and for how
    long."""

    hard: int
    soft: int
    seconds: int


@dataclass(slots=True, kw_only=True)
class Settings:
    """Settings of a listener that can change while it runs. The limits of mailboxes are in the
    budget, the password is the default user's."""

    host: str = "127.0.0.1"
    port: int = 0
    process_id: int = 0
    """For who asks which process listens there."""
    notify_keyspace_events: str = ""
    """Nothing, or ``Ex``: keys that expire are published."""
    slow_session: SlowPolicy = "wait"
    slow_timeout: float = 60.0
    """Seconds; 0 is never."""
    dispatch_quota: int = 100
    max_clients: int = 100_000
    output_limits: dict[str, OutputLimit] = field(
        default_factory=lambda: {
            "normal": OutputLimit(0, 0, 0),
            "slave": OutputLimit(268435456, 67108864, 60),
        }
    )
    """Of the classes that Headgate has no use for: remembered, and nothing else."""

    @property
    def notifies_expired(self) -> bool:
        return bool(self.notify_keyspace_events)


# Texts to values. A text that is none raises ValueError with the reason.


def memory(text: str) -> int:
    """Bytes: ``100``, ``64k`` (thousands), ``64kb`` (1024s)."""
    found = MEMORY.fullmatch(text.lower())
    if found is None or found[2] not in UNITS:
        raise ValueError("argument must be a memory value")
    return int(found[1]) * UNITS[found[2]]


def limit(text: str) -> int:
    """Bytes, of which 0 is no limit."""
    return memory(text) or UNLIMITED


def whole(text: str, least: int, most: int) -> int:
    if not INTEGER.fullmatch(text):
        raise ValueError("argument couldn't be parsed into an integer")
    number = int(text)
    if not least <= number <= most:
        raise ValueError(f"argument must be between {least} and {most} inclusive")
    return number


def seconds(text: str) -> float:
    if not SECONDS.fullmatch(text):
        raise ValueError("argument must be a number of seconds")
    return float(text)


def slow_policy(text: str) -> SlowPolicy:
    policies: tuple[SlowPolicy, ...] = get_args(SlowPolicy)
    for policy in policies:
        if text.lower() == policy:
            return policy
    raise ValueError(f"argument(s) must be one of the following: {', '.join(policies)}")


def events(text: str) -> str:
    """Nothing, or that keys expired: both letters, in any order and case."""
    # S002-77, RESP-70: expired keys, or nothing.
    if text and set(text.lower()) != {"e", "x"}:
        raise ValueError("only expired keys can be published: use 'Ex', or '' for nothing")
    return EXPIRED if text else ""


def output_limits(text: str) -> dict[str, OutputLimit]:
    """Limits by class; the later of two for one class counts."""
    words = text.lower().split()
    if len(words) % 4:
        raise ValueError("Wrong number of arguments in buffer limit configuration.")
    limits = {}
    for start in range(0, len(words), 4):
        name, hard, soft, duration = words[start : start + 4]
        if name not in CLASSES:
            raise ValueError("Invalid client class specified in buffer limit configuration.")
        try:
            of_class = OutputLimit(memory(hard), memory(soft), whole(duration, 0, SECONDS_MAX))
        except ValueError:
            raise ValueError(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration."
            ) from None
        limits[CLASSES[name]] = of_class
    return limits


# Values to texts.


def limit_text(size: int) -> str:
    return "0" if size >= UNLIMITED else str(size)


def seconds_text(duration: float) -> str:
    return f"{duration:.3f}".rstrip("0").rstrip(".")


def output_limits_text(limits: Mapping[str, OutputLimit]) -> str:
    return " ".join(f"{name} {hard} {soft} {s}" for name, (hard, soft, s) in limits.items())


def yes_or_no(is_so: bool) -> str:
    return "yes" if is_so else "no"


def spellings(name: str) -> Iterable[str]:
    """A setting is also known with underscores, as Dragonfly has them."""
    return dict.fromkeys((name, name.replace("-", "_")))
