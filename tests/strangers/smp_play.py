"""One sequence in a world, step by step, and everything that is received against the model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import pack
from tests.strangers.smp_drawing import SERVICES, Script
from tests.strangers.smp_model import BYE, Act, Cmd, Model, Outcome, Said, service_of
from tests.strangers.smp_names import Draft, Names
from tests.strangers.smp_world import FLUSH, QUOTA, Difference, Frame, Listener, World

READER = "r0"
"""The plain session that reads everything in the end."""

LOSSES = ("END", "DELD", "ENDS")

NOTHING_LEFT = (
    "services_subscribed",
    "service_queues_subscribed",
    "notifiers_subscribed",
    "queues_subscribed",
    "deliveries_unconfirmed",
    "notices_waiting",
)
"""Gauges that are 0 when every queue was deleted and every service has left."""

EVERYBODY = 4
"""Of so many steps after one everybody is asked whether there is more; after the others those who
take part."""


@dataclass(frozen=True)
class Asked:
    """A command under way."""

    cmd: Cmd
    entity: bytes
    draft: Draft | None


class Play:
    """`acts` is what was played so far, the one that failed included."""

    def __init__(self, world: World, model: Model | None = None) -> None:
        self.world = world
        self.model = model or Model(QUOTA)
        self.names = Names(self.model, world.service_ids)
        self.acts: list[Act] = []

    async def draw(self, script: Script) -> None:
        await self._begin(script.sessions)
        for _ in range(script.length):
            await self.step(script.draw(self.model))
        await self._close()

    async def replay(self, sessions: Iterable[str], acts: Iterable[Act]) -> None:
        """Raises `Difference` as `draw` does. What a shorter sequence cannot do is left out."""
        await self._begin(sessions)
        for act in acts:
            await self.step(act)
        await self._close()

    async def step(self, act: Act) -> None:
        commands = tuple(
            cmd
            for cmd in act.commands
            if cmd.verb in ("NEW", "PING", "SUBS", "NSUBS") or cmd.queue in self.model.queues
        )
        vanishes = BYE in act.commands
        if not commands and (act.commands or act.session not in self.model.sessions):
            return
        act = Act(act.session, commands)
        self.acts.append(Act(act.session, (*commands, BYE)) if vanishes else act)
        self.world.steps += 1
        if not commands:
            await self.world.part(act.session)
            await self._compare(act, {}, self.model.leave(act.session))
            return
        client = await self.world.meet(act.session)
        self.model.join(act.session)
        means = self.model.means(act)
        asked: dict[bytes, Asked] = {}
        encoded = []
        for cmd, meant in zip(commands, means, strict=True):
            correlation = self.world.correlation()
            request, draft = self.names.request(act.session, cmd, meant, correlation)
            asked[correlation] = Asked(cmd, request.entity, draft)
            encoded.append(client.encode(request))
        for payload in pack(encoded):
            await client.send_block(payload)
        if vanishes:
            await self.world.part(act.session, at_once=False)
            await self._compare(Act(act.session), {}, self.model.vanish(act, means))
        else:
            await self._compare(act, asked, self.model.block(act, means))

    # Beginning and end.

    async def _begin(self, sessions: Iterable[str]) -> None:
        for name in (*sessions, READER):
            if service_of(name)[0] is None:
                await self.world.meet(name)
                self.model.join(name)

    async def _close(self) -> None:
        """Tallies are asked for, everything is read, and nothing is left."""
        for service in sorted({service_of(act.session)[0] or "" for act in self.acts} - {""}):
            session = SERVICES[service][0]
            verb = "SUBS" if service_of(session)[1] == "M" else "NSUBS"
            await self.step(Act(session, (Cmd(verb, text="right"),)))
        left = [queue.name for queue in self.model.live()]
        if left:
            await self.step(Act(READER, tuple(Cmd("SUB", name) for name in left)))
            while waiting := [queue.name for queue in self.model.live() if queue.messages]:
                acks = tuple(Cmd("ACK", name, text="current") for name in waiting)
                await self.step(Act(READER, acks))
            await self.step(Act(READER, tuple(Cmd("DEL", name) for name in left)))
        for name in [name for name in self.world.clients if service_of(name)[0] is not None]:
            await self.step(Act(name))
        await asyncio.sleep(2 * FLUSH)
        await self.world.fence(self.world.clients)
        for name, client in self.world.clients.items():
            if client.frames:
                told = [self.names.tell(frame) for frame in client.frames]
                raise Difference(f"{name} was told in the end: {told}")
        gauges = self.world.gauges()
        for gauge in NOTHING_LEFT:
            if gauges[gauge]:
                raise Difference(f"in the end {gauge} is {gauges[gauge]}")

    # Comparing.

    async def _compare(self, act: Act, asked: dict[bytes, Asked], outcome: Outcome) -> None:
        clients = self.world.clients
        involved = [name for name in clients if name == act.session or name in outcome.events]
        for name in involved:
            answers = len(asked) if name == act.session else 0
            await self._wait(name, clients[name], answers, asked, outcome)
        all_of_them = len(self.acts) % EVERYBODY == 0
        await self.world.fence(clients if all_of_them else involved)
        # Who asked comes first: its answers have ids that others are told of.
        for name in sorted(clients, key=lambda name: name != act.session):
            frames, clients[name].frames = clients[name].frames, []
            answers_here = [frame for frame in frames if frame.correlation in asked]
            if name == act.session:
                self._compare_answers(asked, outcome.answers, answers_here)
                self._answers_come_first(asked, frames)
            elif answers_here:
                raise Difference(f"{name} has an answer that {act.session} waited for")
            events = [frame for frame in frames if frame.correlation not in asked]
            self._compare_events(name, outcome.events.get(name, []), events)
            if [cmd.verb for cmd in act.commands] == ["SUBS"] and r.Alls() in [
                e.reply for e in events[:-1]
            ]:
                raise Difference(f"{name} was told something after ALLS")
        if not act.commands:
            await self.world.settles(self.model.gauges())
        gauges = self.world.gauges()
        for gauge, value in self.model.gauges().items():
            if gauges[gauge] != value:
                raise Difference(f"{gauge} is {gauges[gauge]}, not {value}")

    async def _wait(
        self,
        name: str,
        client: Listener,
        answers: int,
        asked: dict[bytes, Asked],
        outcome: Outcome,
    ) -> None:
        """Until all has come: losses and notices leave on a timer."""
        told = outcome.events.get(name, [])
        wanted = Counter(said.word for said in told)

        def has_come() -> bool:
            words = Counter(
                frame.reply.tag.decode()
                for frame in client.frames
                if frame.correlation not in asked
            )
            return len(client.frames) >= answers + wanted.total() and wanted <= words

        if not await client.until(has_come, self.world.patience):
            want = [*map(str, outcome.answers if answers else ()), *map(str, told)]
            have = [self.names.tell(frame) for frame in client.frames]
            raise Difference(f"{name} waits for {want} and has {have}")

    def _compare_answers(
        self, asked: dict[bytes, Asked], wanted: list[Said], got: list[Frame]
    ) -> None:
        by_correlation = {frame.correlation: frame for frame in got}
        if by_correlation.keys() != asked.keys() or len(got) != len(asked):
            raise Difference(f"answers: {[self.names.tell(frame) for frame in got]}")
        for correlation, said in zip(asked, wanted, strict=True):
            question, frame = asked[correlation], by_correlation[correlation]
            self.names.learn(question.cmd, question.draft, frame.reply)
            if not self.names.fits(said, frame):
                told = self.names.tell(frame)
                raise Difference(f"the answer to {question.cmd} is {told}, not {said}")
            if isinstance(frame.reply, r.Err) and frame.entity != question.entity:
                raise Difference(f"the error of {question.cmd} names something else")
        if [frame.correlation for frame in got] != list(asked):
            came = [self.names.tell(frame) for frame in got]
            raise Difference(f"answers in another order than the commands: {came}")

    def _answers_come_first(self, asked: dict[bytes, Asked], frames: list[Frame]) -> None:
        """Of a block, before what is pushed because of it."""
        pushed = False
        for frame in frames:
            if frame.correlation not in asked:
                pushed |= isinstance(frame.reply, r.Msg)
            elif pushed:
                raise Difference(f"a message came before the answer {self.names.tell(frame)}")

    def _compare_events(self, name: str, wanted: list[Said], got: list[Frame]) -> None:
        """In their order for each queue, and losses in their order."""
        lines: dict[str, list[Said]] = {}
        for said in wanted:
            lines.setdefault(said.about, []).append(said)
        for frame in got:
            told = self.names.tell(frame)
            if frame.correlation:
                raise Difference(f"{name} was told {told} with a correlation")
            line = lines.get(self.names.name(frame.entity), [])
            if not line:
                raise Difference(f"{name} was told {told} without a reason")
            said = line.pop(0)
            if not self.names.fits(said, frame):
                raise Difference(f"{name} was told {told}, not {said}")
        missing = [str(said) for line in lines.values() for said in line]
        if missing:
            raise Difference(f"{name} was not told {missing}")
        losses = [said.about for said in wanted if said.word in LOSSES]
        heard = [self.names.name(f.entity) for f in got if f.reply.tag.decode() in LOSSES]
        if losses != heard:
            raise Difference(f"{name} was told of losses in the order {heard}, not {losses}")
