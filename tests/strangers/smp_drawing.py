"""Draws what the sessions of a sequence do next, with an eye on what the model says is there."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.strangers.smp_model import BYE, Act, Cmd, Model, Queue, service_of

PLAIN = ("p0", "p1", "p2")
SERVICES = {"A": ("a1", "a2"), "B": ("b1", "b2"), "M": ("m1", "m2"), "N": ("n1", "n2")}
"""Of messages the first two, of notifications the others."""

CASTS = ["", "", "A", "A", "AB", "N", "AN", "ABN", "MN"]
"""Services that a sequence may have."""

OF_PLAIN = {
    "SUB": 22, "SEND": 30, "ACK": 22, "GET": 8, "NEW": 5, "DEL": 4, "KEY": 2, "SKEY": 2, "OFF": 1,
    "NKEY": 3, "NDEL": 2, "NSUB": 7, "SUBS": 1, "PING": 1,
}  # fmt: skip
OF_SERVICES = {
    "SUB": 24, "SUBS": 16, "SEND": 18, "ACK": 22, "NEW": 5, "DEL": 4, "KEY": 2, "OFF": 1,
    "NKEY": 3, "NDEL": 2, "NSUB": 1,
}  # fmt: skip
OF_NOTIFIERS = {"NSUB": 60, "NSUBS": 30, "SEND": 3, "SUBS": 2, "PING": 5}
WHICH = {"current": 75, "last": 9, "head": 6, "random": 5, "empty": 5}
"""How often each is drawn."""


@dataclass
class Script:
    """One sequence while it is drawn."""

    rng: random.Random
    sessions: list[str] = field(default_factory=list)
    length: int = 0
    made: int = 0
    sent: int = 0

    @classmethod
    def begin(cls, seed: str) -> Script:
        rng = random.Random(seed)
        services = [session for service in rng.choice(CASTS) for session in SERVICES[service]]
        plain = PLAIN[: rng.choice((2, 3))]
        return cls(rng, [*plain, *services], rng.randint(8, 20))

    def draw(self, model: Model) -> Act:
        rng = self.rng
        live = [queue.name for queue in model.live()]
        if len(live) < 2 and rng.random() < 0.7:
            session = rng.choice([s for s in self.sessions if service_of(s)[1] != "N"])
            return Act(session, (self._new(session),))
        joined = [session for session in self.sessions if session in model.sessions]
        if joined and rng.random() < 0.07:
            return Act(rng.choice(joined))
        session = rng.choice(self.sessions)
        roll = rng.random()
        if live and roll < 0.14:
            return self._subscribe_many(model, session, live)
        if live and roll < 0.26 and service_of(session)[1] != "N":
            queue = model.queues[rng.choice(live)]
            return Act(
                session, tuple(self._of(model, session, verb, queue) for verb in self._row())
            )
        size = 1 if roll < 0.68 else rng.choice((2, 2, 3, 3, 4, 6))
        # The commands of a block are often about one queue, so that they depend on each other.
        one = rng.choice(live) if live and rng.random() < 0.6 else None
        return Act(session, tuple(self._command(model, session, one) for _ in range(size)))

    def _subscribe_many(self, model: Model, session: str, live: list[str]) -> Act:
        service, role = service_of(session)
        verb = "NSUB" if role == "N" or self.rng.random() < 0.1 else "SUB"
        names = [self.rng.choice(live) for _ in range(self.rng.randint(2, 6))]
        block = tuple(Cmd(verb, name) for name in names)
        # Whether the SUB of a service that is gone still associates, no document says; nor whether
        # notices are lost with a session that may be gone before its NSUB is carried out.
        notifiers = [model.queues[name].notifier for name in names if verb == "NSUB"]
        is_clear = service is None and not any(each and each.waiting for each in notifiers)
        vanishes = is_clear and self.rng.random() < 0.25
        return Act(session, (*block, BYE) if vanishes else block)

    def _row(self) -> list[str]:
        """Commands about one queue that depend on one another."""
        if self.rng.random() < 0.4:
            return ["SEND"] * self.rng.randint(2, 5)
        return self.rng.choices(("SEND", "SUB", "ACK"), k=self.rng.randint(2, 5))

    def _new(self, session: str) -> Cmd:
        self.made += 1
        modes = ["S", "S", "SN", "SN", "C", "CN"] if service_of(session)[1] is None else ["S", "SN"]
        return Cmd("NEW", f"q{self.made - 1}", text=self.rng.choice(modes))

    def _command(self, model: Model, session: str, one: str | None) -> Cmd:
        rng = self.rng
        role = service_of(session)[1]
        names = list(model.queues)
        if not names:
            return self._new(session)
        live = [queue.name for queue in model.live()]
        name = one or rng.choice(live if live and rng.random() < 0.95 else names)
        weights = {None: OF_PLAIN, "M": OF_SERVICES, "N": OF_NOTIFIERS}[role]
        verb = _any_of(rng, weights)
        if one is None and rng.random() < 0.8:
            name = self._likely(model, session, verb) or name
        return self._of(model, session, verb, model.queues[name])

    def _likely(self, model: Model, session: str, verb: str) -> str | None:
        """A queue for which the command would do something."""
        subs = model.sessions[session].subs if session in model.sessions else {}
        likely: list[str] = []
        if verb == "ACK":
            likely = [name for name, sub in subs.items() if sub.delivered is not None]
        elif verb == "NSUB":
            likely = [queue.name for queue in model.live() if queue.notifier is not None]
        return self.rng.choice(likely) if likely else None

    def _of(self, model: Model, session: str, verb: str, queue: Queue) -> Cmd:
        subs = model.sessions[session].subs if session in model.sessions else {}
        is_subscribed = queue.name in subs and subs[queue.name].kind == "SUB"
        return self._fill(verb, queue, session, is_subscribed)

    def _fill(self, verb: str, queue: Queue, session: str, is_subscribed: bool) -> Cmd:
        rng, name = self.rng, queue.name
        match verb:
            case "NEW":
                return self._new(session)
            case "SEND":
                self.sent += 1
                key = queue.key or ""
                if rng.random() < 0.06:
                    key = rng.choice(("", "k1", "k2"))
                return Cmd(verb, name, key, f"m{self.sent}", rng.random() < 0.5)
            case "ACK":
                which = _any_of(rng, WHICH)
                if which == "empty" and not is_subscribed:
                    which = "current"  # what an empty ACK means after a GET, no document says
                return Cmd(verb, name, text=which)
            case "KEY" | "SKEY":
                if queue.is_off:
                    return Cmd("OFF", name)
                text = "forged" if rng.random() < 0.1 else ""
                return Cmd(verb, name, rng.choice(("k1", "k1", "k2")), text)
            case "NKEY" | "NDEL" if queue.is_off:
                return Cmd("OFF", name)
            case "SUB" | "NSUB":
                roll = rng.random()
                text = "forged" if roll < 0.03 else "unsigned" if roll < 0.06 else ""
                return Cmd(verb, name, text=text)
            case "SUBS" | "NSUBS":
                return Cmd(verb, text=rng.choice(("right", "right", "wrong")))
            case "PING":
                return Cmd(verb)
            case _:
                return Cmd(verb, name, text="forged" if rng.random() < 0.03 else "")


def _any_of(rng: random.Random, weights: Mapping[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
