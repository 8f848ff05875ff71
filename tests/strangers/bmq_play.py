"""One sequence, played step by step: what was done, what came of it, and whether that may be.

After every step all is quiet before anything is compared.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.strangers import bmq_wire as wire
from tests.strangers.bmq_expressions import Refused, tree
from tests.strangers.bmq_fleet import FIRST, Fleet
from tests.strangers.bmq_model import (
    FANOUT,
    SUCCESS,
    App,
    Difference,
    Message,
    Queue,
    Reader,
    Window,
    due,
    turns_are_fair,
)
from tests.strangers.bmq_steps import (
    BY_NAME,
    CLIENTS,
    UNKNOWN_APP,
    Close,
    Configure,
    Confirm,
    Draft,
    Leave,
    Look,
    Meddle,
    Open,
    Post,
    Repeat,
    Rush,
    Sequence,
    Step,
    Stray,
    Want,
)
from tests.strangers.bmq_wire import READ, WRITE, Acked, Answered, Pushed, Wanted

ROUNDS = 20
"""Fences that are given to messages that should have been delivered, and one for each of them: a
turn that has looked at enough messages leaves the rest to the next."""

SUB_IDS = {None: 0, "a": 1, "b": 2, "c": 3, UNKNOWN_APP: 4}
STRAY = 77
"""The number of a queue that nobody has open."""
DONE, REFUSED, INVALID = "E_SUCCESS", "E_REFUSED", "E_INVALID_ARGUMENT"
FAILURES = (REFUSED, INVALID, "E_UNKNOWN", "E_NOT_SUPPORTED")
"""Where the documents do not say which."""


@dataclass
class Move:
    """A step as it goes over the wire."""

    client: int
    data: bytes
    request: int | None
    """The number of the request, if it is one that is answered."""
    finish: Callable[[Answered | None], None]
    """Tells the model."""
    end: str = ""
    """How the connection ends, if that is what it is."""


@dataclass
class Play:
    """One sequence, step by step."""

    fleet: Fleet
    script: Sequence
    names: tuple[str, ...]
    """Of the queues."""
    told: list[str] = field(default_factory=list)
    """What happened, for people."""

    def __post_init__(self) -> None:
        self.queues = [
            Queue(f"bmq://{domain}/{name}", BY_NAME[domain])
            for domain, name in zip(self.script.domains, self.names, strict=True)
        ]
        for queue in self.queues:
            queue.siblings = [
                one for one in self.queues if one is not queue and one.domain is queue.domain
            ]
        self.handles: dict[tuple[int, int, str | None], int] = {}
        """By client, queue and app, the flags it was opened with."""
        self.posted: list[list[Message]] = [[] for _ in self.queues]
        self.orders = itertools.count(1)
        self.numbers = itertools.count(100)
        self._forget()

    def _forget(self) -> None:
        """Begin a step."""
        self.touched: set[int] = set()
        self.acks: dict[tuple[int, bytes], tuple[set[int], bool]] = {}
        """By client and message, the statuses it may be told, and whether it must be."""
        self.heard: dict[tuple[int, int, bytes], tuple[Message, bool, set[int]]] = {}
        """Broadcasts on their way, by client, queue and message."""
        self.given: dict[tuple[int, str], list[tuple[int, Message, int]]] = defaultdict(list)
        """Deliveries by queue and app: client, message, subscription."""
        self.equals: dict[tuple[int, str], list[str]] = {}
        """By queue and app, the clients that should share what was posted."""
        self.alternatives: dict[tuple[int, str], list[list[Window]]] = {}
        """If several clients acted at once: by queue and app, the subscriptions there may have
        been at some moment."""

    def run(self) -> None:
        for queue in range(len(self.queues)):
            self._take("     ", Open(0, queue, None, WRITE))
        for place, step in enumerate(self.script.steps):
            self._take(f"{place + 1:3}. ", step)
        self._end()

    def _end(self) -> None:
        """Everybody leaves, one reads what is left, and nothing must be left of it."""
        for client, number, name in list(self.handles):
            if client:
                self._take("end. ", Close(client, number, name))
        for number, queue in enumerate(self.queues):
            fanout = queue.domain.mode == FANOUT
            for app in queue.apps.values():
                if app.waiting:
                    name = app.name if fanout else None
                    if not fanout:
                        self._take("end. ", Close(0, number, None))
                    self._take("end. ", Open(0, number, name, READ))
                    self._take("end. ", Configure(0, number, name, (Want(None),)))
                    while app.readers[CLIENTS[0]].hands:  # a window holds a part of many
                        self._take("end. ", Confirm(0, number, name, None))
        for client, number, name in list(self.handles):
            self._take("end. ", Close(client, number, name))
        self._take("end. ", Look())

    # -- a step and what came of it

    def _take(self, place: str, step: Step) -> None:
        self._forget()
        self.told.append(place)
        if not self._do(step):
            self.told.pop()
            return
        if isinstance(step, Look | Rush):
            involved = set(range(len(CLIENTS)))
        else:
            involved = {step.client, *(client for client, _, _ in self.handles)}
        apps = [app for number in self.touched for app in self.queues[number].apps.values()]
        rounds = ROUNDS + sum(len(app.waiting) for app in apps)
        for turn in range(rounds):
            self.fleet.fence(involved)
            self._hear()
            missing = self._missing()
            if not missing:
                self.fleet.late += turn
                break
        else:
            raise Difference(missing)
        if self.fleet.is_slow and any(app.is_undecided() for app in apps):
            for _ in range(rounds):
                self.fleet.fence(involved)
            self._hear()
        if not self.alternatives:
            self._check_order()
        for number in self.touched:
            for app in self.queues[number].apps.values():
                app.park()

    def _say(self, text: str) -> None:
        self.told[-1] += text

    def _missing(self) -> str:
        """What should have arrived and has not."""
        for (client, guid), (_, must) in self.acks.items():
            if must:
                return f"{CLIENTS[client]} has no acknowledgement of {guid.hex()}"
        for (client, number, _), (message, must, _) in self.heard.items():
            if must:
                uri = self.queues[number].uri
                return f"{CLIENTS[client]} did not hear {message.label} of {uri}"
        for number in self.touched:
            queue = self.queues[number]
            for app in queue.apps.values():
                for message, window in app.stuck():
                    return (
                        f"{message.label} of {queue.uri} app {app.name!r} is stuck, though "
                        f"{window.reader.client} has room for [{window.text or 'everything'}]"
                    )
        return ""

    def _hear(self) -> None:
        """Compare what arrived with what may arrive."""
        frames, self.fleet.seen = self.fleet.seen, []
        for client, frame in frames:
            if isinstance(frame, Answered):
                raise Difference(f"{CLIENTS[client]} is told {frame}, and did not ask")
            if isinstance(frame, Acked):
                self._hear_ack(client, frame)
            else:
                self._hear_push(client, frame)

    def _hear_ack(self, client: int, frame: Acked) -> None:
        statuses, _ = self.acks.pop((client, frame.guid), (set(), False))
        if frame.status not in statuses:
            raise Difference(
                f"{CLIENTS[client]} is told {frame.status} of {frame.guid.hex()}, where "
                f"{sorted(statuses) or 'nothing'} was to be told"
            )

    def _hear_push(self, client: int, frame: Pushed) -> None:
        number = frame.queue - FIRST
        if not 0 <= number < len(self.queues):
            raise Difference(f"{CLIENTS[client]} was given {frame}, of a queue it does not have")
        queue = self.queues[number]
        message = next((one for one in self.posted[number] if one.guid == frame.guid), None)
        if message is None:
            raise Difference(f"{CLIENTS[client]} was given {frame}, which nobody posted")
        self._say(f"  -> {CLIENTS[client]} {message.label}")
        if number not in self.touched:
            raise Difference(
                f"{CLIENTS[client]} was given {message.label} of {queue.uri}, which nobody touched"
            )
        if frame.data != message.data:
            raise Difference(f"{CLIENTS[client]} was given {message.label} with other bytes")
        if len(frame.subscriptions) != 1:
            raise Difference(f"{CLIENTS[client]} was given {frame}, for one subscription?")
        (subscription,) = frame.subscriptions
        if queue.is_broadcast:
            _, _, allowed = self.heard.pop((client, number, frame.guid), (None, False, set()))
            if subscription not in allowed:
                raise Difference(
                    f"{CLIENTS[client]} heard {message.label} of {queue.uri} for subscription "
                    f"{subscription}, and should for {sorted(allowed) or 'none'}"
                )
            self.given[number, ""].append((client, message, subscription))
            return
        if self.alternatives:
            self._hear_rushed(client, number, message, subscription)
            return
        for app in queue.apps.values():
            reader = app.readers.get(CLIENTS[client])
            if reader and any(one.wanted.number == subscription for one in reader.windows):
                app.take(CLIENTS[client], frame.guid, subscription, queue.uri)
                self.given[number, app.name].append((client, message, subscription))
                return
        raise Difference(
            f"{CLIENTS[client]} was given {message.label} of {queue.uri} for subscription "
            f"{subscription}, which it does not have"
        )

    def _hear_rushed(self, client: int, number: int, message: Message, subscription: int) -> None:
        """A delivery while several clients acted: it was right at some moment."""
        queue = self.queues[number]
        for name, app in queue.apps.items():
            for windows in self.alternatives[number, name]:
                for window in due(windows, message):
                    if (window.reader.client, window.wanted.number) == (
                        CLIENTS[client],
                        subscription,
                    ):
                        app.take_in_a_rush(window, message, queue.uri)
                        return
        raise Difference(
            f"{CLIENTS[client]} was given {message.label} of {queue.uri} for subscription "
            f"{subscription}, which it was not due to at any moment"
        )

    def _check_order(self) -> None:
        """Each session gets its own in order, the oldest first, and equals take turns."""
        for (number, name), given in self.given.items():
            queue = self.queues[number]
            app = queue.apps[name]
            where = f"{queue.uri} app {name!r}"
            last: dict[int, Message] = {}
            newest: dict[tuple[str, int], Message] = {}
            for client, message, subscription in given:
                if message.guid in app.returned:
                    continue
                before = [newest.get((CLIENTS[client], subscription)), last.get(client)]
                newest[CLIENTS[client], subscription] = message
                if message.guid not in app.parked:
                    last[client] = message
                else:
                    before.pop()
                for newer in before:
                    if newer is not None and newer.order > message.order:
                        raise Difference(
                            f"{CLIENTS[client]} was given {message.label} of {where} after the "
                            f"newer {newer.label}"
                        )
            for waiting in app.waiting.values() if newest else ():
                for window in app.due(waiting) if waiting.guid not in app.returned else ():
                    newer = newest.get((window.reader.client, window.wanted.number))
                    if newer is not None and newer.order > waiting.order:
                        raise Difference(
                            f"{window.reader.client} was given {newer.label} of {where}, and the "
                            f"older {waiting.label} waits for it"
                        )
            if (number, name) in self.equals:
                counts = Counter(CLIENTS[client] for client, _, _ in given)
                if not turns_are_fair(counts[one] for one in self.equals[number, name]):
                    raise Difference(f"equals of {where} do not take turns: {counts}")

    # -- the steps

    def _do(self, step: Step) -> bool:
        """Take the step, here and in the model; False if it means nothing now."""
        if isinstance(step, Look):
            return self._look()
        if isinstance(step, Stray):
            return self._stray(step)
        if isinstance(step, Rush):
            return self._rush(step)
        move = self._prepare(step)
        if move is None:
            return False
        self._perform([move])
        return True

    def _perform(self, moves: list[Move]) -> None:
        """Do these at once, wait until all are done, and tell the model."""
        for move in moves:
            if move.end:
                self.fleet.end(move.client, move.end)
            else:
                self.fleet.lines[move.client].send(move.data)
        answers = [
            None if move.request is None else self.fleet.answer(move.client, move.request)
            for move in moves
        ]
        for move in moves:
            if move.end:
                self.fleet.come_back(move.client)
            elif move.request is None:
                self.fleet.fence([move.client])
        for move, answer in zip(moves, answers, strict=True):
            move.finish(answer)

    def _rush(self, step: Rush) -> bool:
        """Several clients act at once, each on something of its own."""
        before = {
            (number, name, client): reader.windows
            for number, queue in enumerate(self.queues)
            for name, app in queue.apps.items()
            for client, reader in app.readers.items()
        }
        moves: list[Move] = []
        for part in step.parts:
            self._say("; " if moves else "at once: ")
            if move := self._prepare(part):
                moves.append(move)
        if not moves:
            return False
        self._perform(moves)
        for number in self.touched:
            for name, app in self.queues[number].apps.items():
                if any(move.end for move in moves):
                    # Nobody saw what was given to those who left.
                    app.returned.update(app.waiting)
                choices = []
                for client in {at[2] for at in before if at[:2] == (number, name)}:
                    old = before[number, name, client]
                    reader = app.readers.get(client)
                    new = reader.windows if reader else []
                    choices.append([old] if new is old else [old, new])
                self.alternatives[number, name] = [
                    list(itertools.chain(*chosen)) for chosen in itertools.product(*choices)
                ]
        return True

    def _prepare(self, step: Step) -> Move | None:
        """None if the step means nothing now."""
        if isinstance(step, Post | Repeat):
            return self._post(step)
        if isinstance(step, Leave):
            return self._leave(step)
        if isinstance(step, Rush | Look | Stray):
            return None
        key = (step.client, step.queue, step.app)
        if isinstance(step, Open):
            return None if key in self.handles else self._open(step)
        if key not in self.handles:
            return None
        if isinstance(step, Close):
            return self._close(step)
        if not self.handles[key] & READ:
            return None
        if isinstance(step, Configure):
            return self._configure(step)
        return self._confirm(step)

    def _request(
        self, client: int, finish: Callable[[Answered], None], selection: int, *fields: bytes
    ) -> Move:
        number, data = self.fleet.lines[client].request(selection, *fields)

        def finished(answer: Answered | None) -> None:
            assert answer is not None
            finish(answer)

        return Move(client, data, number, finished)

    def _expect(self, answer: Answered, *categories: str) -> bool:
        """Whether it was done; raises Difference if it is answered otherwise than it must be."""
        self._say("" if answer.category == "E_SUCCESS" else f" = {answer.category} {answer.text}")
        if answer.category not in categories:
            raise Difference(f"answered {answer}, and should be {' or '.join(categories)}")
        return answer.category == "E_SUCCESS"

    def _handle(self, number: int, name: str | None, flags: int) -> bytes:
        uri = self.queues[number].uri + ("" if name is None else f"?id={name}")
        return wire.handle(uri, FIRST + number, SUB_IDS[name], name, flags)

    def _app(self, number: int, name: str | None) -> App | None:
        return self.queues[number].apps.get(name or "")

    def _open(self, step: Open) -> Move:
        queue = self.queues[step.queue]
        how = {READ: "reads", WRITE: "writes", READ | WRITE: "reads and writes"}[step.flags]
        self._say(f"{CLIENTS[step.client]} {how} {_queue(queue, step.app)}")
        most = queue.domain.consumers
        is_full = bool(step.flags & READ and most and queue.readers() >= most)

        def finish(answer: Answered) -> None:
            if self._expect(answer, REFUSED if is_full else DONE):
                self.handles[step.client, step.queue, step.app] = step.flags
                app = self._app(step.queue, step.app)
                if step.flags & READ and app is not None:
                    app.readers[CLIENTS[step.client]] = Reader(CLIENTS[step.client])

        handle = self._handle(step.queue, step.app, step.flags)
        return self._request(step.client, finish, wire.OPEN, handle)

    def _configure(self, step: Configure) -> Move:
        queue = self.queues[step.queue]
        wants = " ".join(map(str, step.wants)) or "nothing"
        plainly = " plainly" if step.plainly else ""
        self._say(f"{CLIENTS[step.client]} wants{plainly} of {_queue(queue, step.app)}: {wants}")
        sub_id = SUB_IDS[step.app]
        wanted = [
            Wanted(
                sub_id if step.plainly else next(self.numbers),
                want.text,
                want.priority,
                want.messages,
                want.bytes,
            )
            for want in step.wants
        ]
        number = FIRST + step.queue
        if step.plainly:
            one = wanted[0] if wanted else None
            fields = wire.configure_old(number, sub_id, step.app, one)
        else:
            fields = wire.configure(number, step.app, wanted)

        def finish(answer: Answered) -> None:
            if self._expect(answer, DONE if all(map(_is_usable, step.wants)) else INVALID):
                self.touched.add(step.queue)
                app = self._app(step.queue, step.app)
                if app is not None:
                    app.readers[CLIENTS[step.client]].configure(wanted)
                    app.changed()

        selection = wire.CONFIGURE_OLD if step.plainly else wire.CONFIGURE
        return self._request(step.client, finish, selection, *fields)

    def _close(self, step: Close) -> Move:
        queue = self.queues[step.queue]
        self._say(f"{CLIENTS[step.client]} closes {_queue(queue, step.app)}")
        flags = self.handles.pop((step.client, step.queue, step.app))
        is_last = not any(key[:2] == (step.client, step.queue) for key in self.handles)

        def finish(answer: Answered) -> None:
            self._expect(answer, DONE)
            app = self._app(step.queue, step.app)
            if flags & READ and app is not None:
                self.touched.add(step.queue)
                queue.leave(app, CLIENTS[step.client], crashed=False)

        handle = self._handle(step.queue, step.app, flags)
        last = wire.number(1, int(is_last))
        return self._request(step.client, finish, wire.CLOSE, handle, last)

    def _leave(self, step: Leave) -> Move:
        self._say(f"{CLIENTS[step.client]} is gone ({step.how})")
        left = [key for key in self.handles if key[0] == step.client]
        flags = {key: self.handles.pop(key) for key in left}

        def finish(answer: Answered | None) -> None:
            for client, number, name in left:
                app = self._app(number, name)
                if flags[client, number, name] & READ and app is not None:
                    self.touched.add(number)
                    self.queues[number].leave(app, CLIENTS[client], crashed=step.how != "stop")

        return Move(step.client, b"", None, finish, step.how)

    def _post(self, step: Post | Repeat) -> Move | None:
        queue = self.queues[step.queue]
        if not self.handles.get((step.client, step.queue, None), 0) & WRITE:
            return None
        posted = self.posted[step.queue]
        if isinstance(step, Post):
            messages = [self._message(draft) for draft in step.drafts]
            acks = [draft.ack for draft in step.drafts]
            posted += messages
        else:
            places = {place % len(posted) for place in step.places} if posted else set()
            if not places or queue.is_broadcast:
                return None
            for place in places:
                if posted[place].guid not in queue.seen:
                    posted[place] = replace(posted[place], order=next(self.orders))
            messages = [posted[place] for place in sorted(places, key=lambda at: posted[at].order)]
            acks = [True] * len(messages)
        verb = "posts" if isinstance(step, Post) else "repeats"
        labels = ", ".join(message.label for message in messages)
        self._say(f"{CLIENTS[step.client]} {verb} to {_queue(queue, None)}: {labels}")
        self.touched.add(step.queue)

        def finish(answer: Answered | None) -> None:
            taken: dict[str, list[Message]] = defaultdict(list)
            for message, ack in zip(messages, acks, strict=True):
                for name in self._accept(step, message, ack):
                    taken[name].append(message)
            for name, those in taken.items():
                self._find_equals(step.queue, queue.apps[name], those)

        frames = b"".join(
            wire.put(FIRST + step.queue, message.guid, message.data, bool(message.properties), ack)
            for message, ack in zip(messages, acks, strict=True)
        )
        return Move(step.client, wire.event(wire.PUT, frames), None, finish)

    def _accept(self, step: Post | Repeat, message: Message, ack: bool) -> list[str]:
        """The apps that have to store the message."""
        queue = self.queues[step.queue]
        statuses, takers = queue.post(message)
        if ack or SUCCESS not in statuses:
            self.acks[step.client, message.guid] = (statuses, ack)
        if not queue.is_broadcast:
            return takers
        for client, (must, numbers) in queue.audience(message).items() if takers else ():
            key = (CLIENTS.index(client), step.queue, message.guid)
            self.heard[key] = (message, must, numbers)
        return []

    def _find_equals(self, number: int, app: App, messages: list[Message]) -> None:
        """Note who has to share these messages, if it is a group whose members all have room."""
        whose = app.due(messages[0])
        if len(whose) < 2 or len({window.reader for window in whose}) < len(whose):
            return
        if len({window.text for window in whose}) > 1 or len(app.waiting) > len(messages):
            return
        size = sum(message.size for message in messages)
        for window in whose:
            _, _, most, most_bytes = window.reader.charges(window)
            if window.shut is not False or (
                most + len(messages) > window.wanted.messages
                or most_bytes + size > window.wanted.bytes
            ):
                return
        if all(set(app.due(message)) == set(whose) for message in messages):
            self.equals[number, app.name] = [window.reader.client for window in whose]

    def _message(self, draft: Draft) -> Message:
        order = next(self.orders)
        body = f"m{order}".encode().ljust(draft.body, b".")
        properties = {name: (kind, value) for name, kind, value in draft.properties}
        size = len(body) + sum(
            len(name) + wire.size_of(kind, value) for name, (kind, value) in properties.items()
        )
        return Message(
            self.fleet.guid(),
            order,
            properties,
            wire.application_data(properties, body),
            size,
            f"m{order}{draft}",
        )

    def _confirm(self, step: Confirm | Meddle) -> Move | None:
        queue = self.queues[step.queue]
        app = self._app(step.queue, step.app)
        if app is None:
            return None
        reader = app.readers[CLIENTS[step.client]]
        if isinstance(step, Meddle) or queue.is_broadcast:
            others = [one for one in self.posted[step.queue] if one.guid not in reader.hands]
            if not others:
                return None
            place = step.place if isinstance(step, Meddle) else 0
            messages = [others[place % len(others)]]
            verb = "meddles with"
        else:
            hands = [held.message for held in reader.hands.values()]
            if not hands:
                return None
            places = (
                range(len(hands))
                if step.places is None
                else sorted({place % len(hands) for place in step.places})
            )
            messages = [hands[place] for place in places]
            if step.twice:
                messages += messages
            verb = "confirms"
            self.touched.add(step.queue)
        labels = ", ".join(message.label for message in messages)
        self._say(f"{CLIENTS[step.client]} {verb} of {_queue(queue, step.app)}: {labels}")
        sub_id = SUB_IDS[step.app]

        def finish(answer: Answered | None) -> None:
            for message in messages:
                queue.confirm(app, CLIENTS[step.client], message.guid)

        entries = ((FIRST + step.queue, message.guid, sub_id) for message in messages)
        return Move(step.client, wire.confirms(entries), None, finish)

    def _stray(self, step: Stray) -> bool:
        self._say(f"{CLIENTS[step.client]} strays: {step.what}")
        if step.what == "post":
            guid = self.fleet.guid()
            put = wire.put(STRAY, guid, b"stray", False, True)
            self.acks[step.client, guid] = (set(range(1, 16)), True)
            self.fleet.lines[step.client].send(wire.event(wire.PUT, put))
            return True
        if step.what == "configure":
            everything = Wanted(next(self.numbers), None, 0, 10, 1000)
            fields = wire.configure(STRAY, None, [everything])
            answer = self.fleet.ask(step.client, wire.CONFIGURE, *fields)
            self._expect(answer, *FAILURES)
            return True
        uri, name = {
            "domain": ("bmq://nowhere/stray", None),
            "app": ("bmq://plain/stray?id=a", "a"),
            "no app": ("bmq://fan/stray", None),
            "close": ("bmq://plain/stray", None),
        }[step.what]
        handle = wire.handle(uri, STRAY, SUB_IDS[name], name, READ)
        if step.what == "close":
            answer = self.fleet.ask(step.client, wire.CLOSE, handle, wire.number(1, 1))
            self._expect(answer, *FAILURES)
        else:
            answer = self.fleet.ask(step.client, wire.OPEN, handle)
            self._expect(answer, REFUSED)
        return True

    def _look(self) -> bool:
        self._say("status")
        rows = {row["queue"]: row for row in self.fleet.router.status()["queues"]}
        for number, queue in enumerate(self.queues):
            expected = queue.figures()
            row = rows.get(queue.uri)
            said: dict[str, int] = dict.fromkeys(expected, 0)
            if row is not None:
                said = {"messages": row["messages"], "bytes": row["bytes"]}
                for app in row["apps"]:
                    for what in ("undelivered", "unconfirmed"):
                        if app[what] or app["app"] in queue.apps:
                            said[f"{what} of {app['app']!r}"] = app[what]
                    readers = any(
                        flags & READ and (number, name or "") == (place, app["app"])
                        for (_, place, name), flags in self.handles.items()
                    )
                    if not readers and (app["consumers"] or app["expressions"]):
                        raise Difference(f"{queue.uri} has consumers that left: {app}")
            if said != expected:
                raise Difference(f"/status.json says {said} of {queue.uri}, not {expected}")
        return True


def _queue(queue: Queue, app: str | None) -> str:
    return queue.uri.removeprefix("bmq://") + ("" if app is None else f"?id={app}")


def _is_usable(want: Want) -> bool:
    try:
        return want.text is None or bool(tree(want.text))
    except Refused:
        return False
